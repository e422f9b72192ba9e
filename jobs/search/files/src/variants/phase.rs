//! Which alleles of a sample are known to be on one haplotype: those of one phase set.
//!
//! `0|1` says which allele is on which haplotype **within a phase set** (VCF 4.3, 1.6.2). Genotypes
//! that name none (PS) are of one set together, which is not that of any that names one. Sets are
//! of one chromosome. A sample with two alike alleles, or with one, needs none.

use super::Variant;
use std::fmt;
use std::sync::Arc;

/// A phase set as a file names it (PS), or the one of genotypes that name none.
pub type PhaseSet = Option<i64>;

/// A sample that has alleles of two phase sets, so that nobody knows how they go together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherSet {
    /// Where, as `20:100`.
    pub place: String,
    /// The sample's number among the chosen ones.
    pub sample: usize,
    /// The set of before; none if the sites of before are of another file.
    pub before: Option<PhaseSet>,
    /// The set here.
    pub found: PhaseSet,
}

impl fmt::Display for OtherSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, sample, before, found } = self;
        let named = |set: &PhaseSet| set.map_or("no phase set".to_owned(), |set| format!("phase set {set}"));
        let before = before.as_ref().map_or("sites of another file".to_owned(), named);
        let found = named(found);
        write!(
            f,
            "expected one phase set (PS) of a sample on a chromosome, found {found} after {before} at {place} in \
             sample {}: nobody knows which of their alleles are on one haplotype",
            sample + 1
        )
    }
}

/// The phase sets of sites that become one panel or one question.
#[derive(Clone, Debug, Default)]
pub struct PhaseSets {
    chromosome: Arc<str>,
    /// By sample, the set of its first site with two different alleles.
    of: Vec<Option<PhaseSet>>,
    /// A chromosome of which another file gave the sites of before.
    earlier: Option<Arc<str>>,
}

impl PhaseSets {
    /// Of sites that go on after those of another file, the last of which was on this chromosome:
    /// there, sites at which a sample has two different alleles are rejected. Start with
    /// [`Self::default`] where both files are of one phasing.
    pub fn after(chromosome: Arc<str>) -> Self {
        Self { earlier: Some(chromosome), ..Self::default() }
    }

    /// Joins a variant to those of before.
    ///
    /// # Errors
    /// [`OtherSet`] for the first sample of which that would be guessing.
    pub fn join(&mut self, variant: &Variant) -> Result<(), OtherSet> {
        if variant.chromosome != self.chromosome {
            (self.chromosome, self.of) = (Arc::clone(&variant.chromosome), Vec::new());
        }
        let earlier = self.earlier.as_ref() == Some(&variant.chromosome);
        for (sample, found) in &variant.sets {
            let (sample, found) = (*sample as usize, *found);
            if self.of.len() <= sample {
                self.of.resize(sample + 1, None);
            }
            let other = |before| {
                let place = format!("{}:{}", variant.chromosome, variant.position);
                Err(OtherSet { place, sample, before, found })
            };
            match &mut self.of[sample] {
                Some(before) if *before == found => {}
                Some(before) => return other(Some(*before)),
                // a set of one file is none of another's, named or not
                None if earlier => return other(None),
                none => *none = Some(found),
            }
        }
        Ok(())
    }
}
