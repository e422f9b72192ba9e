//! Names of genome assemblies and of their sequences.
//!
//! A position means nothing without its assembly. Files and programs name one assembly in several
//! ways: `GRCh38`, `hg38`, `GRCh38.p14` and `GCF_000001405.40` have the same chromosomes, because a
//! patch changes no position of a chromosome. hg19 and GRCh37 are the same except for the
//! mitochondrial sequence: 16,571 bases in hg19, 16,569 in GRCh37.
//!
//! The figures are those of the assembly reports of NCBI: lengths of the chromosomes, and the
//! versions of their RefSeq accessions. GRCh38 raised each version of GRCh37 by one, as GRCh37 did
//! with NCBI36.

use super::site::canonical_chromosome;

/// The most bytes of an assembly's name.
pub const MAX_ASSEMBLY_BYTES: usize = 255;

/// An assembly of the human genome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HumanAssembly {
    /// NCBI36, also called hg18.
    Ncbi36,
    /// GRCh37, also called hg19.
    Grch37,
    /// GRCh38, also called hg38.
    Grch38,
    /// T2T-CHM13v2.0, also called hs1.
    Chm13,
}

use HumanAssembly::{Chm13, Grch37, Grch38, Ncbi36};

/// The human chromosomes: the number of the RefSeq accession is the place in this list, from 1.
const CHROMOSOMES: [&str; 24] = [
    "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20",
    "21", "22", "X", "Y",
];

/// For each chromosome, the version of its RefSeq accession in GRCh37.
const VERSIONS_37: [u32; 24] = [10, 11, 11, 11, 9, 11, 13, 10, 11, 10, 9, 11, 10, 8, 9, 9, 10, 9, 9, 10, 8, 10, 10, 9];

/// The number of the RefSeq accession of chromosome 1 of T2T-CHM13v2.0.
const FIRST_OF_CHM13: u32 = 60_925;

/// For each chromosome, its length in GRCh37, GRCh38 and T2T-CHM13v2.0.
const LENGTHS: [[u64; 3]; 24] = [
    [249_250_621, 248_956_422, 248_387_328],
    [243_199_373, 242_193_529, 242_696_752],
    [198_022_430, 198_295_559, 201_105_948],
    [191_154_276, 190_214_555, 193_574_945],
    [180_915_260, 181_538_259, 182_045_439],
    [171_115_067, 170_805_979, 172_126_628],
    [159_138_663, 159_345_973, 160_567_428],
    [146_364_022, 145_138_636, 146_259_331],
    [141_213_431, 138_394_717, 150_617_247],
    [135_534_747, 133_797_422, 134_758_134],
    [135_006_516, 135_086_622, 135_127_769],
    [133_851_895, 133_275_309, 133_324_548],
    [115_169_878, 114_364_328, 113_566_686],
    [107_349_540, 107_043_718, 101_161_492],
    [102_531_392, 101_991_189, 99_753_195],
    [90_354_753, 90_338_345, 96_330_374],
    [81_195_210, 83_257_441, 84_276_897],
    [78_077_248, 80_373_285, 80_542_538],
    [59_128_983, 58_617_616, 61_707_364],
    [63_025_520, 64_444_167, 66_210_255],
    [48_129_895, 46_709_983, 45_090_682],
    [51_304_566, 50_818_468, 51_324_926],
    [155_270_560, 156_040_895, 154_259_566],
    [59_373_566, 57_227_415, 62_460_029],
];

/// Names that stand in the names of files, too. Short names must stand alone there.
const NAMES: [(&str, HumanAssembly); 15] = [
    ("ncbi36", Ncbi36),
    ("hg18", Ncbi36),
    ("b36", Ncbi36),
    ("grch37", Grch37),
    ("hg19", Grch37),
    ("hs37d5", Grch37),
    ("g1k_v37", Grch37),
    ("b37", Grch37),
    ("grch38", Grch38),
    ("hg38", Grch38),
    ("hs38dh", Grch38),
    ("b38", Grch38),
    ("chm13v2.0", Chm13),
    ("chm13v2", Chm13),
    ("hs1", Chm13),
];

impl HumanAssembly {
    /// The name in the notation of the Genome Reference Consortium, or of the assembly's makers.
    pub fn name(self) -> &'static str {
        match self {
            Ncbi36 => "NCBI36",
            Grch37 => "GRCh37",
            Grch38 => "GRCh38",
            Chm13 => "T2T-CHM13v2.0",
        }
    }

    /// The assembly with this name, patch or accession; none for another name.
    pub fn named(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        let bare = without_patch(&lower);
        let known = NAMES.iter().find(|(known, _)| *known == bare).map(|(_, assembly)| *assembly);
        known.or_else(|| (bare == "t2t-chm13v2.0").then_some(Chm13)).or_else(|| of_assembly_accession(bare))
    }

    /// The one assembly that a text names, such as the path of a file with the reference; none if
    /// the text names no assembly or several.
    pub fn within(text: &str) -> Option<Self> {
        let lower = text.to_ascii_lowercase();
        let mut found = NAMES.iter().filter(|(name, _)| stands_in(&lower, name)).map(|(_, assembly)| *assembly);
        let first = found.next()?;
        found.all(|other| other == first).then_some(first)
    }

    /// The assembly whose chromosome of this name has this length. The mitochondrial sequence has
    /// the same length in several assemblies, and tells none.
    pub fn of_length(chromosome: &str, length: u64) -> Option<Self> {
        let chromosome = canonical_chromosome(chromosome);
        let place = CHROMOSOMES.iter().position(|name| name.eq_ignore_ascii_case(chromosome))?;
        let found = LENGTHS.get(place)?.iter().position(|of| *of == length)?;
        [Grch37, Grch38, Chm13].get(found).copied()
    }
}

/// Whether a name stands in a text, and no letter or digit continues it. Names without a meaning
/// of their own, such as `b37`, must not continue another word either.
fn stands_in(text: &str, name: &str) -> bool {
    let short = name.len() <= 4;
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].bytes().next_back().is_some_and(|byte| byte.is_ascii_alphanumeric());
        let after = text[at + name.len()..].bytes().next();
        let goes_on = |byte: u8| byte.is_ascii_digit() || (short && byte.is_ascii_alphabetic());
        !(after.is_some_and(goes_on) || short && before)
    })
}

/// A name without its patch: `grch38` for `grch38.p14`.
fn without_patch(lower: &str) -> &str {
    let patch = lower.rsplit_once(".p").filter(|(_, number)| number.bytes().all(|byte| byte.is_ascii_digit()));
    patch.filter(|(_, number)| !number.is_empty()).map_or(lower, |(bare, _)| bare)
}

/// The assembly of an accession of RefSeq or GenBank, in lower case.
fn of_assembly_accession(lower: &str) -> Option<HumanAssembly> {
    let (source, number) = lower.split_once('_')?;
    let (number, version) = number.split_once('.')?;
    let version: u32 = version.parse().ok()?;
    match (source, number, version) {
        ("gcf", "000001405", 12) => Some(Ncbi36),
        ("gcf", "000001405", 13..=25) | ("gca", "000001405", 1..=14) => Some(Grch37),
        ("gcf", "000001405", 26..) | ("gca", "000001405", 15..) => Some(Grch38),
        ("gcf", "009914755", 1) | ("gca", "009914755", 4) => Some(Chm13),
        _ => None,
    }
}

/// The reason why two names are not names of one assembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssemblyMismatch {
    /// The assemblies are different.
    Other,
    /// The assemblies are GRCh37 and hg19, which differ in the mitochondrial sequence alone.
    Mitochondrial,
}

/// Checks that two names mean one assembly, as far as this chromosome goes.
///
/// # Errors
/// [`AssemblyMismatch`].
pub fn same_assembly(one: &str, other: &str, chromosome: &str) -> Result<(), AssemblyMismatch> {
    let bare = |name: &str| without_patch(&name.to_ascii_lowercase()).to_owned();
    let (first, second) = (bare(one), bare(other));
    let same = match (HumanAssembly::named(one), HumanAssembly::named(other)) {
        (Some(one), Some(other)) => one == other,
        (None, None) => first == second,
        _ => false,
    };
    match same {
        false => Err(AssemblyMismatch::Other),
        true if is_mitochondrial(chromosome) && (first == "hg19") != (second == "hg19") => {
            Err(AssemblyMismatch::Mitochondrial)
        }
        true => Ok(()),
    }
}

/// Whether a chromosome's name is that of the mitochondrial sequence.
pub fn is_mitochondrial(chromosome: &str) -> bool {
    match Accession::read(chromosome) {
        Some(accession) => accession.chromosome == "M",
        None => canonical_chromosome(chromosome).eq_ignore_ascii_case("M"),
    }
}

/// A RefSeq accession of a human chromosome: `NC_000020.11` is chromosome 20 of GRCh38.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accession {
    /// The chromosome without `chr`.
    pub chromosome: &'static str,
    /// Names of the assemblies that have this sequence.
    pub assemblies: &'static [&'static str],
}

impl Accession {
    /// Reads an accession, with `refseq:` before it or not; none for any other text, and for an
    /// accession without its version.
    pub fn read(text: &str) -> Option<Self> {
        let lower = text.to_ascii_lowercase();
        let bare = lower.strip_prefix("refseq:").unwrap_or(&lower);
        let (number, version) = bare.strip_prefix("nc_")?.split_once('.')?;
        if number.len() != 6 {
            return None;
        }
        let (number, version): (u32, u32) = (number.parse().ok()?, version.parse().ok()?);
        match (number, version) {
            (12_920, 1) => return Some(Self { chromosome: "M", assemblies: &["GRCh37", "GRCh38"] }),
            (1_807, 4) => return Some(Self { chromosome: "M", assemblies: &["hg19"] }),
            _ => {}
        }
        let of_chm13 = number.checked_sub(FIRST_OF_CHM13).filter(|_| version == 1);
        if let Some(chromosome) = of_chm13.and_then(|place| CHROMOSOMES.get(place as usize)) {
            return Some(Self { chromosome, assemblies: &["T2T-CHM13v2.0"] });
        }
        let place = usize::try_from(number.checked_sub(1)?).ok()?;
        let of_37 = *VERSIONS_37.get(place)?;
        let assemblies: &[&str] = match version {
            _ if version + 1 == of_37 => &["NCBI36"],
            _ if version == of_37 => &["GRCh37"],
            _ if version == of_37 + 1 => &["GRCh38"],
            _ => return None,
        };
        Some(Self { chromosome: CHROMOSOMES.get(place)?, assemblies })
    }
}

/// Whether a text can be the name of an assembly: printable, without spaces.
pub(super) fn is_assembly_name(text: &str) -> bool {
    (1..=MAX_ASSEMBLY_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assembly_has_many_names_and_patches_change_no_position() {
        for (names, assembly) in [
            (&["GRCh38", "hg38", "grch38.p14", "GCF_000001405.40", "GCA_000001405.15", "HG38.p13"][..], Grch38),
            (&["GRCh37", "hg19", "b37", "hs37d5", "GRCh37.p13", "GCF_000001405.25", "GCA_000001405.14"], Grch37),
            (&["T2T-CHM13v2.0", "chm13v2.0", "hs1", "GCF_009914755.1", "GCA_009914755.4"], Chm13),
            (&["NCBI36", "hg18", "GCF_000001405.12"], Ncbi36),
        ] {
            for name in names {
                assert_eq!(HumanAssembly::named(name), Some(assembly), "{name}");
                assert_eq!(same_assembly(assembly.name(), name, "20"), Ok(()), "{name}");
            }
        }
        for name in ["", "GRCh3", "GRCh380", "GRCm39", "hg38.p", "GCF_000001405", "GCF_000001635.27", "chm13v1.0"] {
            assert_eq!(HumanAssembly::named(name), None, "{name}");
        }
        assert_eq!(same_assembly("GRCh38", "GRCh37", "20"), Err(AssemblyMismatch::Other));
        assert_eq!(same_assembly("GRCh38", "GRCm38", "20"), Err(AssemblyMismatch::Other));
        // assemblies of other organisms are compared by their names
        assert_eq!(same_assembly("GRCm39", "grcm39.p1", "1"), Ok(()));
        assert_eq!(same_assembly("GRCm39", "GRCm38", "1"), Err(AssemblyMismatch::Other));
        for chromosome in ["chrM", "MT", "M", "chrMT", "chrm", "mt", "NC_012920.1"] {
            assert_eq!(same_assembly("hg19", "b37", chromosome), Err(AssemblyMismatch::Mitochondrial));
            assert_eq!(same_assembly("hg19", "hg19.p13", chromosome), Ok(()));
            assert_eq!(same_assembly("hg19", "hg38", chromosome), Err(AssemblyMismatch::Other));
        }
    }

    #[test]
    fn a_text_names_one_assembly_or_none() {
        for (text, assembly) in [
            ("file:///seq/references/Homo_sapiens_assembly19/v1/human_g1k_v37.fasta", Some(Grch37)),
            ("ftp://ftp.1000genomes.ebi.ac.uk//vol1/ftp/GRCh38_full_analysis_set_plus_decoy_hla.fa", Some(Grch38)),
            ("hs37d5.fa.gz", Some(Grch37)),
            ("/data/hg19.fa", Some(Grch37)),
            ("/ref/b37/human.fa", Some(Grch37)),
            ("chm13v2.0_maskedY.fa", Some(Chm13)),
            ("/data/hg19_and_GRCh37.fa", Some(Grch37)),
            ("/data/hg19-to-hg38.fa", None),
            ("/tmp/ab37c/x.fa", None),
            ("/tmp/b370.fa", None),
            ("GRCh385.fa", None),
            ("reference.fa", None),
            ("", None),
        ] {
            assert_eq!(HumanAssembly::within(text), assembly, "{text}");
        }
    }

    #[test]
    fn chromosomes_have_the_lengths_and_accessions_of_their_assembly() {
        for (name, length, assembly) in [
            ("20", 63_025_520, Some(Grch37)),
            ("chr20", 64_444_167, Some(Grch38)),
            ("chrX", 154_259_566, Some(Chm13)),
            ("y", 57_227_415, Some(Grch38)),
            ("20", 63_025_521, None),
            ("chrM", 16_569, None),
            ("scaffold_7", 63_025_520, None),
        ] {
            assert_eq!(HumanAssembly::of_length(name, length), assembly, "{name}");
        }
        // no two lengths of one chromosome are the same, so that a length tells its assembly
        assert!(LENGTHS.iter().all(|[a, b, c]| a != b && b != c && a != c));
        let read = |text: &str| Accession::read(text).map(|found| (found.chromosome, found.assemblies));
        assert_eq!(read("NC_000020.11"), Some(("20", &["GRCh38"][..])));
        assert_eq!(read("refseq:NC_000009.12"), Some(("9", &["GRCh38"][..])));
        assert_eq!(read("nc_000020.10"), Some(("20", &["GRCh37"][..])));
        assert_eq!(read("NC_000024.8"), Some(("Y", &["NCBI36"][..])));
        assert_eq!(read("NC_060944.1"), Some(("20", &["T2T-CHM13v2.0"][..])));
        assert_eq!(read("NC_060948.1"), Some(("Y", &["T2T-CHM13v2.0"][..])));
        assert_eq!(read("NC_012920.1"), Some(("M", &["GRCh37", "GRCh38"][..])));
        let others =
            ["NC_000020", "NC_000020.12", "NC_000025.1", "NC_000000.1", "NC_060949.1", "NC_20.11", "20", "NC_000020.x"];
        for other in others {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
