//! Phase sets: the alleles of a sample that are known to be on one haplotype.
//!
//! `0|1` assigns alleles to haplotypes **within a phase set** (VCF 4.3, 1.6.2). Genotypes without a
//! set (PS) are together in one set of their own. Sets belong to one chromosome, and to one stretch
//! of it in which every sample has one number of alleles: no haplotype has alleles of two
//! stretches. A sample with two equal alleles, or with one allele, needs no set.

use super::Variant;
use std::fmt;
use std::sync::Arc;

/// The name of a phase set in a file (PS); none for the set of genotypes without a name.
pub type PhaseSet = Option<i64>;

/// A sample has alleles of two phase sets, so nobody knows how they combine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherSet {
    /// The position, as `20:100`.
    pub place: String,
    /// The sample's number among the chosen ones.
    pub sample: usize,
    /// The earlier set; none if the earlier sites are of another file.
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

/// The phase sets of the sites of one panel or one question.
#[derive(Clone, Debug, Default)]
pub struct PhaseSets {
    chromosome: Arc<str>,
    /// The number of the stretch.
    stretch: u32,
    /// By sample, the set of its first site with two different alleles.
    of: Vec<Option<PhaseSet>>,
    /// The chromosome of earlier sites from another file.
    earlier: Option<Arc<str>>,
}

impl PhaseSets {
    /// The phase sets of sites that follow those of another file, whose last site was on this
    /// chromosome. On this chromosome, sites with two different alleles of a sample are rejected.
    /// Start with [`Self::default`] if both files have the same phasing.
    pub fn after(chromosome: Arc<str>) -> Self {
        Self { earlier: Some(chromosome), ..Self::default() }
    }

    /// Joins a variant to the variants before.
    ///
    /// # Errors
    /// [`OtherSet`] for the first sample whose phase would be a guess.
    pub fn join(&mut self, variant: &Variant) -> Result<(), OtherSet> {
        if variant.chromosome != self.chromosome {
            (self.chromosome, self.of) = (Arc::clone(&variant.chromosome), Vec::new());
        }
        if variant.stretch != self.stretch {
            (self.stretch, self.of, self.earlier) = (variant.stretch, Vec::new(), None);
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
                // a set of one file never equals a set of another file, with or without a name
                None if earlier => return other(None),
                none => *none = Some(found),
            }
        }
        Ok(())
    }
}
