//! Records of VCF and BCF: chromosome, position, name, alleles, genotypes and their phase sets. Of
//! other fields, only the extents of structural variants are read ([`super::extent`]), and the
//! numbers of alleles in files without samples ([`super::counted`]). Bases are in upper case.
//!
//! VCF 4.x and BCF 2 (the specifications of samtools/hts-specs). Every size in a file is checked
//! before memory is allocated for it.

use super::PhaseSet;
use super::assembly::ToldAssembly;
use super::counted::Counted;
use super::extent::{self, Reach};
use super::input::{self, Input};
use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead, Read};
use std::sync::Arc;
use tobari_search::table::canonical_allele;

/// The most bytes of a line or a record.
const MAX_BYTES: usize = 1 << 28;
/// The most bytes of all meta-information.
const MAX_META_BYTES: usize = 1 << 26;
/// The most bytes of the line with the names of the samples: half a million of 36 characters take
/// 18.5 million.
const MAX_NAMES_BYTES: usize = 1 << 25;
/// The most samples of a file.
const MAX_SAMPLES: usize = 1 << 20;
/// The most alternate alleles of a record: their numbers have 16 bits.
const MAX_ALTERNATES: usize = u16::MAX as usize;
/// The most bytes of the name of a chromosome in INFO: each symbolic allele of a record includes
/// it.
const MAX_CHROMOSOME_BYTES: usize = 255;
/// No second allele: a haploid call.
pub(super) const NONE: u16 = u16::MAX;
/// An allele that was not called.
pub(super) const MISSING: u16 = u16::MAX - 1;
/// Both alleles of a genotype of more than two. Only the chosen samples of wanted records matter.
pub(super) const MORE: u16 = u16::MAX - 2;
/// A genotype of more than two alleles.
const MORE_THAN_TWO: Genotype = Genotype { alleles: [MORE; 2], phased: true, set: None };

/// The alleles of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Genotype {
    pub(super) alleles: [u16; 2],
    /// Whether it is known on which haplotype each allele is.
    pub(super) phased: bool,
    /// The phase set.
    pub(super) set: PhaseSet,
}

/// A record.
#[derive(Default)]
pub(super) struct Raw {
    pub(super) chromosome: Arc<str>,
    pub(super) position: u64,
    pub(super) id: Option<Box<str>>,
    pub(super) reference: Box<str>,
    pub(super) alternates: Vec<Box<str>>,
    /// One for each sample of the file; empty if the record has no genotypes, or no alternate
    /// allele.
    pub(super) genotypes: Vec<Genotype>,
    /// The numbers of alleles in a file without samples.
    pub(super) counted: Counted,
}

/// What is wrong with the file, in words, or the system's error.
pub(super) enum Fault {
    Malformed(String),
    System(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault::System(error)
    }
}

const GENOTYPES_ONCE: &str = "expected genotypes (GT) once in a record, found them again";

fn malformed<T>(what: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Malformed(what.into()))
}

/// A file that is being read.
pub(super) struct Source {
    reader: Box<dyn Input>,
    pub(super) samples: Vec<String>,
    pub(super) assembly: ToldAssembly,
    kind: Kind,
    buffer: Vec<u8>,
}

enum Kind {
    Text,
    Binary { chromosomes: HashMap<i64, Arc<str>>, words: Words },
}

/// The numbers of the words that the reader uses of a BCF file.
struct Words {
    genotype: Option<i64>,
    set: Option<i64>,
    sets: Option<i64>,
    end: Option<i64>,
    length: Option<i64>,
    chromosome: Option<i64>,
    ones: Option<i64>,
    all: Option<i64>,
}

impl Source {
    /// Reads the header.
    pub(super) fn open(mut reader: Box<dyn Input>) -> Result<Self, Fault> {
        let mut assembly = ToldAssembly::default();
        let head = reader.fill_buf()?;
        if head.starts_with(input::MARK) {
            reader.consume(input::MARK.len());
        }
        if !reader.fill_buf()?.starts_with(b"BCF") {
            let samples = text_header(&mut *reader, |line| tell(&mut assembly, line))?;
            return Ok(Self { reader, samples, assembly, kind: Kind::Text, buffer: Vec::new() });
        }
        let mut start = [0; 9];
        reader.read_exact(&mut start)?;
        if start[3] != 2 {
            return malformed(format!("expected BCF of version 2, found {}", start[3]));
        }
        let length = u32::from_le_bytes([start[5], start[6], start[7], start[8]]);
        let mut text = Vec::new();
        read_some(&mut *reader, (length as usize, MAX_META_BYTES + MAX_NAMES_BYTES, "header"), &mut text)?;
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        let (mut chromosomes, mut strings) = (Dictionary::default(), Dictionary::default());
        strings.add("PASS", None);
        let samples = text_header(&mut &text[..end], |line| {
            tell(&mut assembly, line);
            let Some((kind, [Some(id), index])) = meta(line, ["ID", "IDX"]) else { return };
            let index = index.and_then(|index| index.parse().ok());
            match kind {
                "contig" => chromosomes.add(id, index),
                "FILTER" | "INFO" | "FORMAT" => strings.add(id, index),
                _ => {}
            }
        })?;
        let number = |name: &str| strings.known.get(name).copied();
        let words = Words {
            genotype: number("GT"),
            set: number("PS"),
            sets: number("PSL"),
            end: number("END"),
            length: number("SVLEN"),
            chromosome: number("CHR2"),
            ones: number("AC"),
            all: number("AN"),
        };
        let kind = Kind::Binary { chromosomes: chromosomes.all, words };
        Ok(Self { reader, samples, assembly, kind, buffer: Vec::new() })
    }

    /// Reads the next record; false at the end.
    pub(super) fn next(&mut self, record: &mut Raw) -> Result<bool, Fault> {
        match &self.kind {
            Kind::Text => loop {
                if !input::line(&mut *self.reader, &mut self.buffer, MAX_BYTES)? {
                    return Ok(false);
                }
                if !self.buffer.is_empty() {
                    return text_record(&self.buffer, self.samples.len(), record).map(|()| true);
                }
            },
            Kind::Binary { chromosomes, words } => {
                if self.reader.fill_buf()?.is_empty() {
                    return Ok(false);
                }
                let mut lengths = [0; 8];
                self.reader.read_exact(&mut lengths)?;
                let [shared, individual] = [0, 4]
                    .map(|i| u32::from_le_bytes([lengths[i], lengths[i + 1], lengths[i + 2], lengths[i + 3]]) as usize);
                read_some(&mut *self.reader, (shared + individual, MAX_BYTES, "record"), &mut self.buffer)?;
                let (shared, individual) = self.buffer.split_at(shared);
                let samples = self.samples.len();
                let counts = binary_site(shared, (chromosomes, words), (samples, record))?;
                binary_genotypes(individual, counts, (samples, words), record)?;
                Ok(true)
            }
        }
    }
}

/// Reads `length` bytes; `most` bytes are allowed. Memory grows with the bytes read.
fn read_some(
    reader: &mut dyn Input,
    (length, most, what): (usize, usize, &str),
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    if length > most {
        return malformed(format!("expected at most {most} bytes in a {what}, found {length}"));
    }
    Ok(input::record(reader, out, length)?)
}

/// Passes all lines of meta-information to `meta`, and returns the samples.
fn text_header(reader: &mut dyn Input, mut meta: impl FnMut(&str)) -> Result<Vec<String>, Fault> {
    let (mut line, mut read, mut first) = (Vec::new(), 0, true);
    loop {
        if !input::line(reader, &mut line, MAX_META_BYTES)? {
            return malformed("expected a header that ends with the line #CHROM, found the end of the file");
        }
        if std::mem::take(&mut first) && !line.starts_with(b"##fileformat=VCF") {
            return malformed("expected VCF or BCF, which begin with ##fileformat=VCF or BCF, found another file");
        }
        let Ok(text) = std::str::from_utf8(&line) else { return malformed("expected a header in UTF-8") };
        if !text.starts_with("##") {
            return samples_of(text);
        }
        read += line.len() + 1;
        if read > MAX_META_BYTES {
            return malformed(format!(
                "expected at most {MAX_META_BYTES} bytes of meta-information before the line #CHROM, found more: \
                 leave out lines that begin with ##"
            ));
        }
        meta(text);
    }
}

/// The samples in the line `#CHROM`. A rejected line leaves nothing in memory.
fn samples_of(line: &str) -> Result<Vec<String>, Fault> {
    if line.len() > MAX_NAMES_BYTES {
        let found = line.len();
        return malformed(format!(
            "expected at most {MAX_NAMES_BYTES} bytes in the line #CHROM, found {found}: split the file by samples"
        ));
    }
    let mut columns = line.split('\t');
    for name in ["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO"] {
        if columns.next() != Some(name) {
            return malformed("expected the columns #CHROM to INFO, found others");
        }
    }
    let (mut samples, mut names) = (Vec::new(), HashSet::new());
    // the columns after FORMAT
    for name in columns.skip(1) {
        let number = samples.len() + 1;
        if name.is_empty() {
            return malformed(format!(
                "expected a name for each sample in the line #CHROM, found none for sample {number}: give it one, or \
                 take away the tab"
            ));
        }
        if number > MAX_SAMPLES {
            return malformed(format!("expected at most {MAX_SAMPLES} samples, found more: split the file by samples"));
        }
        if !names.insert(name) {
            return malformed(format!("expected each sample once in the line #CHROM, found {name} again: rename one"));
        }
        samples.push(name.to_owned());
    }
    Ok(samples)
}

/// The kind of `##kind=<key=value,key="value">`, and the first value of each of these keys.
fn meta<'a, const N: usize>(line: &'a str, keys: [&str; N]) -> Option<(&'a str, [Option<&'a str>; N])> {
    let (kind, rest) = line.strip_prefix("##")?.split_once("=<")?;
    let rest = rest.strip_suffix('>')?;
    let (mut found, mut start, mut quoted) = ([None; N], 0, false);
    for (place, byte) in rest.bytes().enumerate().chain([(rest.len(), b',')]) {
        match byte {
            b'"' => quoted = !quoted,
            b',' if !quoted || place == rest.len() => {
                if let Some((key, value)) = rest[start..place].split_once('=')
                    && let Some(at) = keys.iter().position(|wanted| *wanted == key)
                {
                    found[at] = found[at].or(Some(value));
                }
                start = place + 1;
            }
            _ => {}
        }
    }
    Some((kind, found))
}

/// Reads what a line of meta-information tells of the assembly.
fn tell(assembly: &mut ToldAssembly, line: &str) {
    if let Some(path) = line.strip_prefix("##reference=") {
        assembly.reference(path);
    } else if let Some(("contig", [Some(name), length, of])) = meta(line, ["ID", "length", "assembly"]) {
        assembly.contig(name, length, of);
    }
}

/// Names and their numbers, given or in the order of their first mention.
#[derive(Default)]
struct Dictionary {
    all: HashMap<i64, Arc<str>>,
    known: HashMap<Arc<str>, i64>,
    next: i64,
}

impl Dictionary {
    fn add(&mut self, name: &str, index: Option<i64>) {
        if self.known.contains_key(name) {
            return;
        }
        let index = index.unwrap_or(self.next);
        self.next = self.next.max(index.saturating_add(1));
        let name: Arc<str> = name.into();
        self.known.insert(Arc::clone(&name), index);
        self.all.insert(index, name);
    }
}

fn text_record(line: &[u8], samples: usize, record: &mut Raw) -> Result<(), Fault> {
    let mut columns = line.split(|byte| *byte == b'\t');
    let mut column = |name: &str| match columns.next().map(std::str::from_utf8) {
        Some(Ok(text)) if !text.is_empty() => Ok(text),
        _ => malformed(format!("expected the column {name}, found the end of the line or no text")),
    };
    let chromosome = column("CHROM")?;
    if &*record.chromosome != chromosome {
        record.chromosome = chromosome.into();
    }
    let position = column("POS")?;
    record.position = match position.parse() {
        Ok(position) => position,
        Err(_) => return malformed(format!("expected a number in POS, found {position:?}")),
    };
    record.id = Some(column("ID")?).filter(|id| *id != ".").map(Into::into);
    record.reference = canonical_allele(column("REF")?).into();
    record.alternates.clear();
    let alternates = column("ALT")?;
    if alternates != "." {
        let found = alternates.split(',').count();
        if found > MAX_ALTERNATES {
            return malformed(format!(
                "expected at most {MAX_ALTERNATES} alternate alleles in ALT, found {found}: split the record or leave \
                 it out"
            ));
        }
        record.alternates.reserve_exact(found);
        record.alternates.extend(alternates.split(',').map(|allele| Box::from(canonical_allele(allele))));
    }
    for name in ["QUAL", "FILTER"] {
        column(name)?;
    }
    let info = column("INFO")?;
    if record.alternates.iter().any(|allele| extent::is_symbolic(allele)) {
        reach(&Reach::of_text(info).map_err(Fault::Malformed)?, record)?;
    }
    record.genotypes.clear();
    if samples == 0 {
        record.counted = Counted::of_text(info).map_err(Fault::Malformed)?;
        return Ok(());
    }
    let format = column("FORMAT")?;
    text_genotypes((format, columns), samples, record)
}

fn text_genotypes<'a>(
    (format, columns): (&str, impl Iterator<Item = &'a [u8]>),
    samples: usize,
    record: &mut Raw,
) -> Result<(), Fault> {
    let position = |name: &str| format.split(':').position(|key| key == name);
    let (place, set, sets) = (position("GT"), position("PS"), position("PSL"));
    if format.split(':').filter(|key| *key == "GT").count() > 1 {
        return malformed(GENOTYPES_ONCE);
    }
    let alleles = record.alternates.len() + 1;
    let (expected, mut found) = (if place.is_some() { samples } else { 0 }, 0);
    // without an alternate allele, nothing is counted: some files keep the numbers of alleles that
    // they have left out
    let counted = alleles > 1;
    record.genotypes.reserve_exact(if counted { expected } else { 0 });
    for value in columns {
        let Some(place) = place else { continue };
        found += 1;
        if found > expected || !counted {
            continue; // only their number is told
        }
        let genotype = value.split(|byte| *byte == b':').nth(place).unwrap_or(b".");
        let mut genotype = text_genotype(genotype, alleles)?;
        genotype.phased &= sets.is_none();
        if let Some(set) = set.filter(|_| genotype.alleles[0] != genotype.alleles[1]) {
            genotype.set = text_set(value.split(|byte| *byte == b':').nth(set))?;
        }
        record.genotypes.push(genotype);
    }
    if found != expected {
        return malformed(format!("expected genotypes of {expected} samples, found {found}"));
    }
    Ok(())
}

/// Adds the extents to a record's structural variants.
fn reach(reach: &Reach, record: &mut Raw) -> Result<(), Fault> {
    let other = reach.chromosome.as_ref().map_or(0, String::len);
    if other > MAX_CHROMOSOME_BYTES {
        return malformed(format!(
            "expected the name of a chromosome of at most {MAX_CHROMOSOME_BYTES} bytes in CHR2, found {other}"
        ));
    }
    let all = record.alternates.len();
    for (number, alternate) in record.alternates.iter_mut().enumerate() {
        let place = (&*record.chromosome, record.position);
        if let Some(told) = reach.told(place, alternate, (number, all)) {
            *alternate = told.into();
        }
    }
    Ok(())
}

fn text_set(text: Option<&[u8]>) -> Result<PhaseSet, Fault> {
    let Some(text) = text.filter(|text| !matches!(*text, b"." | b"")) else { return Ok(None) };
    match std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()) {
        Some(set) => Ok(Some(set)),
        None => malformed(format!("expected a number in PS, found {:?}", String::from_utf8_lossy(text))),
    }
}

fn text_genotype(text: &[u8], alleles: usize) -> Result<Genotype, Fault> {
    // by far the most common genotypes
    if let [a @ (b'0' | b'1'), sign @ (b'|' | b'/'), b @ (b'0' | b'1')] = text
        && alleles > 1
    {
        let alleles = [u16::from(a - b'0'), u16::from(b - b'0')];
        return Ok(Genotype { alleles, phased: *sign == b'|', set: None });
    }
    let wrong =
        || malformed(format!("expected a genotype as 0|1, 0/1, 1 or ./., found {:?}", String::from_utf8_lossy(text)));
    let (mut found, mut count, mut phased) = ([NONE; 2], 0, true);
    let body = text.strip_prefix(b"|").or(text.strip_prefix(b"/")).unwrap_or(text);
    for part in body.split(|byte| matches!(byte, b'|' | b'/')) {
        if count == 2 {
            return Ok(MORE_THAN_TWO);
        }
        found[count] = match part {
            b"." => MISSING,
            _ => match std::str::from_utf8(part).ok().and_then(|part| part.parse::<u16>().ok()) {
                Some(allele) if usize::from(allele) < alleles => allele,
                Some(allele) => return malformed(format!("expected an allele below {alleles}, found {allele}")),
                None => return wrong(),
            },
        };
        count += 1;
    }
    // before the first allele, `/` says that the allele's own phase is unknown
    if text.contains(&b'/') {
        phased = false;
    }
    Ok(Genotype { alleles: found, phased, set: None })
}

/// Reads BCF fields from the front.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let Some((taken, rest)) = self.0.split_at_checked(count) else {
            return malformed("expected more bytes in a record, found its end");
        };
        self.0 = rest;
        Ok(taken)
    }

    fn i32(&mut self) -> Result<i32, Fault> {
        let bytes = self.take(4)?;
        Ok(i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// The type and the length of the next value.
    fn kind(&mut self) -> Result<(u8, usize), Fault> {
        let byte = self.take(1)?[0];
        let length = match byte >> 4 {
            15 => usize::try_from(self.integer()?).unwrap_or(usize::MAX),
            length => usize::from(length),
        };
        Ok((byte & 15, length))
    }

    /// One integer, after its type.
    fn integer(&mut self) -> Result<i64, Fault> {
        let byte = self.take(1)?[0];
        match (byte >> 4, width(byte & 15)) {
            (1, Some(width)) => Ok(signed(self.take(width)?)),
            _ => malformed("expected one integer"),
        }
    }

    /// A value, after its type: the type, and the value's bytes.
    fn value(&mut self) -> Result<(u8, &'a [u8]), Fault> {
        let (kind, length) = self.kind()?;
        let wide = match kind {
            5 => 4,
            7 => 1,
            _ => width(kind).unwrap_or(0),
        };
        let Some(all) = wide.checked_mul(length) else {
            return malformed("expected more bytes in a record, found its end");
        };
        Ok((kind, self.take(all)?))
    }

    fn text(&mut self) -> Result<&'a str, Fault> {
        let (kind, length) = self.kind()?;
        if kind == 0 && length == 0 {
            return Ok(".");
        }
        if kind != 7 {
            return malformed(format!("expected text, found type {kind}"));
        }
        let bytes = self.take(length)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(length);
        std::str::from_utf8(&bytes[..end]).or_else(|_| malformed("expected text in UTF-8"))
    }
}

/// Bytes of an integer of a type.
fn width(kind: u8) -> Option<usize> {
    match kind {
        1 => Some(1),
        2 => Some(2),
        3 => Some(4),
        _ => None,
    }
}

fn signed(bytes: &[u8]) -> i64 {
    let unsigned = bytes.iter().rev().fold(0, |value: i64, byte| value << 8 | i64::from(*byte));
    let sign = 1 << (8 * bytes.len() - 1);
    (unsigned ^ sign) - sign
}

/// The number of fields of samples, and the number of samples.
fn binary_site(
    shared: &[u8],
    (chromosomes, words): (&HashMap<i64, Arc<str>>, &Words),
    (samples, record): (usize, &mut Raw),
) -> Result<(usize, usize), Fault> {
    let mut bytes = Bytes(shared);
    let chromosome = i64::from(bytes.i32()?);
    let Some(chromosome) = chromosomes.get(&chromosome) else {
        return malformed(format!("expected a contig of the header, found number {chromosome}"));
    };
    record.chromosome = Arc::clone(chromosome);
    record.position = u64::try_from(i64::from(bytes.i32()?) + 1).unwrap_or(0);
    bytes.take(8)?; // the length on the reference, and the quality
    let (numbers, fields) = (bytes.i32()? as u32, bytes.i32()? as u32);
    let alleles = numbers >> 16;
    let id = bytes.text()?;
    record.id = Some(id).filter(|id| !id.is_empty() && *id != ".").map(Into::into);
    if alleles == 0 {
        return malformed("expected a reference allele, found none");
    }
    record.reference = canonical_allele(bytes.text()?).into();
    record.alternates.clear();
    for _ in 1..alleles {
        record.alternates.push(canonical_allele(bytes.text()?).into());
    }
    let structural = record.alternates.iter().any(|allele| extent::is_symbolic(allele));
    if structural || samples == 0 {
        bytes.value()?; // the filters
        let (told, counted) = binary_info(&mut bytes, numbers & 0xffff, words)?;
        if structural {
            reach(&told, record)?;
        }
        record.counted = counted;
    }
    Ok((fields as usize >> 24, fields as usize & 0xff_ffff))
}

/// The extents and the numbers of alleles in INFO.
fn binary_info(bytes: &mut Bytes<'_>, fields: u32, words: &Words) -> Result<(Reach, Counted), Fault> {
    let (mut reach, mut counted) = (Reach::default(), Counted::default());
    for _ in 0..fields {
        let key = Some(bytes.integer()?);
        let (kind, value) = bytes.value()?;
        if key == words.chromosome && kind == 7 {
            let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
            let text = std::str::from_utf8(&value[..end]).or_else(|_| malformed("expected text in UTF-8"))?;
            reach.chromosome = Some(text.to_owned()).filter(|text| !text.is_empty() && text != ".");
            continue;
        }
        let known = [words.end, words.length, words.ones, words.all].contains(&key);
        let Some(width) = width(kind).filter(|_| known) else { continue };
        let smallest = -1i64 << (8 * width - 1);
        let numbers = value.chunks_exact(width).map(signed).take_while(|value| *value != smallest + 1);
        let mut numbers = numbers.map(|value| Some(value).filter(|_| value != smallest));
        let of = |number: i64| u32::try_from(number).or_else(|_| malformed("expected numbers of alleles in AC and AN"));
        if key == words.end {
            reach.end = numbers.next().flatten().map(i64::unsigned_abs);
        } else if key == words.length {
            reach.lengths = numbers.map(|value| value.map(i64::unsigned_abs)).take(MAX_ALTERNATES).collect();
        } else if key == words.ones {
            let ones = numbers.take(MAX_ALTERNATES + 1).map(|value| value.map(of).transpose());
            counted.take_ones(ones.collect::<Result<_, _>>()?).map_err(Fault::Malformed)?;
        } else {
            counted.take_all(numbers.next().flatten().map(of).transpose()?).map_err(Fault::Malformed)?;
        }
    }
    Ok((reach, counted))
}

fn binary_genotypes(
    individual: &[u8],
    (fields, found): (usize, usize),
    (samples, words): (usize, &Words),
    record: &mut Raw,
) -> Result<(), Fault> {
    record.genotypes.clear();
    if found != samples {
        return malformed(format!("expected {samples} samples, found {found}"));
    }
    let mut bytes = Bytes(individual);
    let (mut sets, mut listed, mut called) = (Vec::new(), false, false);
    for _ in 0..fields {
        let key = Some(bytes.integer()?);
        let (kind, length) = bytes.kind()?;
        let width = match kind {
            5 => 4,
            7 => 1,
            _ => width(kind).unwrap_or(0),
        };
        let Some(all) = width.checked_mul(length).and_then(|one| one.checked_mul(samples)) else {
            return malformed("expected more bytes in a record, found its end");
        };
        let data = bytes.take(all)?;
        listed |= key == words.sets;
        if key == words.set && length > 0 && (1..=3).contains(&kind) {
            let smallest = -1i64 << (8 * width - 1);
            let of = |sample: &[u8]| Some(signed(&sample[..width])).filter(|set| *set > smallest + 1);
            sets = data.chunks_exact(width * length).map(of).collect();
        }
        if key != words.genotype {
            continue;
        }
        if !(1..=3).contains(&kind) || length == 0 {
            return malformed(format!("expected genotypes as integers, found type {kind}"));
        }
        if std::mem::replace(&mut called, true) {
            return malformed(GENOTYPES_ONCE);
        }
        let alleles = record.alternates.len() + 1;
        if alleles == 1 {
            continue; // as in text
        }
        record.genotypes.reserve_exact(samples);
        for sample in data.chunks_exact(width * length) {
            record.genotypes.push(binary_genotype(sample, width, alleles)?);
        }
    }
    for (sample, genotype) in record.genotypes.iter_mut().enumerate() {
        genotype.phased &= !listed;
        if genotype.alleles[0] != genotype.alleles[1] {
            genotype.set = sets.get(sample).copied().flatten();
        }
    }
    Ok(())
}

fn binary_genotype(sample: &[u8], width: usize, alleles: usize) -> Result<Genotype, Fault> {
    let smallest = -1i64 << (8 * width - 1);
    let (mut found, mut count, mut phased) = ([NONE; 2], 0, true);
    for value in sample.chunks_exact(width).map(signed) {
        if value == smallest + 1 {
            break; // the end of a shorter one
        }
        if count == 2 {
            return Ok(MORE_THAN_TWO);
        }
        let allele = if value == smallest { -1 } else { (value >> 1) - 1 };
        found[count] = match u16::try_from(allele) {
            _ if allele == -1 => MISSING,
            Ok(allele) if usize::from(allele) < alleles => allele,
            _ => return malformed(format!("expected an allele below {alleles}, found {allele}")),
        };
        phased &= count == 0 || value & 1 == 1;
        count += 1;
    }
    if count == 0 {
        return malformed("expected genotypes of one or two alleles, found none");
    }
    Ok(Genotype { alleles: found, phased, set: None })
}
