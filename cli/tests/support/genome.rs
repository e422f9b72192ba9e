//! Simulated haplotypes as a VCF.

use std::fmt::Write;

/// The position of a site: every tenth site shares the position of the site before it.
pub fn position(site: usize) -> usize {
    1_000 + 30 * (site - usize::from(site % 10 == 9))
}

/// The alternate allele.
pub fn alternate(site: usize) -> &'static str {
    if site % 10 == 9 { "AG" } else { "C" }
}

/// A phased VCF of the sites from `first` on, two haplotypes a sample.
pub fn vcf(columns: &[Vec<bool>], first: usize) -> String {
    let samples = columns.first().map_or(0, Vec::len) / 2;
    let mut text =
        "##fileformat=VCFv4.2\n##contig=<ID=chr20>\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT".to_owned();
    (0..samples).for_each(|sample| write!(text, "\tS{sample}").unwrap());
    for (site, column) in columns.iter().enumerate() {
        let site = first + site;
        write!(text, "\nchr20\t{}\t.\tA\t{}\t.\tPASS\t.\tGT", position(site), alternate(site)).unwrap();
        for pair in column.chunks_exact(2) {
            text += ["\t0|0", "\t0|1", "\t1|0", "\t1|1"][usize::from(pair[0]) * 2 + usize::from(pair[1])];
        }
    }
    text + "\n"
}
