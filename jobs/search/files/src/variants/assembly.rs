//! The assembly of a file's positions, as its header tells.
//!
//! Four things in a header tell the assembly: `##reference`, the field `assembly` of `##contig`, a
//! contig whose name is a RefSeq accession, and the length of a human chromosome. Many files have
//! none of them, and a file that was lifted over may have an old line. So nothing is guessed: a
//! header that tells two assemblies is an error, until the user names one of them.

use std::collections::BTreeMap;
use tobari_search::table::{Accession, HumanAssembly, canonical_chromosome, is_mitochondrial, same_assembly};

/// Bases of the mitochondrial sequence of hg19, and of that of GRCh37.
const MITOCHONDRIAL: [u64; 2] = [16_571, 16_569];

/// What a header tells of the assembly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToldAssembly {
    /// The human assemblies, each with the first line that tells it.
    human: BTreeMap<HumanAssembly, String>,
    /// Other names in the field `assembly` of contigs. A file may have several for one assembly.
    others: BTreeMap<String, String>,
    /// Whether some text names hg19 itself.
    hg19: bool,
    /// The length of the mitochondrial sequence.
    mitochondrial: Option<u64>,
}

/// Other names of assemblies that are kept: more tell nothing.
const MAX_OTHERS: usize = 2;

impl ToldAssembly {
    /// Reads a line `##reference=…`.
    pub(super) fn reference(&mut self, path: &str) {
        if let Some(assembly) = HumanAssembly::within(path) {
            self.hg19 |= path.to_ascii_lowercase().contains("hg19");
            self.human.entry(assembly).or_insert_with(|| format!("##reference={path}"));
        }
    }

    /// Reads a contig.
    pub(super) fn contig(&mut self, name: &str, length: Option<&str>, assembly: Option<&str>) {
        if let Some(text) = assembly.map(|text| text.trim_matches('"')).filter(|text| !text.is_empty()) {
            let line = || format!("assembly={text} of contig {name}");
            match HumanAssembly::named(text).or_else(|| HumanAssembly::within(text)) {
                Some(assembly) => {
                    self.hg19 |= text.to_ascii_lowercase().contains("hg19");
                    self.human.entry(assembly).or_insert_with(line);
                }
                None if self.others.len() < MAX_OTHERS => {
                    self.others.entry(text.to_owned()).or_insert_with(line);
                }
                None => {}
            }
        }
        if let Some(Accession { assemblies: [only], .. }) = Accession::read(name)
            && let Some(assembly) = HumanAssembly::named(only)
        {
            self.human.entry(assembly).or_insert_with(|| format!("the name of contig {name}"));
        }
        let Some(length) = length.and_then(|length| length.parse().ok()) else { return };
        if is_mitochondrial(name) {
            self.mitochondrial = Some(length).filter(|length| MITOCHONDRIAL.contains(length));
        }
        let chromosome = Accession::read(name).map_or(canonical_chromosome(name), |accession| accession.chromosome);
        if let Some(assembly) = HumanAssembly::of_length(chromosome, length) {
            self.human.entry(assembly).or_insert_with(|| format!("length={length} of contig {name}"));
        }
    }

    /// The name of the assembly; none if the header does not tell it. `declared`: the name that the
    /// user gives.
    ///
    /// # Errors
    /// Text that says which lines tell different assemblies, or another one than the user.
    pub fn resolve(&self, declared: Option<&str>) -> Result<Option<String>, String> {
        let told: Vec<String> =
            self.human.iter().map(|(assembly, line)| format!("{} ({line})", assembly.name())).collect();
        if let Some(declared) = declared {
            let human = HumanAssembly::named(declared);
            let agrees = match (self.human.is_empty(), self.others.len()) {
                (false, _) => human.is_some_and(|human| self.human.contains_key(&human)),
                (true, 1) => self.others.keys().all(|other| same_assembly(other, declared, "1").is_ok()),
                (true, _) => true,
            };
            if !agrees {
                let others = self.others.iter().map(|(name, line)| format!("{name} ({line})"));
                let found = told.into_iter().chain(others).collect::<Vec<_>>().join(", ");
                return Err(format!(
                    "expected positions of {declared} as --assembly says, but the header tells {found}: correct the \
                     option, or the header (bcftools reheader)"
                ));
            }
            return Ok(Some(declared.to_owned()));
        }
        let mut human = self.human.keys();
        match (human.next(), human.next()) {
            (None, _) => Ok(self.others.keys().next().filter(|_| self.others.len() == 1).cloned()),
            (Some(HumanAssembly::Grch37), None) if self.is_hg19() => Ok(Some("hg19".to_owned())),
            (Some(one), None) => Ok(Some(one.name().to_owned())),
            (Some(_), Some(_)) => Err(format!(
                "expected a header of one assembly, found {}: name the right one with --assembly",
                told.join(" and ")
            )),
        }
    }

    /// Of the two names of one assembly: their mitochondrial sequences are different.
    fn is_hg19(&self) -> bool {
        match self.mitochondrial {
            Some(length) => length == MITOCHONDRIAL[0],
            None => self.hg19,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    /// A header's lines: a path of the reference, or a contig.
    fn told(reference: Option<&str>, contigs: &[(&str, &str, &str)]) -> ToldAssembly {
        let mut told = ToldAssembly::default();
        reference.iter().for_each(|path| told.reference(path));
        let some = |text: &'static str| Some(text).filter(|text| !text.is_empty());
        for (name, length, assembly) in contigs {
            let [length, assembly] = [length, assembly].map(|text| some(String::from(*text).leak()));
            told.contig(name, length, assembly);
        }
        told
    }

    #[test]
    fn each_line_that_tells_an_assembly_is_enough() {
        for (reference, contigs, expected) in [
            (Some("file:///refs/GRCh38_full.fa"), &[("chr20", "", "")][..], Some("GRCh38")),
            (None, &[("20", "64444167", "")], Some("GRCh38")),
            (None, &[("chr20", "66210255", "")], Some("T2T-CHM13v2.0")),
            (None, &[("NC_000020.11", "", "")], Some("GRCh38")),
            (None, &[("20", "", "b37")], Some("GRCh37")),
            (None, &[("20", "63025520", "\"GRCh37.p13\"")], Some("GRCh37")),
            (None, &[("chr20", "63025520", "hg19")], Some("hg19")),
            (None, &[("chrM", "16571", ""), ("chr20", "63025520", "")], Some("hg19")),
            (None, &[("chrM", "16569", ""), ("chr20", "63025520", "hg19")], Some("GRCh37")),
            // a mouse, whose chromosomes have other lengths
            (None, &[("1", "195154279", "GRCm39"), ("2", "181755017", "GRCm39")], Some("GRCm39")),
            // nothing is guessed
            (None, &[("20", "", "")], None),
            (Some("reference.fa"), &[("20", "123", "")], None),
            (None, &[("1", "", "decoys"), ("2", "", "viruses"), ("3", "", "others")], None),
            (None, &[("chrM", "16569", "")], None),
        ] {
            let found = told(reference, contigs).resolve(None).unwrap();
            assert_eq!(found.as_deref(), expected, "{reference:?} {contigs:?}");
        }
    }

    #[test]
    fn a_header_of_two_assemblies_or_of_another_than_the_user_says_is_an_error() {
        let two = told(Some("/refs/hg19.fa"), &[("chr20", "64444167", "")]);
        let refused = two.resolve(None).unwrap_err();
        let both = "GRCh37 (##reference=/refs/hg19.fa) and GRCh38 (length=64444167 of contig chr20)";
        assert!(refused.contains(both) && refused.contains("--assembly"), "{refused}");
        assert_eq!(two.resolve(Some("hg38")).unwrap().as_deref(), Some("hg38"));
        let refused = two.resolve(Some("hs1")).unwrap_err();
        assert!(refused.contains("positions of hs1") && refused.contains(both.split(' ').next().unwrap()), "{refused}");
        let one = told(None, &[("20", "63025520", "")]);
        assert!(one.resolve(Some("GRCh38")).unwrap_err().contains("tells GRCh37 (length=63025520 of contig 20)"));
        assert_eq!(one.resolve(Some("hg19")).unwrap().as_deref(), Some("hg19"));
        let mouse = told(None, &[("1", "", "GRCm38")]);
        assert!(mouse.resolve(Some("GRCm39")).unwrap_err().contains("GRCm38 (assembly=GRCm38 of contig 1)"));
        assert_eq!(told(None, &[]).resolve(Some("TAIR10")).unwrap().as_deref(), Some("TAIR10"));
    }
}
