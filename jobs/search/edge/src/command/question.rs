//! Questions: words of the command line or of a file become numbers of sites and alleles, or keys.
//! This needs only the list of a table's sites, which clients have too.

use clap::{ArgGroup, Args};
use std::path::{Path, PathBuf};
use tobari_command::output::Failure;
use tobari_search::hidden::cells::Coordinate;
use tobari_search::panel::{MAX_LENGTH, Pattern};
use tobari_search::table::{Question, Sites};
use tobari_search_files::tsv;
use tobari_search_files::variants::{PhaseSets, Regions, Selection, VariantReader};

/// Treatment of sites that a person's file does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Absent {
    /// Reject the question.
    Refuse,
    /// Take the reference allele.
    Ref,
}

/// A question, in one of its forms.
#[derive(Args)]
#[command(next_help_heading = "Question")]
#[command(group = ArgGroup::new("form").required(true).args(["at", "variants", "key_value", "vcf", "queries"]))]
pub(crate) struct QuestionArguments {
    /// Begin at this site, 1-based: chr20:1000000. Where a position has several variants, add the
    /// alleles: chr20:1000000:A:G.
    #[arg(long, requires = "alleles", value_name = "SITE")]
    pub(crate) at: Option<String>,
    /// Ask for these alleles at the site and at the next sites of the table: 0 is the reference
    /// allele, 1 the alternate allele.
    #[arg(long, requires = "at", value_name = "01…")]
    pub(crate) alleles: Option<String>,
    /// Ask for these alleles, with every site named: chr20:1000000:A:G=1,chr20:1000050:C:T=0. The
    /// sites must be neighbours in the table, in its order.
    #[arg(long, value_name = "SITE=ALLELE,…")]
    pub(crate) variants: Option<String>,
    /// Ask for this key of a table of keys.
    #[arg(long, value_name = "KEY")]
    pub(crate) key_value: Option<String>,
    /// Ask for both haplotypes of one sample: a phased VCF or BCF file, restricted to the table's
    /// sites in --region.
    #[arg(long, requires = "region", value_name = "FILE")]
    pub(crate) vcf: Option<PathBuf>,
    /// Restrict --vcf to this region: chr20:1000000-1001000.
    #[arg(long, requires = "vcf", value_name = "REGION")]
    pub(crate) region: Option<String>,
    /// Treat sites that --vcf does not have in this way. A file of one person often leaves out the
    /// sites with the reference allele on both haplotypes.
    #[arg(long, requires = "vcf", value_enum, default_value_t = Absent::Refuse, value_name = "HOW")]
    pub(crate) absent: Absent,
    /// Ask the questions of this file, one a line: SITE, a tab and alleles; or SITE=ALLELE,…; or a
    /// key of a table of keys. `-` is standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) queries: Option<PathBuf>,
}

/// A question that owns its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OwnedQuestion {
    /// Alleles from a site on.
    Window { start: usize, length: usize, pattern: Pattern },
    /// A key.
    Key(Vec<u8>),
}

impl OwnedQuestion {
    pub(crate) fn borrow(&self) -> Question<'_> {
        match self {
            &OwnedQuestion::Window { start, length, pattern } => Question::Window { start, length, pattern },
            OwnedQuestion::Key(key) => Question::Key(key),
        }
    }
}

/// A question and its name in the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) name: String,
    /// The cell of the first site and the number of sites, also for a site that the table does not
    /// list. None for a key, and for text that names no place.
    pub(crate) at: Option<(Coordinate, usize)>,
    /// The question, or the reason why this table has no answer.
    pub(crate) question: Result<OwnedQuestion, String>,
    /// Set if this server gets nothing, not even a question without meaning: what is refused
    /// follows from public facts alone.
    pub(crate) refused: bool,
}

impl Asked {
    /// Withholds the question from this server, for this reason.
    pub(super) fn refuse(&mut self, why: &str) {
        self.refused = true;
        self.question = Err(match &self.question {
            Err(before) => before.clone(),
            Ok(_) => why.to_owned(),
        });
    }
}

/// All questions to a table with these sites, or to a table of keys.
pub(crate) fn questions(arguments: &QuestionArguments, sites: Option<&Sites>) -> Result<Vec<Asked>, Failure> {
    let named =
        |(name, at, question): (&str, _, _)| vec![Asked { name: name.to_owned(), at, question, refused: false }];
    if let Some(key) = &arguments.key_value {
        return Ok(named((key, None, Ok(OwnedQuestion::Key(key.as_bytes().to_vec())))));
    }
    if let Some(path) = &arguments.queries {
        return of_file(path, sites);
    }
    let sites =
        sites.ok_or_else(|| Failure::Call("the table is one of keys: ask with --key-value or --queries".to_owned()))?;
    if let (Some(path), Some(region)) = (&arguments.vcf, &arguments.region) {
        return of_sample(path, (region, arguments.absent), sites);
    }
    if let (Some(at), Some(alleles)) = (&arguments.at, &arguments.alleles) {
        return Ok(named((at, place(at, alleles), window(at, alleles, sites))));
    }
    let text = arguments.variants.as_deref().unwrap_or_default();
    Ok(named((text, first(text), listed(text, sites))))
}

/// The cell of a named site, and the number of alleles.
fn place(at: &str, alleles: &str) -> Option<(Coordinate, usize)> {
    let (chromosome, position) = Sites::position_of(at)?;
    let good = (1..=MAX_LENGTH).contains(&alleles.len()) && alleles.bytes().all(|allele| b"01".contains(&allele));
    good.then(|| (Coordinate::new(chromosome, position), alleles.len()))
}

/// The cell of the first site of `SITE=ALLELE,…`, and the number of sites.
fn first(text: &str) -> Option<(Coordinate, usize)> {
    let items: Vec<_> = text.split(',').map(|item| item.rsplit_once('=')).collect::<Option<_>>()?;
    place(items.first()?.0, &items.iter().map(|(_, allele)| *allele).collect::<String>())
}

/// The number of a named site.
fn site(text: &str, sites: &Sites) -> Result<usize, String> {
    sites.named(text).map_err(|error| error.to_string())
}

fn window(at: &str, alleles: &str, sites: &Sites) -> Result<OwnedQuestion, String> {
    let bits: Option<Vec<bool>> = alleles.bytes().map(|byte| (b"01".contains(&byte)).then_some(byte == b'1')).collect();
    let bits =
        bits.ok_or_else(|| format!("alleles are digits 0 (reference) and 1 (alternate), and these are {alleles:?}"))?;
    from(site(at, sites)?, &bits, sites)
}

fn from(start: usize, alleles: &[bool], sites: &Sites) -> Result<OwnedQuestion, String> {
    let length = alleles.len();
    if !(1..=MAX_LENGTH).contains(&length) {
        return Err(format!("a question has 1 to {MAX_LENGTH} alleles, and this has {length}: change its alleles"));
    }
    sites.check_window(start, length).map_err(|error| error.to_string())?;
    let pattern = alleles.iter().rev().fold(0, |pattern, allele| pattern << 1 | Pattern::from(*allele));
    Ok(OwnedQuestion::Window { start, length, pattern })
}

/// `SITE=ALLELE,…`
fn listed(text: &str, sites: &Sites) -> Result<OwnedQuestion, String> {
    let (mut first, mut alleles) = (None, Vec::new());
    for item in text.split(',') {
        let wrong = || format!("{item:?} is no site with its allele: write chr20:1000000:A:G=1");
        let (name, allele) = item.rsplit_once('=').ok_or_else(wrong)?;
        let index = site(name, sites)?;
        let expected = *first.get_or_insert(index) + alleles.len();
        if index != expected {
            let next = sites.get(expected).map_or_else(|| "no further site".to_owned(), |site| site.to_string());
            return Err(format!("sites must be neighbours in the table, in its order: expected {next}, found {name}"));
        }
        alleles.push(match allele {
            "0" => false,
            "1" => true,
            _ => return Err(wrong()),
        });
    }
    from(first.unwrap_or(0), &alleles, sites)
}

fn of_file(path: &Path, sites: Option<&Sites>) -> Result<Vec<Asked>, Failure> {
    let mut all = Vec::new();
    tsv::read_lines(path, |line| {
        let number = all.len() + 1;
        let (at, question) = of_line(line, sites);
        let question = question.map_err(|what| format!("{}, line {number}: {what}", path.display()));
        all.push(Asked { name: format!("question {number}"), at, question, refused: false });
        Ok(())
    })?;
    Ok(all)
}

/// The question of a line. A line that is no question does not end the list.
fn of_line(line: &[u8], sites: Option<&Sites>) -> (Option<(Coordinate, usize)>, Result<OwnedQuestion, String>) {
    let Some(sites) = sites else {
        let key = !line.is_empty() && !line.contains(&b'\t');
        return (None, key.then(|| OwnedQuestion::Key(line.to_vec())).ok_or_else(|| "expected a key".to_owned()));
    };
    let Ok(text) = std::str::from_utf8(line) else { return (None, Err("expected text in UTF-8".to_owned())) };
    match text.split_once('\t') {
        Some((at, alleles)) => (place(at, alleles), window(at, alleles, sites)),
        None => (first(text), listed(text, sites)),
    }
}

/// The haplotypes of a sample over the table's sites in a region.
fn of_sample(path: &Path, (region, absent): (&str, Absent), sites: &Sites) -> Result<Vec<Asked>, Failure> {
    let name = path.display();
    let mut regions = Regions::default();
    regions.add(region).map_err(|error| Failure::Call(error.to_string()))?;
    let inside = |index: &usize| sites.get(*index).is_some_and(|site| regions.contains(site.chromosome, site.position));
    let wanted: Vec<usize> = (0..sites.len()).filter(inside).collect();
    let (Some(start), length) = (wanted.first().copied(), wanted.len()) else {
        return Err(Failure::Call(format!("the table has no sites in {region}: choose another --region")));
    };
    if !(1..=MAX_LENGTH).contains(&length) || wanted.last() != Some(&(start + length - 1)) {
        return Err(Failure::Call(format!(
            "a question takes at most {MAX_LENGTH} neighbouring sites, and {region} has {length} sites: choose one smaller region"
        )));
    }
    let selection = Selection { regions: regions.clone(), split: true, ..Selection::default() };
    let mut reader = VariantReader::open(path, selection)?;
    if reader.samples().count() != 1 {
        let found = reader.samples().count();
        return Err(Failure::Work(format!(
            "{name} has {found} samples, and a question takes one: keep one, as bcftools view -s does"
        )));
    }
    let (mut haplotypes, mut sets): (Vec<Vec<Option<bool>>>, _) = (Vec::new(), PhaseSets::default());
    while let Some(variant) = reader.next_variant()? {
        let alleles = Some((&*variant.reference, &*variant.alternate));
        let Ok(index) = sites.site_at(&variant.chromosome, variant.position, alleles) else { continue };
        if !variant.phased && length > 1 {
            let place = sites.get(index).map(|site| site.to_string()).unwrap_or_default();
            return Err(Failure::Work(format!(
                "{name}: the genotype at {place} is not phased (as 0|1): phase the file first"
            )));
        }
        sets.join(&variant).map_err(|other| Failure::Work(format!("{name}: {other}")))?;
        if !haplotypes.is_empty() && haplotypes.len() != variant.alleles.len() {
            return Err(Failure::Work(format!(
                "{name}: the number of alleles changes at {}:{}: choose a --region on one side of it",
                variant.chromosome, variant.position
            )));
        }
        haplotypes.resize(variant.alleles.len(), vec![None; length]);
        for (haplotype, allele) in haplotypes.iter_mut().zip(&variant.alleles) {
            haplotype[index - start] = Some(*allele);
        }
    }
    if absent == Absent::Ref {
        // a file without a record here has the reference allele on both haplotypes
        if haplotypes.is_empty() {
            haplotypes.resize(2, vec![None; length]);
        }
        haplotypes.iter_mut().flatten().for_each(|allele| *allele = Some(allele.unwrap_or(false)));
    }
    let absent =
        haplotypes.first().map_or(Some(start), |first| first.iter().position(Option::is_none).map(|i| start + i));
    if let Some(site) = absent.and_then(|index| sites.get(index)) {
        return Err(Failure::Work(format!(
            "{name} has no genotype at {site}, and the question needs all {length} sites of the table in {region}: choose another --region, or \
             add --absent ref if the file leaves out sites with the reference allele"
        )));
    }
    let one = |(number, alleles): (usize, Vec<Option<bool>>)| {
        let alleles: Vec<bool> = alleles.into_iter().flatten().collect();
        let question = Ok(from(start, &alleles, sites).map_err(Failure::Work)?);
        let at = Coordinate::of(sites, start).map(|cell| (cell, length));
        Ok(Asked { name: format!("haplotype {}", number + 1), at, question, refused: false })
    };
    haplotypes.into_iter().enumerate().map(one).collect()
}
