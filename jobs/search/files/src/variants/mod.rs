//! Variants of two alleles, with the alleles of all haplotypes, from VCF or BCF.
//!
//! **Input**: `.vcf`, `.vcf.gz` (BGZF or gzip) and `.bcf`, recognized by their first bytes, not by
//! their names; `-` is standard input. The reader uses chromosome, position, name, alleles,
//! genotypes (GT) and phase sets (PS) of a record, and the extents of structural variants. It needs
//! no index, and uses none.
//!
//! **Skipped, and counted** ([`Summary`]), in this order: records outside the regions; records
//! without an alternate allele; records with fewer or more alleles than wanted; records with
//! several alternate alleles, unless they are split; records with alleles that were not called,
//! unless these count as the reference allele; variants of another kind; variants for which the
//! expression does not hold; duplicates (chromosome, position, reference and alternate), of which
//! the first stays.
//!
//! **A split record** becomes one variant for each alternate allele. A haplotype with another
//! alternate allele has allele 0 there.
//!
//! **Haploid calls** are one haplotype. A sample's first genotype decides whether the sample has
//! one or two haplotypes; another number later is an error. Put such stretches (the two parts of a
//! chromosome X) into separate tables. More than two are an error in a chosen sample of a wanted
//! record.
//!
//! **Phase**: `|` says that the order of two alleles is that of the haplotypes, within a phase set
//! (PS). A record is not phased if a chosen sample has two different alleles without `|`, or with
//! lists of sets (PSL). Equal alleles need no phase. Code that joins variants to haplotypes must
//! check the sets with [`PhaseSets`].
//!
//! **Alleles** are compared, and returned, with their bases in upper case. Alleles of structural
//! variants include their extents: `<DEL>@5000`, `<INS>+300`. Two alleles at one position that
//! nothing distinguishes are an error. So are two insertions of one length whose bases are not
//! given.
//!
//! **Errors**: records out of order, malformed content, and truncated files, each with file and
//! record.

mod assembly;
mod extent;
mod filter;
pub(crate) mod input;
mod phase;
mod raw;

pub use assembly::ToldAssembly;
#[doc(hidden)]
pub use filter::fuzz_choices;
pub use filter::{Expression, Regions, VariantKind, lines};
pub use phase::{OtherSet, PhaseSet, PhaseSets};

use input::Input;
use raw::{Fault, Genotype, MISSING, MORE, NONE, Raw, Source};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use tobari_host::files::{FileError, name_of};

/// Variants of a position for which memory is reserved.
const FEW: usize = 64;
/// The most bytes that a record's reference allele takes in all of the record's variants.
const MAX_COPIED: usize = 1 << 24;

/// Why variants cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VariantError {
    /// The system cannot read the file, or the file is damaged.
    #[error("{name}{}: cannot read: {source}", after(*record))]
    Read {
        /// The file, as the caller named it.
        name: String,
        /// The number of records before the error.
        record: u64,
        /// The system's error.
        source: std::io::Error,
    },
    /// A record or the header is malformed.
    #[error("{name}, {}: {what}", at(*record))]
    Malformed {
        /// The file, as the caller named it.
        name: String,
        /// The number of the record, from 1; 0 is the header.
        record: u64,
        /// The text that was expected, and found.
        what: String,
    },
    /// A filter that is malformed or cannot be satisfied.
    #[error("{0}")]
    Choice(String),
    /// A list that cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
}

fn at(record: u64) -> String {
    if record == 0 { "header".to_owned() } else { format!("record {record}") }
}

fn after(record: u64) -> String {
    if record == 0 { String::new() } else { format!(", after record {record}") }
}

/// The wanted records, samples and variants.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The wanted regions.
    pub regions: Regions,
    /// The wanted samples, returned in the order of the file; all if there is no list.
    pub samples: Option<Vec<String>>,
    /// The conditions on variants.
    pub expression: Expression,
    /// The least number of alleles of a record, including the reference allele.
    pub min_alleles: Option<usize>,
    /// The greatest number of alleles of a record.
    pub max_alleles: Option<usize>,
    /// The wanted kinds; all if the list is empty.
    pub kinds: Vec<VariantKind>,
    /// Whether records of several alternate alleles become several variants.
    pub split: bool,
    /// Whether an allele that was not called counts as the reference allele.
    pub missing_is_reference: bool,
}

/// Counts of records and variants, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Records of the file.
    pub records: u64,
    /// Variants that were kept.
    pub kept: u64,
    /// Kept variants that are not phased.
    pub unphased: u64,
    /// Kept variants of another phase set than the ones before. The code that joins variants counts
    /// them.
    pub other_sets: u64,
    /// Alleles that were not called and count as the reference allele.
    pub missing_as_reference: u64,
    /// Records outside the regions.
    pub outside: u64,
    /// Records without an alternate allele.
    pub monomorphic: u64,
    /// Records with fewer or more alleles than wanted.
    pub alleles: u64,
    /// Records with several alternate alleles.
    pub multiallelic: u64,
    /// Records with alleles that were not called.
    pub missing: u64,
    /// Variants of another kind.
    pub kind: u64,
    /// Variants for which the expression does not hold.
    pub expression: u64,
    /// Variants that the file had before.
    pub duplicate: u64,
}

/// A variant, with the alleles of all haplotypes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// The file's name of the chromosome.
    pub chromosome: Arc<str>,
    /// The first base is 1.
    pub position: u64,
    /// The variant's name.
    pub id: Option<Box<str>>,
    /// Allele 0.
    pub reference: Box<str>,
    /// Allele 1.
    pub alternate: Box<str>,
    /// For each haplotype, sample after sample, whether it has allele 1.
    pub alleles: Vec<bool>,
    /// Whether the alleles are in the order of the haplotypes, within each sample's phase set.
    pub phased: bool,
    /// The phase set of each sample that has both alleles. Samples have their numbers among the
    /// chosen samples.
    pub sets: Vec<(u32, PhaseSet)>,
}

/// Reads variants one by one.
pub struct VariantReader {
    name: String,
    source: Source,
    selection: Selection,
    /// Indices of the chosen samples in the file.
    chosen: Vec<usize>,
    /// The number of haplotypes of each chosen sample, once known.
    ploidy: Vec<Option<u8>>,
    raw: Raw,
    /// The record's alternate alleles that are not yet returned, the last first.
    pending: Vec<u16>,
    chromosomes: HashSet<Arc<str>>,
    last: (Arc<str>, u64),
    /// Variants at the last position.
    here: HashSet<(Box<str>, Box<str>)>,
    summary: Summary,
}

impl VariantReader {
    /// Opens a file, or standard input for `-`, and reads its header.
    ///
    /// # Errors
    /// [`VariantError`].
    pub fn open(path: &Path, selection: Selection) -> Result<Self, VariantError> {
        Self::of(name_of(path), input::open(path), selection)
    }

    fn of(name: String, reader: std::io::Result<Box<dyn Input>>, selection: Selection) -> Result<Self, VariantError> {
        let reader = reader.map_err(|source| VariantError::Read { name: name.clone(), record: 0, source })?;
        let source = Source::open(reader).map_err(|fault| failed(&name, 0, fault))?;
        let chosen = chosen(&name, &source.samples, selection.samples.as_deref())?;
        let (ploidy, raw, pending, chromosomes) =
            (vec![None; chosen.len()], Raw::default(), Vec::new(), HashSet::new());
        let (last, here, summary) = (("".into(), 0), HashSet::new(), Summary::default());
        Ok(Self { name, source, selection, chosen, ploidy, raw, pending, chromosomes, last, here, summary })
    }

    /// The counts of all records so far.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// What the header tells of the assembly of the positions.
    pub fn assembly(&self) -> &ToldAssembly {
        &self.source.assembly
    }

    /// The names of the chosen samples, in the order of the file.
    pub fn samples(&self) -> impl Iterator<Item = &str> {
        self.chosen.iter().map(|index| &*self.source.samples[*index])
    }

    /// The next wanted variant.
    ///
    /// # Errors
    /// [`VariantError`], with the file and the record.
    pub fn next_variant(&mut self) -> Result<Option<Variant>, VariantError> {
        loop {
            while let Some(allele) = self.pending.pop() {
                if let Some(variant) = self.variant(allele)? {
                    return Ok(Some(variant));
                }
            }
            let more = self.source.next(&mut self.raw).map_err(|fault| {
                let done = matches!(fault, Fault::System(_));
                failed(&self.name, self.summary.records + u64::from(!done), fault)
            })?;
            if !more {
                return Ok(None);
            }
            self.summary.records += 1;
            self.check_order()?;
            if self.wanted()? {
                self.pending.extend((1..=self.raw.alternates.len() as u16).rev());
            }
        }
    }

    fn malformed(&self, what: String) -> VariantError {
        VariantError::Malformed { name: self.name.clone(), record: self.summary.records, what }
    }

    fn check_order(&mut self) -> Result<(), VariantError> {
        let (raw, last) = (&self.raw, &self.last);
        let place = format_args!("{}:{} after {}:{}", raw.chromosome, raw.position, last.0, last.1).to_string();
        let new = raw.chromosome != last.0;
        if (new && self.chromosomes.contains(&raw.chromosome)) || (!new && raw.position < last.1) {
            let what = "expected records in the order of their positions, chromosome by chromosome";
            return Err(self.malformed(format!("{what}, found {place} (bcftools sort makes such a file)")));
        }
        if raw.position == 0 {
            return Err(self.malformed(format!("expected a position from 1 on, found {place}")));
        }
        if new {
            self.chromosomes.insert(Arc::clone(&raw.chromosome));
        }
        if new || raw.position > last.1 {
            // clearing takes time by capacity: a large set would cost this at each later position
            match self.here.capacity() {
                ..=FEW => self.here.clear(),
                _ => self.here = HashSet::new(),
            }
            self.last = (Arc::clone(&self.raw.chromosome), self.raw.position);
        }
        Ok(())
    }

    /// Whether the record is wanted, for the conditions that do not depend on the alternate allele.
    fn wanted(&mut self) -> Result<bool, VariantError> {
        let (raw, selection, summary) = (&self.raw, &self.selection, &mut self.summary);
        let alleles = raw.alternates.len() + 1;
        if !selection.regions.contains(&raw.chromosome, raw.position) {
            summary.outside += 1;
        } else if alleles == 1 {
            summary.monomorphic += 1;
        } else if selection.min_alleles.is_some_and(|min| alleles < min)
            || selection.max_alleles.is_some_and(|max| alleles > max)
        {
            summary.alleles += 1;
        } else if alleles > 2 && !selection.split {
            summary.multiallelic += 1;
        } else if raw.reference.len() * (alleles - 1) > MAX_COPIED {
            let found = raw.reference.len();
            return Err(self.malformed(format!(
                "expected a reference allele that is short where there are {} others, found {found} bases: each \
                 variant of a record takes them all. Split the record (bcftools norm -m -)",
                alleles - 1
            )));
        } else if alleles >= usize::from(MORE) {
            return Err(self.malformed(format!("expected fewer than {MORE} alleles, found {alleles}")));
        } else if raw.genotypes.is_empty() {
            return Err(self.malformed("expected genotypes (GT), found none".to_owned()));
        } else {
            let missing =
                |index: &usize| raw.genotypes[*index].alleles.iter().filter(|allele| **allele == MISSING).count();
            let missing = self.chosen.iter().map(missing).sum::<usize>() as u64;
            if missing == 0 || selection.missing_is_reference {
                return Ok(true);
            }
            summary.missing += 1;
        }
        Ok(false)
    }

    /// The variant of one of the record's alternate alleles; none if the variant is not wanted.
    fn variant(&mut self, allele: u16) -> Result<Option<Variant>, VariantError> {
        let Called { alleles, phased, missing, sets } = self.alleles(allele)?;
        let (raw, selection, summary) = (&self.raw, &self.selection, &mut self.summary);
        let alternate = &raw.alternates[usize::from(allele) - 1];
        let kind = VariantKind::of(&raw.reference, alternate);
        let ones = alleles.iter().filter(|allele| **allele).count() as u64;
        if !selection.kinds.is_empty() && !selection.kinds.contains(&kind) {
            summary.kind += 1;
            return Ok(None);
        }
        if !selection.expression.holds(kind, ones, alleles.len() as u64) {
            summary.expression += 1;
            return Ok(None);
        }
        let own = (raw.reference.clone(), alternate.clone());
        if self.here.contains(&own) {
            if extent::is_untold(alternate) {
                let text = if extent::is_insertion(alternate) {
                    let what = "expected insertions of one position in bases, or of different lengths (SVLEN)";
                    format!("{what}, found two {alternate}")
                } else {
                    let what = "expected END or SVLEN, which tell structural variants of one position apart";
                    format!("{what}, found two {alternate} without")
                };
                let place = format!("{}:{}", self.last.0, raw.position);
                return Err(self.malformed(format!("{text} at {place} (-v snps,indels leaves them out)")));
            }
            summary.duplicate += 1;
            return Ok(None);
        }
        self.here.insert(own);
        summary.kept += 1;
        summary.unphased += u64::from(!phased);
        summary.missing_as_reference += missing;
        let chromosome = Arc::clone(&self.last.0);
        let (position, id, reference, alternate) =
            (raw.position, raw.id.clone(), raw.reference.clone(), alternate.clone());
        Ok(Some(Variant { chromosome, position, id, reference, alternate, alleles, phased, sets }))
    }

    /// The calls of an allele in the chosen samples.
    fn alleles(&mut self, allele: u16) -> Result<Called, VariantError> {
        let (mut found, mut all_phased, mut missing) = (Vec::with_capacity(2 * self.chosen.len()), true, 0);
        let mut sets = Vec::new();
        for (place, index) in self.chosen.iter().enumerate() {
            let Genotype { mut alleles, phased, set } = self.raw.genotypes[*index];
            if alleles[0] == MORE {
                let sample = &self.source.samples[*index];
                let what = format!("expected genotypes of one or two alleles, found more in sample {sample}");
                return Err(self.malformed(format!("{what} (choose other regions or samples)")));
            }
            let one = alleles[1] == NONE;
            if one && alleles[0] == MISSING && self.ploidy[place] != Some(1) {
                alleles[1] = MISSING; // a dot may stand for both
            }
            let ploidy = if alleles[1] == NONE { 1 } else { 2 };
            let expected = *self.ploidy[place].get_or_insert(ploidy);
            if expected != ploidy {
                let sample = &self.source.samples[*index];
                let what = format!("expected {expected} alleles of sample {sample} as before, found {ploidy}");
                return Err(self.malformed(format!("{what} (choose regions or samples in which the number stays)")));
            }
            missing += alleles.iter().filter(|allele| **allele == MISSING).count() as u64;
            let called = alleles.map(|found| if found == MISSING { 0 } else { found });
            all_phased &= phased || ploidy == 1 || called[0] == called[1];
            if ploidy == 2 && (called[0] == allele) != (called[1] == allele) {
                sets.push((place as u32, set));
            }
            found.extend(called.iter().take(usize::from(ploidy)).map(|found| *found == allele));
        }
        Ok(Called { alleles: found, phased: all_phased, missing, sets })
    }
}

/// The calls of an allele.
struct Called {
    /// Whether each haplotype has the allele.
    alleles: Vec<bool>,
    phased: bool,
    /// The number of alleles that were not called.
    missing: u64,
    /// [`Variant::sets`].
    sets: Vec<(u32, PhaseSet)>,
}

/// For any bytes, the result is variants with the same number of haplotypes each, or an error.
#[doc(hidden)]
pub fn fuzz_variants(data: &[u8]) {
    let selection = Selection { split: true, missing_is_reference: true, ..Selection::default() };
    let reader = input::from_reader(std::io::Cursor::new(data.to_vec()));
    let Ok(mut reader) = VariantReader::of("bytes".to_owned(), reader, selection) else { return };
    let mut haplotypes = None;
    while let Ok(Some(variant)) = reader.next_variant() {
        assert_eq!(*haplotypes.get_or_insert(variant.alleles.len()), variant.alleles.len());
    }
}

fn failed(name: &str, record: u64, fault: Fault) -> VariantError {
    let name = name.to_owned();
    match fault {
        Fault::System(source) => VariantError::Read { name, record, source },
        Fault::Malformed(what) => VariantError::Malformed { name, record, what },
    }
}

fn chosen(name: &str, all: &[String], wanted: Option<&[String]>) -> Result<Vec<usize>, VariantError> {
    let Some(wanted) = wanted else {
        let none = || VariantError::Choice(format!("{name}: expected samples with genotypes, found none"));
        return if all.is_empty() { Err(none()) } else { Ok((0..all.len()).collect()) };
    };
    let mut names: HashSet<&str> = wanted.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    let chosen: Vec<usize> = (0..all.len()).filter(|index| names.remove(&*all[*index])).collect();
    match names.iter().min() {
        Some(absent) => {
            Err(VariantError::Choice(format!("{name}: expected the sample {absent}, found none of that name")))
        }
        None if chosen.is_empty() => Err(VariantError::Choice("expected at least one sample, found none".to_owned())),
        None => Ok(chosen),
    }
}
