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
//! **Haploid calls** are one haplotype. The number of a sample's alleles may change along the file,
//! as at the borders of the pseudoautosomal regions of chromosome X: a new stretch begins there
//! ([`Variant::stretch`]), with other haplotypes. A missing genotype of one dot has as many alleles
//! as the sample had before. More than two are an error in a chosen sample of a wanted record.
//!
//! **Files without samples** have the numbers of alleles in INFO (AC and AN). Both are necessary in
//! every wanted record.
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
mod counted;
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
    /// For each haplotype, sample after sample, whether it has allele 1. Empty in a file without
    /// samples.
    pub alleles: Vec<bool>,
    /// The number of alleles 1.
    pub ones: u32,
    /// The number of all alleles that count.
    pub all: u32,
    /// The number of changes before this variant: a sample has another number of alleles than at
    /// the variant before.
    pub stretch: u32,
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
    /// The number of haplotypes of each chosen sample at the last variant that was kept; empty
    /// before the first.
    ploidy: Vec<u8>,
    /// [`Variant::stretch`] of the last variant that was kept.
    stretch: u32,
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
        let (ploidy, raw, pending, chromosomes) = (Vec::new(), Raw::default(), Vec::new(), HashSet::new());
        let (stretch, last, here, summary) = (0, ("".into(), 0), HashSet::new(), Summary::default());
        Ok(Self { name, source, selection, chosen, ploidy, stretch, raw, pending, chromosomes, last, here, summary })
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

    /// Whether the file has samples. Without samples, alleles are counted by INFO.
    pub fn has_samples(&self) -> bool {
        !self.source.samples.is_empty()
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
        let (raw, selection) = (&self.raw, &self.selection);
        let alleles = raw.alternates.len() + 1;
        if !selection.regions.contains(&raw.chromosome, raw.position) {
            self.summary.outside += 1;
        } else if alleles == 1 {
            self.summary.monomorphic += 1;
        } else if selection.min_alleles.is_some_and(|min| alleles < min)
            || selection.max_alleles.is_some_and(|max| alleles > max)
        {
            self.summary.alleles += 1;
        } else if alleles > 2 && !selection.split {
            self.summary.multiallelic += 1;
        } else if raw.reference.len() * (alleles - 1) > MAX_COPIED {
            let found = raw.reference.len();
            return Err(self.malformed(format!(
                "expected a reference allele that is short where there are {} others, found {found} bases: each \
                 variant of a record takes them all. Split the record (bcftools norm -m -)",
                alleles - 1
            )));
        } else if alleles >= usize::from(MORE) {
            return Err(self.malformed(format!("expected fewer than {MORE} alleles, found {alleles}")));
        } else if let Some(what) = self.unusable() {
            return Err(self.malformed(what));
        } else if self.source.samples.is_empty() {
            return Ok(true);
        } else {
            let missing =
                |index: &usize| raw.genotypes[*index].alleles.iter().filter(|allele| **allele == MISSING).count();
            let missing = self.chosen.iter().map(missing).sum::<usize>() as u64;
            if missing == 0 || selection.missing_is_reference {
                return Ok(true);
            }
            self.summary.missing += 1;
        }
        Ok(false)
    }

    /// Why a wanted record cannot be counted.
    fn unusable(&self) -> Option<String> {
        let raw = &self.raw;
        let place = format_args!("{}:{}", raw.chromosome, raw.position);
        if raw.position == 0 {
            let what = "expected a position from 1 on, found the end of a chromosome";
            return Some(format!("{what} at {place}: leave the record out (-r {}:1-)", raw.chromosome));
        }
        if raw.chromosome.contains(',') {
            return Some(format!("expected the name of a chromosome without a comma, found {place}"));
        }
        if !raw.reference.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return Some(format!("expected bases in REF at {place}, found {:?}", raw.reference));
        }
        if self.source.samples.is_empty() {
            let what = "expected AC and AN in INFO, because the file has no samples";
            let fault = raw.counted.checked(raw.alternates.len()).err()?;
            return Some(format!("{what}: {fault} at {place}"));
        }
        let none = raw.genotypes.is_empty();
        none.then(|| {
            format!("expected genotypes (GT), found none at {place} (bcftools view -G leaves the samples out, to count by AC)")
        })
    }

    /// The variant of one of the record's alternate alleles; none if the variant is not wanted.
    fn variant(&mut self, allele: u16) -> Result<Option<Variant>, VariantError> {
        let Called { alleles, ones, all, phased, missing, sets, ploidy } = self.called(allele)?;
        let (raw, selection, summary) = (&self.raw, &self.selection, &mut self.summary);
        let alternate = &raw.alternates[usize::from(allele) - 1];
        let kind = VariantKind::of(&raw.reference, alternate);
        if !selection.kinds.is_empty() && !selection.kinds.contains(&kind) {
            summary.kind += 1;
            return Ok(None);
        }
        if !selection.expression.holds(kind, u64::from(ones), u64::from(all)) {
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
        summary.unphased += u64::from(!phased && !self.chosen.is_empty());
        summary.missing_as_reference += missing;
        if ploidy != self.ploidy {
            self.stretch += u32::from(!self.ploidy.is_empty());
            self.ploidy = ploidy;
        }
        let (chromosome, stretch) = (Arc::clone(&self.last.0), self.stretch);
        let (position, id, reference, alternate) =
            (raw.position, raw.id.clone(), raw.reference.clone(), alternate.clone());
        Ok(Some(Variant { chromosome, position, id, reference, alternate, alleles, ones, all, stretch, phased, sets }))
    }

    /// The calls of an allele in the chosen samples, or its numbers in a file without samples.
    fn called(&mut self, allele: u16) -> Result<Called, VariantError> {
        if self.source.samples.is_empty() {
            let counted = self.raw.counted.checked(self.raw.alternates.len());
            let (each, all) = counted.map_err(|what| self.malformed(what))?;
            return Ok(Called { ones: each[usize::from(allele) - 1], all, ..Called::default() });
        }
        let mut called = Called { phased: true, ..Called::default() };
        called.alleles.reserve_exact(2 * self.chosen.len());
        for (place, index) in self.chosen.iter().enumerate() {
            let Genotype { mut alleles, phased, set } = self.raw.genotypes[*index];
            if alleles[0] == MORE {
                let sample = &self.source.samples[*index];
                let what = format!("expected genotypes of one or two alleles, found more in sample {sample}");
                return Err(self.malformed(format!("{what} (choose other regions or samples)")));
            }
            let one = alleles[1] == NONE;
            if one && alleles[0] == MISSING && self.ploidy.get(place) != Some(&1) {
                alleles[1] = MISSING; // a dot may stand for both
            }
            let ploidy = if alleles[1] == NONE { 1 } else { 2 };
            called.ploidy.push(ploidy);
            called.missing += alleles.iter().filter(|allele| **allele == MISSING).count() as u64;
            let found = alleles.map(|found| if found == MISSING { 0 } else { found });
            called.phased &= phased || ploidy == 1 || found[0] == found[1];
            if ploidy == 2 && (found[0] == allele) != (found[1] == allele) {
                called.sets.push((place as u32, set));
            }
            called.alleles.extend(found.iter().take(usize::from(ploidy)).map(|found| *found == allele));
        }
        called.all = called.alleles.len() as u32;
        called.ones = called.alleles.iter().map(|allele| u32::from(*allele)).sum();
        Ok(called)
    }
}

/// The calls of an allele.
#[derive(Default)]
struct Called {
    /// Whether each haplotype has the allele.
    alleles: Vec<bool>,
    /// [`Variant::ones`] and [`Variant::all`].
    ones: u32,
    all: u32,
    phased: bool,
    /// The number of alleles that were not called.
    missing: u64,
    /// [`Variant::sets`].
    sets: Vec<(u32, PhaseSet)>,
    /// The number of haplotypes of each sample.
    ploidy: Vec<u8>,
}

/// For any bytes, the result is variants with the same number of haplotypes in each stretch, or an
/// error.
#[doc(hidden)]
pub fn fuzz_variants(data: &[u8]) {
    let selection = Selection { split: true, missing_is_reference: true, ..Selection::default() };
    let reader = input::from_reader(std::io::Cursor::new(data.to_vec()));
    let Ok(mut reader) = VariantReader::of("bytes".to_owned(), reader, selection) else { return };
    let mut last: Option<(u32, usize)> = None;
    while let Ok(Some(variant)) = reader.next_variant() {
        let (stretch, haplotypes) = (variant.stretch, variant.alleles.len());
        assert!(last.is_none_or(|last| last.0 < stretch || last == (stretch, haplotypes)));
        assert!(variant.ones <= variant.all && (haplotypes == 0 || variant.all as usize == haplotypes));
        last = Some((stretch, haplotypes));
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
        return Ok((0..all.len()).collect());
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
