//! Filters: the wanted records and samples.

use super::VariantError;
use std::collections::HashMap;
use std::path::Path;
use std::str::FromStr;

/// The most bytes of a file of regions or samples.
const MAX_LIST_BYTES: u64 = 1 << 28;

/// Ranges of chromosomes. A record is inside if its position is inside. Without a range, every
/// record is inside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Regions {
    /// First and last positions, 1-based, ascending, without overlap.
    all: HashMap<String, Vec<(u64, u64)>>,
}

impl Regions {
    /// Adds `chr`, `chr:position`, `chr:from-to` or `chr:from-`, several with commas between.
    /// Positions are 1-based, and both ends are inside.
    ///
    /// # Errors
    /// [`VariantError::Choice`].
    pub fn add(&mut self, text: &str) -> Result<(), VariantError> {
        let added = self.add_each(text);
        self.settle();
        added
    }

    fn add_each(&mut self, text: &str) -> Result<(), VariantError> {
        for region in text.split(',') {
            let wrong = || VariantError::Choice(format!("expected a region as chr20:1000-2000, found {region:?}"));
            let (chromosome, from, to) = match region.rsplit_once(':') {
                None => (region, 1, u64::MAX),
                Some((chromosome, stretch)) => {
                    let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
                    match stretch.split_once('-') {
                        None => (chromosome, number(stretch)?, number(stretch)?),
                        Some((from, "")) => (chromosome, number(from)?, u64::MAX),
                        Some((from, to)) => (chromosome, number(from)?, number(to)?),
                    }
                }
            };
            if chromosome.is_empty() || from == 0 || from > to {
                return Err(wrong());
            }
            self.insert(chromosome, from, to);
        }
        Ok(())
    }

    /// Adds the regions of a file. It is BED if its name ends in `.bed`: the first base is 0, and
    /// the end is outside. Otherwise a line is a chromosome and a position, or a first and a last
    /// position, 1-based, with tabs between. Lines that begin with `#` are skipped.
    ///
    /// # Errors
    /// [`VariantError`].
    pub fn add_file(&mut self, path: &Path) -> Result<(), VariantError> {
        let bed = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("bed"));
        let added = self.add_lines(path, bed, &lines(path)?);
        self.settle();
        added
    }

    fn add_lines(&mut self, path: &Path, bed: bool, lines: &[String]) -> Result<(), VariantError> {
        for (line, text) in lines.iter().enumerate() {
            if text.is_empty()
                || text.starts_with('#')
                || (bed && (text.starts_with("track") || text.starts_with("browser")))
            {
                continue;
            }
            let columns: Vec<&str> = text.split('\t').collect();
            let number = |column: usize| columns.get(column).and_then(|text| text.parse::<u64>().ok());
            let stretch = match (bed, number(1), number(2)) {
                (true, Some(from), Some(to)) => Some((from.saturating_add(1), to)),
                (false, Some(from), Some(to)) => Some((from, to)),
                (false, Some(at), None) if columns.len() == 2 => Some((at, at)),
                _ => None,
            };
            let Some((from, to)) = stretch.filter(|(from, to)| *from > 0 && from <= to) else {
                let (name, line) = (path.display(), line + 1);
                let what = format!("{name}, line {line}: expected a chromosome and positions, found {text:?}");
                return Err(VariantError::Choice(what));
            };
            self.insert(columns[0], from, to);
        }
        Ok(())
    }

    fn insert(&mut self, chromosome: &str, from: u64, to: u64) {
        match self.all.get_mut(chromosome) {
            Some(stretches) => stretches.push((from, to)),
            None => {
                self.all.insert(chromosome.to_owned(), vec![(from, to)]);
            }
        }
    }

    /// Sorts the added ranges, once for many: files have hundreds of thousands.
    fn settle(&mut self) {
        for stretches in self.all.values_mut() {
            stretches.sort_unstable();
            stretches.dedup_by(|next, last| {
                let joined = next.0 <= last.1.saturating_add(1);
                last.1 = if joined { last.1.max(next.1) } else { last.1 };
                joined
            });
        }
    }

    /// Whether a position is inside.
    pub fn contains(&self, chromosome: &str, position: u64) -> bool {
        if self.all.is_empty() {
            return true;
        }
        let Some(stretches) = self.all.get(chromosome) else { return false };
        let after = stretches.partition_point(|stretch| stretch.0 <= position);
        after > 0 && position <= stretches[after - 1].1
    }
}

/// The lines of a list, for example of samples.
///
/// # Errors
/// [`VariantError`].
pub fn lines(path: &Path) -> Result<Vec<String>, VariantError> {
    let bytes = tobari_host::files::read_bounded(path, MAX_LIST_BYTES)?;
    lines_of(bytes).ok_or_else(|| VariantError::Choice(format!("{}: expected text in UTF-8", path.display())))
}

fn lines_of(bytes: Vec<u8>) -> Option<Vec<String>> {
    let text = String::from_utf8(bytes).ok()?;
    Some(text.trim_start_matches('\u{feff}').lines().map(|line| line.trim_end().to_owned()).collect())
}

/// For any bytes, the result is regions that are sorted and apart, a condition, a kind, or an
/// error.
#[doc(hidden)]
pub fn fuzz_choices(data: &[u8]) {
    let (Ok(text), Some(lines)) = (std::str::from_utf8(data), lines_of(data.to_vec())) else { return };
    let mut regions = Regions::default();
    let _ = regions.add(text);
    for bed in [false, true] {
        let _ = regions.add_lines(Path::new("bytes"), bed, &lines);
    }
    regions.settle();
    for (chromosome, stretches) in &regions.all {
        assert!(stretches.windows(2).all(|pair| pair[0].1.saturating_add(1) < pair[1].0), "{stretches:?}");
        for (from, to) in stretches {
            assert!(regions.contains(chromosome, *from) && regions.contains(chromosome, *to));
            assert!(*from == 0 || !regions.contains(chromosome, from - 1));
        }
    }
    if let Ok(expression) = text.parse::<Expression>() {
        let kind = text.parse().unwrap_or(VariantKind::Other);
        let _ = [0, 1, u64::MAX].map(|ones| expression.holds(kind, ones, u64::MAX));
    }
}

/// The difference between two alleles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariantKind {
    /// One base for one base.
    Snp,
    /// Bases are inserted or deleted.
    Indel,
    /// Several bases replaced by as many; a symbolic allele; and all others.
    Other,
}

impl VariantKind {
    /// The kind of a variant.
    pub fn of(reference: &str, alternate: &str) -> Self {
        let bases = |allele: &str| allele.bytes().all(|base| b"ACGTNacgtn".contains(&base));
        match (reference.len(), alternate.len()) {
            _ if !bases(reference) || !bases(alternate) => Self::Other,
            (1, 1) => Self::Snp,
            (a, b) if a != b => Self::Indel,
            _ => Self::Other,
        }
    }
}

impl FromStr for VariantKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "snp" | "snps" => Ok(Self::Snp),
            "indel" | "indels" => Ok(Self::Indel),
            "other" => Ok(Self::Other),
            _ => Err(format!("expected snps, indels or other, found {text:?}")),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Field {
    MinorFrequency,
    Frequency,
    Count,
    Number,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Term {
    Compare { field: Field, sign: Sign, value: f64 },
    Kind { kind: VariantKind, is: bool },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Sign {
    Less,
    LessEqual,
    Equal,
    Unequal,
    GreaterEqual,
    Greater,
}

const SIGNS: [(&str, Sign); 7] = [
    ("<=", Sign::LessEqual),
    (">=", Sign::GreaterEqual),
    ("==", Sign::Equal),
    ("!=", Sign::Unequal),
    ("=", Sign::Equal),
    ("<", Sign::Less),
    (">", Sign::Greater),
];

/// Conditions on MAF, AF, AC and AN, which are computed from the genotypes of the chosen samples,
/// and on TYPE. All must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expression(Vec<Term>);

impl FromStr for Expression {
    type Err = VariantError;

    fn from_str(text: &str) -> Result<Self, VariantError> {
        let one = |part: &str| {
            let wrong = || {
                let what = "expected conditions as MAF>=0.01 && TYPE=\"snp\" (of MAF, AF, AC, AN and TYPE)";
                VariantError::Choice(format!("{what}, found {part:?}"))
            };
            let place = part.find(['<', '>', '=', '!']).ok_or_else(wrong)?;
            let (name, rest) = part.split_at(place);
            let (sign, value) =
                SIGNS.iter().find_map(|(sign, is)| Some((*is, rest.strip_prefix(sign)?))).ok_or_else(wrong)?;
            let (name, value) = (name.trim(), value.trim());
            if name == "TYPE" {
                let kind = value.trim_matches('"').parse().map_err(|_| wrong())?;
                let is = match sign {
                    Sign::Equal => true,
                    Sign::Unequal => false,
                    _ => return Err(wrong()),
                };
                return Ok(Term::Kind { kind, is });
            }
            let field = match name {
                "MAF" => Field::MinorFrequency,
                "AF" => Field::Frequency,
                "AC" => Field::Count,
                "AN" => Field::Number,
                _ => return Err(wrong()),
            };
            let value: f64 = value.parse().map_err(|_| wrong())?;
            if value.is_finite() { Ok(Term::Compare { field, sign, value }) } else { Err(wrong()) }
        };
        text.split("&&").map(|part| one(part.trim())).collect::<Result<_, _>>().map(Self)
    }
}

impl Expression {
    /// Whether all conditions hold for a variant of this kind with `ones` alternate alleles among
    /// `all`.
    pub fn holds(&self, kind: VariantKind, ones: u64, all: u64) -> bool {
        let frequency = ones as f64 / all.max(1) as f64;
        self.0.iter().all(|term| match *term {
            Term::Kind { kind: wanted, is } => (kind == wanted) == is,
            Term::Compare { field, sign, value } => {
                let found = match field {
                    Field::MinorFrequency => ones.min(all - ones) as f64 / all.max(1) as f64,
                    Field::Frequency => frequency,
                    Field::Count => ones as f64,
                    Field::Number => all as f64,
                };
                match sign {
                    Sign::Less => found < value,
                    Sign::LessEqual => found <= value,
                    Sign::Equal => found == value,
                    Sign::Unequal => found != value,
                    Sign::GreaterEqual => found >= value,
                    Sign::Greater => found > value,
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_that_meet_are_one_whatever_their_order() {
        let mut regions = Regions::default();
        regions.add("a:5-9,a:1,b,a:30-,a:10-12,a:2-3,a:7").unwrap();
        let inside: Vec<u64> = (0..40).filter(|position| regions.contains("a", *position)).collect();
        assert_eq!(inside, (1..4).chain(5..13).chain(30..40).collect::<Vec<_>>());
        assert_eq!(regions.all["a"], [(1, 3), (5, 12), (30, u64::MAX)]);
        assert!(regions.contains("b", u64::MAX) && !regions.contains("c", 1));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_regions_that_are_apart_a_condition_or_refused(
            regions in "((chr1|x)(:[0-9]{1,2}(-[0-9]{0,2})?)?,?){0,6}",
            list in "((chr1|x)\t[0-9]{1,2}(\t[0-9]{1,2})?\n){0,6}",
            condition in "((MAF|AN|TYPE|X) ?(<=|==|!=|=|>|!) ?(\"?snps?\"?|0\\.[0-9]{1,2}|inf|-1)( && )?){1,3}",
            other: Vec<u8>,
        ) {
            for text in [regions, list, condition] {
                fuzz_choices(text.as_bytes());
                fuzz_choices(&[text.as_bytes(), &other].concat());
            }
        }
    }
}
