//! A simulated panel, and questions about it: for the demonstration and the benchmark.

use tobari_command::output::Failure;
use tobari_command::randomness;
use tobari_search::simulated::Numbers;
use tobari_search::table::{Content, Site, Table};

/// A table of haplotypes, site after site, with simulated positions.
pub fn table(columns: &[Vec<bool>]) -> Result<Table, Failure> {
    let mut content = Content::panel(columns.first().map_or(0, Vec::len))?;
    for (index, alleles) in columns.iter().enumerate() {
        let (position, [reference, alternate]) = (1_000 + 50 * index as u64, ["A", "G"].map(Into::into));
        let site = Site { chromosome: "chr20".into(), position, id: None, reference, alternate };
        content.push_site(site, alleles)?;
    }
    Ok(Table::new(content, 1, "simulated", &mut randomness::generator()?))
}

/// First sites of questions, with the alleles of one haplotype there. In every other question one
/// allele is changed.
pub fn questions(columns: &[Vec<bool>], length: usize, count: usize) -> Vec<(usize, u128)> {
    let mut numbers = Numbers::new(length as u64);
    let one = |index: usize| {
        let start = numbers.below(columns.len() - length + 1);
        let haplotype = numbers.below(columns[start].len());
        let alleles = columns[start..start + length].iter().enumerate();
        let pattern = alleles.fold(0, |pattern, (i, column)| pattern | u128::from(column[haplotype]) << i);
        (start, pattern ^ if index % 2 == 1 { 1 << numbers.below(length) } else { 0 })
    };
    (0..count).map(one).collect()
}
