//! Readings as people have them: tables with separators, quotes and headers, or JSON lines.
//!
//! The first line that is not empty decides. A line that begins with `{` makes JSON lines. A first
//! line with a channel's name is a header: it names the columns, in any order and in upper or lower
//! case, with a unit in brackets or without. Columns that are no channels, such as times, are left
//! out and named. Without a header there is a column for each channel.
//!
//! **Nothing is guessed about a number.** A decimal comma and words for a missing reading are
//! accepted by an option alone. An error names the line, the column and the remedy, and no reading.

use super::arguments::FormArguments;
use super::folder::wrong;
use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use serde_json::{Map, Value};
use std::io::{BufRead, Read};
use std::path::Path;
use tobari_command::output::{self, Failure};
use tobari_sense::schema::Schema;

/// Largest length of a line of readings in bytes.
const MAX_LINE: u64 = 1 << 14;
/// The largest number of columns of a line.
const MAX_COLUMNS: usize = 1024;

/// Reads rows of readings, and passes each to `take` with the number of its line, as bytes.
pub(super) fn rows(
    mut input: impl BufRead,
    path: &Path,
    (schema, form): (&Schema, &FormArguments),
    mut take: impl FnMut(u64, Vec<u8>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (mut table, mut left_out, mut line) = (Table::new(schema, form), 0u64, Vec::new());
    for number in 1u64.. {
        line.clear();
        let count = (&mut input).take(MAX_LINE).read_until(b'\n', &mut line).map_err(|error| wrong(path, error))?;
        if count == 0 {
            break;
        }
        let at = |what: String| wrong(path, format!("line {number}: {what}"));
        if count as u64 == MAX_LINE {
            return Err(at(format!("expected fewer than {MAX_LINE} bytes, found more")));
        }
        let text = if number == 1 { without_mark(&line).map_err(at)? } else { &line[..] };
        let text = std::str::from_utf8(text).map_err(|_| at(NOT_TEXT.to_owned()))?.trim();
        if text.is_empty() {
            continue;
        }
        match table.line(text).map_err(at)? {
            Found::Row(row) => take(number, row)?,
            Found::Missing => left_out += 1,
            Found::Header(others) if others.is_empty() => {}
            Found::Header(others) => {
                output::say(format!("{}: left out, because they are no channels: {others}", path.display()));
            }
        }
    }
    if left_out > 0 {
        output::say(format!("{}: {left_out} rows with a missing reading are left out", path.display()));
    }
    Ok(())
}

const NOT_TEXT: &str = "expected text in UTF-8, found other bytes: save the file as UTF-8";

/// The first line without a byte-order mark.
fn without_mark(line: &[u8]) -> Result<&[u8], String> {
    if line.starts_with(&[0xff, 0xfe]) || line.starts_with(&[0xfe, 0xff]) {
        return Err("expected text in UTF-8, found UTF-16: save the file as UTF-8".to_owned());
    }
    Ok(line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line))
}

/// What a line is.
enum Found {
    /// Readings, as bytes.
    Row(Vec<u8>),
    /// A row with a missing reading.
    Missing,
    /// A header, with the names of columns that are no channels.
    Header(String),
}

/// A table that is being read.
struct Table<'a> {
    schema: &'a Schema,
    form: &'a FormArguments,
    kind: Option<Kind>,
}

enum Kind {
    Json,
    Columns {
        reader: Box<Reader>,
        /// The column of each channel.
        places: Vec<usize>,
        /// The number of columns.
        count: usize,
    },
}

impl<'a> Table<'a> {
    fn new(schema: &'a Schema, form: &'a FormArguments) -> Self {
        Self { schema, form, kind: None }
    }

    fn line(&mut self, text: &str) -> Result<Found, String> {
        match &mut self.kind {
            None if text.starts_with('{') => {
                self.kind = Some(Kind::Json);
                self.object(text)
            }
            Some(Kind::Json) => self.object(text),
            None => self.first(text),
            Some(Kind::Columns { reader, places, count }) => {
                let words = split(reader, text)?;
                if words.len() != *count {
                    return Err(columns(*count, words.len(), self.form));
                }
                let readings = places.iter().map(|place| (words[*place].as_str(), *place + 1));
                row(self.schema, self.form, readings)
            }
        }
    }

    /// The first line: a header, or readings in the order of the channels.
    fn first(&mut self, text: &str) -> Result<Found, String> {
        let separator = self.form.separator.unwrap_or_else(|| separator(text, self.form.decimal_comma));
        let mut reader = Box::new(ReaderBuilder::new().delimiter(separator).build());
        let (words, channels) = (split(&mut reader, text)?, self.schema.channels.len());
        let named: Vec<Option<usize>> = words.iter().map(|word| channel(self.schema, word)).collect();
        if named.iter().all(Option::is_none) {
            if words.len() != channels {
                return Err(columns(channels, words.len(), self.form));
            }
            if !words.iter().any(|word| number(word, self.form).is_ok()) && !self.is_missing(&words) {
                return Err(format!("expected numbers, or a header with the channels {}, found neither", self.names()));
            }
            self.kind = Some(Kind::Columns { reader, places: (0..channels).collect(), count: channels });
            return self.line(text);
        }
        let mut places = vec![None; channels];
        for (place, named) in named.iter().enumerate() {
            let Some(channel) = named else { continue };
            if places[*channel].replace(place).is_some() {
                let name = self.name(*channel);
                return Err(format!("column {}: the channel {name} has a column before: remove one", place + 1));
            }
        }
        let missing = |(channel, place): (usize, Option<usize>)| {
            place.ok_or_else(|| format!("no column has the name of the channel {}", self.name(channel)))
        };
        let places = places.into_iter().enumerate().map(missing).collect::<Result<Vec<usize>, String>>()?;
        let others = words.iter().zip(&named).filter(|(_, named)| named.is_none()).map(|(word, _)| printable(word));
        let others = others.collect::<Vec<String>>().join(", ");
        self.kind = Some(Kind::Columns { reader, places, count: words.len() });
        Ok(Found::Header(others))
    }

    fn is_missing(&self, words: &[String]) -> bool {
        words.iter().any(|word| is_missing(word, self.form))
    }

    fn name(&self, channel: usize) -> &str {
        &self.schema.channels[channel].name
    }

    fn names(&self) -> String {
        self.schema.channels.iter().map(|channel| channel.name.as_str()).collect::<Vec<&str>>().join(", ")
    }

    /// A JSON object with a value for each channel; other values are left out.
    fn object(&self, text: &str) -> Result<Found, String> {
        let object: Map<String, Value> = serde_json::from_str(text)
            .map_err(|_| "expected a JSON object on a line of its own, found something else".to_owned())?;
        let mut words = vec![None; self.schema.channels.len()];
        for (name, value) in &object {
            let Some(place) = channel(self.schema, name) else { continue };
            let word = match value {
                Value::String(word) => word.clone(),
                // numbers of JSON always have a point
                Value::Number(number) if self.form.decimal_comma => number.to_string().replace('.', ","),
                Value::Number(_) | Value::Null => value.to_string(),
                _ => return Err(format!("channel {}: expected a number, found another value", self.name(place))),
            };
            if words[place].replace(word).is_some() {
                return Err(format!("the object has two values for the channel {}: remove one", self.name(place)));
            }
        }
        let named = words.iter().zip(&self.schema.channels);
        if let Some((_, channel)) = named.clone().find(|(word, _)| word.is_none()) {
            return Err(format!("the object has no value for the channel {}", channel.name));
        }
        row(self.schema, self.form, words.iter().flatten().enumerate().map(|(place, word)| (word.as_str(), place + 1)))
    }
}

/// The bytes of a row: a word for each channel, with the number of its column.
fn row<'a>(
    schema: &Schema,
    form: &FormArguments,
    words: impl Iterator<Item = (&'a str, usize)>,
) -> Result<Found, String> {
    let (mut bytes, mut is_whole) = (Vec::with_capacity(schema.channels.len()), true);
    for ((word, column), channel) in words.zip(&schema.channels) {
        let at = |what: String| format!("column {column} ({}): {what}", channel.name);
        if is_missing(word, form) {
            is_whole = false;
            continue;
        }
        let byte = channel.byte(number(word, form).map_err(at)?);
        let (least, most) = (channel.least, channel.least + 255.0 * channel.step);
        bytes.push(byte.ok_or_else(|| {
            at(format!("expected a reading from {least} to {most}, found another: mend the reading, or use a fleet of a wider range"))
        })?);
    }
    Ok(if is_whole { Found::Row(bytes) } else { Found::Missing })
}

fn is_missing(word: &str, form: &FormArguments) -> bool {
    form.missing.iter().any(|missing| missing.trim().eq_ignore_ascii_case(word.trim()))
}

/// The number of a word, or the remedy.
fn number(word: &str, form: &FormArguments) -> Result<f64, String> {
    let word = word.trim();
    let plain = |word: &str| word.parse::<f64>().ok().filter(|number| number.is_finite());
    let is_comma = word.matches(',').count() == 1 && !word.contains('.');
    let with_point = word.replace(',', ".");
    let found = match form.decimal_comma {
        true if word.contains('.') => return Err("a reading has a point: --decimal-comma wants commas".to_owned()),
        true => plain(&with_point),
        false => plain(word),
    };
    found.ok_or_else(|| {
        if word.is_empty() {
            return "no reading: --missing '' leaves such rows out".to_owned();
        }
        if is_comma && plain(&with_point).is_some() {
            return "a reading has a comma: add --decimal-comma".to_owned();
        }
        let behind = word.trim_end_matches(|letter: char| !letter.is_ascii_digit()).trim_end();
        match behind.len() < word.len() && plain(&behind.replace(',', ".")).is_some() {
            true => "a reading has a unit behind it: remove the unit".to_owned(),
            false => "a reading is no number: mend it, or leave its word out with --missing WORD".to_owned(),
        }
    })
}

/// The number of the channel that a header names: exactly, or in upper or lower case, without a
/// unit in brackets.
fn channel(schema: &Schema, word: &str) -> Option<usize> {
    let word = word.trim();
    let name = word.split_once(['(', '[']).map_or(word, |(name, _)| name).trim();
    let exact = schema.channel(word).or_else(|| schema.channel(name));
    let mut folded = (0..schema.channels.len()).filter(|i| schema.channels[*i].name.eq_ignore_ascii_case(name));
    exact.or_else(|| folded.next().filter(|_| folded.next().is_none()))
}

/// The separator of a line: `;` or a tabulator if there is one. A comma is none beside decimal
/// commas.
fn separator(text: &str, decimal_comma: bool) -> u8 {
    match () {
        () if text.contains(';') => b';',
        () if text.contains('\t') => b'\t',
        () if decimal_comma => b';',
        () => b',',
    }
}

/// The words of a line.
fn split(reader: &mut Reader, text: &str) -> Result<Vec<String>, String> {
    let (mut out, mut ends) = (vec![0; text.len() + 1], vec![0; MAX_COLUMNS + 1]);
    reader.reset();
    let line = format!("{text}\n");
    let (result, read, _, count) = reader.read_record(line.as_bytes(), &mut out, &mut ends);
    match result {
        ReadRecordResult::Record if read == line.len() => {}
        ReadRecordResult::OutputEndsFull => return Err(format!("expected at most {MAX_COLUMNS} columns, found more")),
        _ => return Err("a quote has no end on its line: close it, or double it inside quotes".to_owned()),
    }
    let mut begin = 0;
    let mut words = Vec::with_capacity(count);
    for end in &ends[..count] {
        let word = std::str::from_utf8(&out[begin..*end]).map_err(|_| NOT_TEXT.to_owned())?;
        words.push(word.trim().to_owned());
        begin = *end;
    }
    Ok(words)
}

/// The error for a line with another number of columns.
fn columns(expected: usize, found: usize, form: &FormArguments) -> String {
    let remedy = match form.decimal_comma || form.separator.is_some() {
        true => "separate them by the same sign, which --separator sets",
        false => "set --separator, add --decimal-comma for numbers like 21,5, or name the columns in a first line",
    };
    format!("expected {expected} columns, found {found}: {remedy}")
}

/// A name of a column for a message: short, and without control characters.
fn printable(word: &str) -> String {
    word.chars().filter(|letter| !letter.is_control()).take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Schema {
        toml::from_str("profile = \"u25\"\n[[channel]]\nname = \"a\"\n[[channel]]\nname = \"b\"\nstep = 0.5\n").unwrap()
    }

    fn form(words: &[&str]) -> FormArguments {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            form: FormArguments,
        }
        <Line as clap::Parser>::parse_from([&["t"][..], words].concat()).form
    }

    /// The rows of a text, or the error.
    fn told(text: &[u8], words: &[&str]) -> Result<Vec<Vec<u8>>, String> {
        let mut all = Vec::new();
        let take = |_, row| {
            all.push(row);
            Ok(())
        };
        rows(text, Path::new("t"), (&schema(), &form(words)), take).map_err(|failure| failure.to_string())?;
        Ok(all)
    }

    #[test]
    fn any_bytes_are_rows_of_all_channels_or_a_line_that_is_named_and_not_quoted() {
        for (good, words) in [
            (&b"b, a\r\n38.5,77\n\n 39, 78 \n39.5,79"[..], &[][..]),
            (
                b"\xef\xbb\xbf\"B (\xc2\xb0C)\";Time;\"A\"\n\"38,5\";7:00;77\n39;8:00;78\n39,5;9;79",
                &["--decimal-comma"],
            ),
            (b"{\"a\":77,\"b\":38.5,\"t\":1}\n{\"B\":\"39\",\"a\":78}\n{\"a\":79,\"b\":39.5}\n", &[]),
            (b"77\t38.5\n78\t39\n79\t39.5\n", &["--separator", "tab"]),
            (
                b"77|38.5\n78|39\n|\n79|39.5\n78|Unavailable\n",
                &["--separator", "|", "--missing", "unavailable", "--missing", ""],
            ),
        ] {
            assert_eq!(told(good, words).unwrap(), [[77, 77], [78, 78], [79, 79]], "{words:?}");
            for place in 0..good.len() {
                for change in *b"\n\r,; \"{ba7e-.+\0\xff" {
                    let mut changed = good.to_vec();
                    changed[place] = change;
                    for text in [&changed[..], &changed[..place]] {
                        match told(text, words) {
                            Ok(rows) => assert!(rows.len() <= 4 && rows.iter().all(|row| row.len() == 2)),
                            Err(said) => assert!(said.starts_with("t: ") && !said.contains("77"), "{said}"),
                        }
                    }
                }
            }
        }
        assert!(told(&[b'7'; 1 << 15], &[]).unwrap_err().contains("line 1: expected fewer than"));
    }

    #[test]
    fn an_error_names_line_column_and_remedy() {
        for (text, words, expected) in [
            ("1,2\n1,nan", &[][..], "line 2: column 2 (b): a reading is no number"),
            ("1,1e999", &[], "line 1: column 2 (b): a reading is no number"),
            ("256,1", &[], "line 1: column 1 (a): expected a reading from 0 to 255, found another"),
            ("1,128", &[], "column 2 (b): expected a reading from 0 to 127.5"),
            ("1,2,3", &[], "line 1: expected 2 columns, found 3: set --separator, add --decimal-comma"),
            ("1;2,5", &[], "line 1: column 2 (b): a reading has a comma: add --decimal-comma"),
            ("1;2.5", &["--decimal-comma"], "column 2 (b): a reading has a point"),
            ("a;b\n1;2\n1", &[], "line 3: expected 2 columns, found 1"),
            ("a,A", &[], "line 1: column 2: the channel a has a column before"),
            ("a,c", &[], "line 1: no column has the name of the channel b"),
            ("x,y", &[], "line 1: expected numbers, or a header with the channels a, b"),
            ("1,", &[], "column 2 (b): no reading: --missing '' leaves such rows out"),
            ("1,21 \u{b0}C", &[], "column 2 (b): a reading has a unit behind it"),
            (
                "1,unavailable",
                &[],
                "column 2 (b): a reading is no number: mend it, or leave its word out with --missing",
            ),
            ("1,\"2", &[], "line 1: a quote has no end on its line"),
            ("{\"a\":1}", &[], "line 1: the object has no value for the channel b"),
            ("{\"a\":1,\"b\":[2]}", &[], "line 1: channel b: expected a number"),
            ("{\"a\":1,\"b\":null}", &[], "column 2 (b): a reading is no number"),
            ("{\"a\":1,\"b\":2}\n1,2", &[], "line 2: expected a JSON object"),
            ("{\"a\":1,\"A\":2,\"b\":1}", &[], "two values for the channel a"),
        ] {
            let said = told(text.as_bytes(), words).unwrap_err();
            assert!(said.contains(expected), "{text}: {said}");
        }
        assert!(told(b"\xff\xfe1\0,\x002\0", &[]).unwrap_err().contains("found UTF-16"));
        assert!(told(b"1,\xb0", &[]).unwrap_err().contains("expected text in UTF-8"));
    }
}
