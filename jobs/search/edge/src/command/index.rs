//! `tobari search index`: tables from files.

use super::spill::Spilled;
use super::{FilterArguments, IndexArguments, Missing, Multiallelic, Unphased};
use chacha20::rand_core::CryptoRng;
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use tobari_command::output::{self, Failure};
use tobari_command::randomness;
use tobari_host::files;
use tobari_search::table::{
    Alleles, Content, KeyForm, KeyTable, KeyTableBuilder, LIMB_BITS, MAX_COUNT, MAX_TABLE_BYTES, Site, Sites, Table,
    TableError, encode_table, same_assembly,
};
use tobari_search_files::tsv;
use tobari_search_files::variants::{self, OtherSet, PhaseSets, Selection, Summary, Variant, VariantReader};

/// Makes a table, or appends to one, and prints a summary.
pub(crate) fn run(arguments: &IndexArguments) -> Result<ExitCode, Failure> {
    let (table, growing, summary) = match arguments.table {
        true => {
            let (content, mut rng) = keys(arguments)?;
            (new_table(Content::Keys(content), arguments, &mut rng), None, None)
        }
        false => {
            let (table, growing, summary) = sites(arguments)?;
            (table, growing, Some(summary))
        }
    };
    let made = growing.as_ref().map_or_else(|| Made::of(&table), |panel| Made::of_panel(panel, &table));
    let bytes = match growing {
        Some(panel) => panel.write(&table)?,
        None => {
            let bytes = encode_table(&table);
            files::check_bounded(&arguments.output, &bytes, MAX_TABLE_BYTES)?;
            files::write_atomically(&arguments.output, &bytes)?;
            bytes.len() as u64
        }
    };
    report((&table, made), summary.as_ref(), bytes, arguments)?;
    Ok(ExitCode::SUCCESS)
}

fn new_table(content: Content, arguments: &IndexArguments, rng: &mut impl CryptoRng) -> Table {
    Table::new(content, arguments.min_count.unwrap_or(1), &arguments.label, rng)
}

fn keys(arguments: &IndexArguments) -> Result<(KeyTable, impl CryptoRng + use<>), Failure> {
    let mut builder = KeyTableBuilder::new();
    let separator = arguments.separator.unwrap_or(b'\t');
    // the separator that all keys end with, before a number
    let mut meant: Option<Option<u8>> = None;
    tsv::read_keys(&arguments.input, (arguments.header, separator), |key, count| {
        let found = tsv::ends_with_count(key).filter(|_| count == 1);
        meant = Some(match meant {
            None => found,
            Some(before) => before.filter(|before| found == Some(*before)),
        });
        builder.push(key, count).map_err(|error| error.to_string())
    })?;
    if let Some(Some(byte)) = meant {
        let byte = char::from(byte);
        output::say(format!(
            "every key ends with {byte:?} and a number, and was taken as a whole with the count 1: if the numbers are \
             counts, index again with --separator '{byte}'"
        ));
    }
    let name = arguments.input.display();
    let mut rng = randomness::generator()?;
    let keys = builder.finish(LIMB_BITS, MAX_COUNT, &mut rng).map_err(|error| {
        let shifted = if arguments.header { " (entries are lines after the header)" } else { " (entries are lines)" };
        Failure::Work(format!("{name}: {error}{shifted}"))
    })?;
    Ok((keys, rng))
}

fn selection(filters: &FilterArguments) -> Result<Selection, Failure> {
    let mut selection = Selection {
        min_alleles: filters.min_alleles,
        max_alleles: filters.max_alleles,
        kinds: filters.types.clone(),
        split: filters.multiallelic == Multiallelic::Split,
        missing_is_reference: filters.missing == Missing::Ref,
        ..Selection::default()
    };
    let call = |error: variants::VariantError| Failure::Call(error.to_string());
    filters.regions.iter().try_for_each(|text| selection.regions.add(text)).map_err(call)?;
    filters.regions_file.iter().try_for_each(|path| selection.regions.add_file(path))?;
    if let Some(text) = &filters.include {
        selection.expression = text.parse().map_err(call)?;
    }
    let mut samples = filters.samples.clone();
    if let Some(path) = &filters.samples_file {
        samples.extend(variants::lines(path)?);
    }
    selection.samples = (!samples.is_empty()).then_some(samples);
    Ok(selection)
}

/// The content of a table in the making.
enum Growing {
    /// A new panel.
    Panel(Spilled),
    /// A panel that grows, or variants without phase.
    Whole(Content),
}

/// A table in the making, from a file of variants.
struct Building {
    growing: Growing,
    /// The count of allele 1 at each new site, in case the table turns out to have no phase.
    counts: Vec<u32>,
    /// Whether a panel may still become a table without phase.
    may_change: bool,
    sets: PhaseSets,
    /// Variants of another phase set than the ones before.
    other_sets: u64,
    /// Whether some genotype so far tells the haplotypes of two different alleles.
    phased: bool,
    unphased: Option<Unphased>,
    /// Variants that were left out because they cannot join the haplotypes.
    left_out: u64,
    /// The number of the stretch of the last new site ([`Variant::stretch`]).
    stretch: Option<u32>,
}

impl Building {
    /// A new table, whose first variant this is, or the continuation of one.
    fn new(before: Option<&Table>, first: Option<&Variant>, arguments: &IndexArguments) -> Result<Self, Failure> {
        let growing = match (before, first) {
            (Some(table), _) => Growing::Whole(table.content.clone()),
            (None, Some(variant)) if !variant.alleles.is_empty() => {
                Growing::Panel(Spilled::new(variant.alleles.len(), &arguments.output)?)
            }
            (None, _) => Growing::Whole(Content::variants()),
        };
        let may_change = before.is_none() && !arguments.filters.require_phase;
        let sets = before.map(|table| sets_after(&table.content, arguments.same_phasing)).unwrap_or_default();
        let (unphased, phased) = (arguments.filters.unphased, before.is_some());
        let (counts, other_sets, left_out, stretch) = (Vec::new(), 0, 0, None);
        Ok(Self { growing, counts, may_change, sets, other_sets, phased, unphased, left_out, stretch })
    }
}

/// The table, and its panel if it is a new one.
fn sites(arguments: &IndexArguments) -> Result<(Table, Option<Spilled>, Summary), Failure> {
    let input = arguments.input.display();
    let mut reader = VariantReader::open(&arguments.input, selection(&arguments.filters)?)?;
    if !reader.has_samples() && arguments.filters.require_phase {
        return Err(Failure::Work(format!("{input}: --require-phase needs genotypes, and the file has no samples")));
    }
    let before = if arguments.append { Some(super::read_table(&arguments.output)?) } else { None };
    let of_file = reader.assembly().resolve(arguments.assembly.as_deref());
    let assembly = of_file.and_then(|of_file| match &before {
        Some(before) => appended(before.assembly.as_deref(), of_file, arguments.assembly.is_some()),
        None => Ok(of_file),
    });
    let assembly = assembly.map_err(|what| Failure::Work(format!("{input}: {what}")))?;
    let mut building = before.as_ref().map(|table| Building::new(Some(table), None, arguments)).transpose()?;
    while let Some(variant) = reader.next_variant()? {
        let building = match &mut building {
            Some(building) => building,
            None => building.insert(Building::new(None, Some(&variant), arguments)?),
        };
        building
            .add(variant)
            .map_err(|what| Failure::Work(format!("{input}, record {}: {what}", reader.summary().records)))?;
        if reader.summary().kept.is_multiple_of(1_000) {
            output::status(&format!("{} sites", reader.summary().kept));
        }
    }
    output::status("");
    let mut summary = *reader.summary();
    summary.kept -= building.as_ref().map_or(0, |building| building.left_out);
    let Some(Building { growing, other_sets, left_out, .. }) = building.filter(|_| summary.kept > 0) else {
        return Err(Failure::Work(format!(
            "{input}: no variant is left to keep; change the filters: {}",
            told(&summary)
        )));
    };
    summary.other_sets = other_sets;
    if left_out > 0 {
        output::say(format!("{left_out} records were left out that cannot join the haplotypes (--unphased skip)"));
    }
    let (content, panel) = match growing {
        Growing::Panel(panel) => (Content::variants(), Some(panel)),
        Growing::Whole(content) => (content, None),
    };
    if let Content::Variants { alleles, .. } = &content
        && panel.is_none()
        && alleles.most() == 0
    {
        return Err(Failure::Work(format!("{input}: no allele is called at any site (AN=0): nothing can be counted")));
    }
    let table = match before {
        Some(before) => {
            let revision = before.revision.checked_add(1);
            let revision = revision.ok_or(Failure::Work("expected fewer than 2^32 additions".to_owned()))?;
            Table { content, revision, least: arguments.min_count.unwrap_or(before.least), ..before }
        }
        None => new_table(content, arguments, &mut randomness::generator()?),
    };
    Ok((table.with_assembly(assembly)?, panel, summary))
}

/// The assembly of a table after sites were appended, given that of the table and that of the new
/// sites. `declared`: the user names it.
fn appended(before: Option<&str>, new: Option<String>, declared: bool) -> Result<Option<String>, String> {
    match (before, new) {
        (Some(before), Some(new)) if same_assembly(before, &new, "M").is_ok() => Ok(Some(before.to_owned())),
        (Some(before), Some(new)) => Err(format!(
            "expected positions of {before} as in the table, found positions of {new}: add --assembly {before} if both are the \
             same for these chromosomes, lift the file over, or make another table of it"
        )),
        (Some(before), None) => Err(format!(
            "the table has positions of {before}, and the header of the file tells no assembly: if it is the same, add \
             --assembly {before}"
        )),
        // the user's word is for the whole table; a header is for its own sites alone
        (None, new) => Ok(new.filter(|_| declared)),
    }
}

/// The phase sets of sites that are appended to a table. A table does not keep the phase sets of
/// its own sites. `same`: the user declares that both have the same phasing.
fn sets_after(content: &Content, same: bool) -> PhaseSets {
    let last = match content {
        Content::Panel { sites, .. } if !same => sites.chromosomes().last(),
        _ => None,
    };
    last.map(|(name, _)| PhaseSets::after(Arc::clone(name))).unwrap_or_default()
}

/// Why a site cannot join the sites before, and how to solve this.
fn refused(other: &OtherSet, chromosome: &str) -> String {
    match other.before {
        Some(_) => format!("{other}; index all sites of the chromosome at once"),
        None => format!(
            "{other}; index all sites of chromosome {chromosome} at once, or say with --same-phasing that the table's \
             sites there and these are of one phasing"
        ),
    }
}

impl Building {
    fn add(&mut self, variant: Variant) -> Result<(), String> {
        let joined = self.sets.join(&variant);
        let panel = self.is_panel();
        if variant.alleles.is_empty() && panel {
            return Err("the table is a panel, and the file has no samples: make a table of its own".to_owned());
        }
        let apart = panel && (!variant.phased || joined.is_err());
        if apart && self.unphased == Some(Unphased::Skip) {
            self.left_out += 1;
            return Ok(());
        }
        if apart && self.may_change && self.phased && self.unphased.is_none() {
            let what = match &joined {
                Err(other) if variant.phased => other.to_string(),
                _ => "a genotype is not phased (as 0|1), and records before are".to_owned(),
            };
            return Err(format!(
                "{what}: leave such records out with --unphased skip, or make a table of single variants with \
                 --unphased variants"
            ));
        }
        self.phased |= variant.phased && !variant.sets.is_empty();
        self.other_sets += u64::from(joined.is_err());
        if apart && !self.may_change {
            return Err(match joined {
                Err(other) if variant.phased => refused(&other, &variant.chromosome),
                _ => "a genotype is not phased (as 0|1), and --require-phase and --append of a panel need phase: phase the file"
                    .to_owned(),
            });
        }
        if apart {
            self.drop_phase();
        }
        self.push(variant)
    }

    fn is_panel(&self) -> bool {
        matches!(self.growing, Growing::Panel(_) | Growing::Whole(Content::Panel { .. }))
    }

    /// Turns a new panel into variants without phase.
    fn drop_phase(&mut self) {
        let variants = Growing::Whole(Content::variants());
        if let Growing::Panel(Spilled { sites, transform, .. }) = std::mem::replace(&mut self.growing, variants) {
            let counts = std::mem::take(&mut self.counts);
            self.growing = Growing::Whole(Content::without_phase(sites, counts, &transform));
        }
    }

    /// Adds a variant that the table takes.
    fn push(&mut self, variant: Variant) -> Result<(), String> {
        let Variant { chromosome, position, id, reference, alternate, alleles, ones, all, stretch, .. } = variant;
        let site = Site { chromosome, position, id, reference, alternate };
        let last = self.stretch.replace(stretch);
        let changed = last.is_some_and(|last| last != stretch);
        let told = |error: TableError| error.to_string();
        match &mut self.growing {
            Growing::Panel(panel) => {
                if self.may_change {
                    self.counts.push(ones);
                }
                panel.push(site, &alleles, changed)
            }
            Growing::Whole(content @ Content::Panel { .. }) if changed => {
                content.push_after_break(site, &alleles).map_err(told)
            }
            Growing::Whole(content @ Content::Panel { .. }) => content.push_site(site, &alleles).map_err(told),
            // the first sites of a file that is appended must be of as many alleles as the table
            Growing::Whole(content) if last.is_none() && !alleles.is_empty() => match content.sites() {
                Some(sites) if !sites.is_empty() => content.push_site(site, &alleles).map_err(told),
                _ => content.push_count(site, ones, all).map_err(told),
            },
            Growing::Whole(content) => content.push_count(site, ones, all).map_err(told),
        }
    }
}

/// The assembly of a table, in words.
fn positions(table: &Table) -> &str {
    table.assembly.as_deref().unwrap_or("an unknown assembly (--assembly records it)")
}

/// A summary in words.
fn told(summary: &Summary) -> String {
    let Summary { records, kept, unphased, missing_as_reference, other_sets, .. } = *summary;
    let mut text = format!("{records} records, {kept} variants kept");
    let counts = [
        (unphased, "of them not phased"),
        (other_sets, "of them of another phase set (PS) than before"),
        (missing_as_reference, "alleles that were not called taken as the reference"),
        (summary.outside, "outside the regions"),
        (summary.monomorphic, "without an alternate allele left out"),
        (summary.alleles, "with fewer or more alleles left out"),
        (summary.multiallelic, "with several alternate alleles left out (--multiallelic split keeps them)"),
        (summary.missing, "with alleles that were not called left out (--missing ref keeps them)"),
        (summary.kind, "of other kinds left out"),
        (summary.expression, "for which the expression does not hold left out"),
        (summary.duplicate, "left out that were there already"),
    ];
    for (count, what) in counts {
        if count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    text
}

/// The kind of a table, its size in words, and its size for programs.
struct Made {
    kind: &'static str,
    text: String,
    about: Value,
}

impl Made {
    fn of_panel(panel: &Spilled, table: &Table) -> Self {
        Self::panel(&panel.sites, panel.transform.most_haplotypes(), table)
    }

    fn panel(sites: &Sites, haplotypes: usize, table: &Table) -> Self {
        let of = positions(table);
        let (changes, sites) = (sites.breaks().len(), sites.len());
        let text = match changes {
            0 => format!("a panel of {haplotypes} haplotypes at {sites} sites of {of}"),
            _ => format!(
                "a panel of up to {haplotypes} haplotypes at {sites} sites of {of}; the number of a sample's alleles \
                 changes at {changes} of them, and no question crosses such a site"
            ),
        };
        Self {
            kind: "panel",
            text,
            about: json!({ "sites": sites, "haplotypes": haplotypes, "changes": changes, "assembly": table.assembly }),
        }
    }

    fn of(table: &Table) -> Self {
        match &table.content {
            Content::Panel { sites, panel } => Self::panel(sites, panel.haplotypes(), table),
            Content::Variants { sites, alleles, .. } => {
                let (sites, most) = (sites.len(), alleles.most());
                let up_to = if matches!(alleles, Alleles::Each(_)) { "up to " } else { "" };
                let why = "without phase: single variants can be asked for, haplotypes cannot";
                let text = format!("{sites} variants of {up_to}{most} alleles of {}, {why}", positions(table));
                Self {
                    kind: "variants",
                    text,
                    about: json!({ "sites": sites, "alleles": most, "assembly": table.assembly }),
                }
            }
            Content::Keys(keys) => {
                let rate = keys.rule().false_positive_log2(keys.len() as u64);
                let exact = matches!(keys.rule().form(), KeyForm::Exact { .. });
                let how = rate.map_or("exact".to_owned(), |rate| {
                    format!("by fingerprints, at most 2^{rate:.1} false matches a question")
                });
                let about = json!({ "keys": keys.len(), "exact": exact, "false_positive_log2": rate });
                Self { kind: "keys", text: format!("{} keys, {how}", keys.len()), about }
            }
        }
    }
}

fn report(
    (table, made): (&Table, Made),
    summary: Option<&Summary>,
    bytes: u64,
    arguments: &IndexArguments,
) -> Result<(), Failure> {
    let name: String = table.name.iter().map(|byte| format!("{byte:02x}")).collect();
    let Made { kind, text, about } = made;
    if let Some(summary) = summary {
        output::say(told(summary));
    }
    if !arguments.json {
        let path: &Path = &arguments.output;
        output::result(format!("{}: {text}; revision {}, {bytes} bytes", path.display(), table.revision));
        return Ok(());
    }
    let mut line =
        json!({ "table": name, "kind": kind, "revision": table.revision, "min_count": table.least, "bytes": bytes });
    let mut add = |more: Value| {
        if let (Value::Object(line), Value::Object(more)) = (&mut line, more) {
            line.extend(more);
        }
    };
    add(about);
    if let Some(s) = summary {
        add(json!({
            "records": s.records, "kept": s.kept, "unphased": s.unphased, "other_phase_set": s.other_sets, "missing_as_reference": s.missing_as_reference,
            "outside": s.outside, "monomorphic": s.monomorphic, "other_number_of_alleles": s.alleles,
            "multiallelic": s.multiallelic, "missing": s.missing, "other_kind": s.kind,
            "expression": s.expression, "duplicate": s.duplicate,
        }));
    }
    output::json(&line)
}
