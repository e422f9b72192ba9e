//! Readings as people have them: tables with separators, quotes and headers, or JSON lines.
//!
//! The first line that is not empty decides. A line that begins with `{` makes JSON lines. A first
//! line with a channel's name is a header: it names the columns, in any order and in upper or lower
//! case, with a unit in brackets or without. Columns that are no channels are left out and named.
//! Without a header there is a column for each reading. The readings of a vector have the names
//! `name[0]`, `name[1]`, …; in JSON it is a list.
//!
//! **Nothing is guessed about a number or a time.** A decimal comma, words for a missing reading
//! and a column of times are accepted by an option alone. An error names the line, the column and
//! the remedy, and no reading.

use super::arguments::FormArguments;
use super::folder::wrong;
use super::times::{TimeOfReadings, moment};
use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::io::{BufRead, Read};
use std::path::Path;
use tobari_command::output::{self, Failure};
use tobari_sense::schema::{Channel, Schema};

/// Largest length of a line of readings in bytes.
const MAX_LINE: u64 = 1 << 20;
/// The largest number of columns of a line.
const MAX_COLUMNS: usize = (1 << 16) + 1024;

/// The readings of a row.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// The time of the readings in seconds since 1970; `None` for now.
    pub(super) at: Option<u64>,
    /// The numbers of all readings.
    pub(super) numbers: Vec<u32>,
}

/// Reads rows of readings, and passes each to `take` with the number of its line.
pub(super) fn rows(
    mut input: impl BufRead,
    path: &Path,
    (schema, form): (&Schema, &FormArguments),
    mut take: impl FnMut(u64, Row) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if !schema.profile.is_stamped() && form.time.is_some() {
        return Err(wrong(
            path,
            "--time needs a fleet whose frames have a time: profile u28 or p17. In this fleet the time of arrival counts",
        ));
    }
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
pub(super) fn without_mark(line: &[u8]) -> Result<&[u8], String> {
    if line.starts_with(&[0xff, 0xfe]) || line.starts_with(&[0xfe, 0xff]) {
        return Err("expected text in UTF-8, found UTF-16: save the file as UTF-8".to_owned());
    }
    Ok(line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line))
}

/// What a line is.
enum Found {
    /// Readings.
    Row(Row),
    /// A row with a missing reading.
    Missing,
    /// A header, with the names of columns that are no channels.
    Header(String),
}

/// A table that is being read.
struct Table<'a> {
    form: &'a FormArguments,
    names: Names<'a>,
    kind: Option<Kind>,
}

enum Kind {
    Json,
    Columns {
        reader: Box<Reader>,
        /// The column of each reading.
        places: Vec<usize>,
        /// The column of times.
        time: Option<usize>,
        /// The number of columns.
        count: usize,
    },
}

/// The readings of a row by name.
struct Names<'a> {
    schema: &'a Schema,
    /// The channel and name of each reading.
    all: Vec<(&'a Channel, String)>,
    exact: HashMap<String, usize>,
    /// By names in lower case; `None` for a name that several readings share.
    folded: HashMap<String, Option<usize>>,
}

impl<'a> Names<'a> {
    fn new(schema: &'a Schema) -> Self {
        let of = |channel: &'a Channel| {
            let name = move |element: usize| match channel.length {
                None => channel.name.clone(),
                Some(_) => format!("{}[{element}]", channel.name),
            };
            (0..channel.readings()).map(move |element| (channel, name(element)))
        };
        let all: Vec<(&Channel, String)> = schema.channels.iter().flat_map(of).collect();
        let exact = all.iter().enumerate().map(|(place, (_, name))| (name.clone(), place)).collect();
        let mut folded: HashMap<String, Option<usize>> = HashMap::new();
        for (place, (_, name)) in all.iter().enumerate() {
            folded.entry(name.to_ascii_lowercase()).and_modify(|place| *place = None).or_insert(Some(place));
        }
        Self { schema, all, exact, folded }
    }

    /// The reading that a header names: exactly, or in upper or lower case, without a unit in
    /// brackets.
    fn find(&self, word: &str) -> Option<usize> {
        let word = word.trim();
        let name = word.split_once(['(', '[']).map_or(word, |(name, _)| name).trim();
        let known = [word, name].iter().find_map(|name| self.exact.get(*name)).copied();
        let folded = |name: &str| self.folded.get(&name.to_ascii_lowercase()).copied().flatten();
        known.or_else(|| folded(word)).or_else(|| folded(name))
    }

    /// Up to eight names, for a message.
    fn told(&self) -> String {
        let names: Vec<&str> = self.all.iter().take(8).map(|(_, name)| name.as_str()).collect();
        let more = if self.all.len() > 8 { ", …" } else { "" };
        format!("{}{more}", names.join(", "))
    }
}

impl<'a> Table<'a> {
    fn new(schema: &'a Schema, form: &'a FormArguments) -> Self {
        Self { form, names: Names::new(schema), kind: None }
    }

    fn line(&mut self, text: &str) -> Result<Found, String> {
        match &mut self.kind {
            None if text.starts_with('{') => {
                self.kind = Some(Kind::Json);
                self.object(text)
            }
            Some(Kind::Json) => self.object(text),
            None => self.first(text),
            Some(Kind::Columns { reader, places, time, count }) => {
                let words = split(reader, text)?;
                if words.len() != *count {
                    return Err(columns(*count, words.len(), self.form));
                }
                let at = time.map(|place| {
                    moment(&words[place], self.form).map_err(|what| format!("column {}: {what}", place + 1))
                });
                let readings = places.iter().map(|place| (words[*place].as_str(), *place + 1));
                row(&self.names, self.form, at.transpose()?, readings)
            }
        }
    }

    /// The first line: a header, or readings in the order of the channels.
    fn first(&mut self, text: &str) -> Result<Found, String> {
        let separator = self.form.separator.unwrap_or_else(|| separator(text, self.form.decimal_comma));
        let mut reader = Box::new(ReaderBuilder::new().delimiter(separator).build());
        let (words, readings) = (split(&mut reader, text)?, self.names.all.len());
        let named: Vec<Option<usize>> = words.iter().map(|word| self.names.find(word)).collect();
        if named.iter().all(Option::is_none) {
            if let Some(TimeOfReadings::Column(name)) = &self.form.time {
                return Err(format!("expected a header with the column {name} of --time, found another line"));
            }
            if words.len() != readings {
                return Err(columns(readings, words.len(), self.form));
            }
            if !words.iter().any(|word| number(word, self.form).is_ok()) && !self.is_missing(&words) {
                let names = self.names.told();
                return Err(format!("expected numbers, or a header with the channels {names}, found neither"));
            }
            let places = (0..readings).collect();
            self.kind = Some(Kind::Columns { reader, places, time: None, count: readings });
            return self.line(text);
        }
        let mut places = vec![None; readings];
        for (place, named) in named.iter().enumerate() {
            let Some(reading) = named else { continue };
            if places[*reading].replace(place).is_some() {
                let name = self.name(*reading);
                return Err(format!("column {}: the channel {name} has a column before: remove one", place + 1));
            }
        }
        let missing = |(reading, place): (usize, Option<usize>)| {
            place.ok_or_else(|| format!("no column has the name of the channel {}", self.name(reading)))
        };
        let places = places.into_iter().enumerate().map(missing).collect::<Result<Vec<usize>, String>>()?;
        let others = || words.iter().enumerate().filter(|(place, _)| named[*place].is_none());
        let time = self.time_among(others().map(|(place, word)| (place, word.as_str())))?;
        let left: Vec<String> =
            others().filter(|(place, _)| Some(*place) != time).map(|(_, word)| printable(word)).collect();
        self.kind = Some(Kind::Columns { reader, places, time, count: words.len() });
        Ok(Found::Header(left.join(", ")))
    }

    /// The column of times among names that are no channels. Where frames have a time, a column
    /// that looks like times is neither used nor left out without a word of the user.
    fn time_among<'b, T: Copy>(&self, others: impl Iterator<Item = (T, &'b str)>) -> Result<Option<T>, String> {
        let mut found = None;
        for (place, word) in others {
            let is = |name: &str| word.trim().eq_ignore_ascii_case(name.trim());
            match &self.form.time {
                Some(TimeOfReadings::Column(name)) if is(name) => found = Some(place),
                None if self.names.schema.profile.is_stamped()
                    && ["time", "timestamp", "datetime", "date"].into_iter().any(is) =>
                {
                    let word = printable(word);
                    return Err(format!(
                        "{word} looks like the times of readings: add --time {word} to use it, or --time now to \
                         encrypt all readings as of now"
                    ));
                }
                _ => {}
            }
        }
        match &self.form.time {
            Some(TimeOfReadings::Column(name)) if found.is_none() => {
                Err(format!("nothing has the name {name} of --time: name the column of times"))
            }
            _ => Ok(found),
        }
    }

    fn is_missing(&self, words: &[String]) -> bool {
        words.iter().any(|word| is_missing(word, self.form))
    }

    fn name(&self, reading: usize) -> &str {
        &self.names.all[reading].1
    }

    /// A JSON object with a value for each channel; other values are left out.
    fn object(&self, text: &str) -> Result<Found, String> {
        let object: Map<String, Value> = serde_json::from_str(text)
            .map_err(|_| "expected a JSON object on a line of its own, found something else".to_owned())?;
        let mut words = vec![None; self.names.all.len()];
        let mut others = Vec::new();
        for (name, value) in &object {
            let vector =
                self.names.schema.channels.iter().find(|channel| channel.length.is_some() && channel.name == *name);
            if let Some(channel) = vector {
                let Value::Array(values) = value else {
                    return Err(format!("channel {name}: expected a list of {} numbers", channel.readings()));
                };
                if values.len() != channel.readings() {
                    let (expected, found) = (channel.readings(), values.len());
                    return Err(format!("channel {name}: expected a list of {expected} numbers, found {found}"));
                }
                let first = self.names.exact.get(&format!("{name}[0]")).copied().unwrap_or(0);
                for (place, value) in (first..).zip(values) {
                    self.word(&mut words, place, value)?;
                }
                continue;
            }
            match self.names.find(name) {
                Some(place) => self.word(&mut words, place, value)?,
                None => others.push((value, name.as_str())),
            }
        }
        if let Some(place) = words.iter().position(Option::is_none) {
            return Err(format!("the object has no value for the channel {}", self.name(place)));
        }
        let time = self.time_among(others.into_iter())?;
        let at = time.map(|value| {
            let word = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            moment(&word, self.form)
        });
        let words = words.iter().flatten().enumerate().map(|(place, word)| (word.as_str(), place + 1));
        row(&self.names, self.form, at.transpose()?, words)
    }

    /// Keeps the word of a JSON value.
    fn word(&self, words: &mut [Option<String>], place: usize, value: &Value) -> Result<(), String> {
        let word = match value {
            Value::String(word) => word.clone(),
            // numbers of JSON always have a point
            Value::Number(number) if self.form.decimal_comma => number.to_string().replace('.', ","),
            Value::Number(_) | Value::Null => value.to_string(),
            _ => return Err(format!("channel {}: expected a number, found another value", self.name(place))),
        };
        match words[place].replace(word) {
            Some(_) => Err(format!("the object has two values for the channel {}: remove one", self.name(place))),
            None => Ok(()),
        }
    }
}

/// The numbers of a row: a word for each reading, with the number of its column.
fn row<'a>(
    names: &Names<'_>,
    form: &FormArguments,
    at: Option<u64>,
    words: impl Iterator<Item = (&'a str, usize)>,
) -> Result<Found, String> {
    let (mut numbers, mut is_whole) = (Vec::with_capacity(names.all.len()), true);
    for ((word, column), (channel, name)) in words.zip(&names.all) {
        let at = |what: String| format!("column {column} ({name}): {what}");
        if is_missing(word, form) {
            is_whole = false;
            continue;
        }
        let found = channel.number(number(word, form).map_err(at)?);
        let (least, most) = (channel.least, channel.least + f64::from(channel.most()) * channel.step);
        numbers.push(found.ok_or_else(|| {
            at(format!("expected a reading from {least} to {most}, found another: mend the reading, or use a fleet of a wider range"))
        })?);
    }
    Ok(if is_whole { Found::Row(Row { at, numbers }) } else { Found::Missing })
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

/// What splits the lines of a table that begins with this line.
pub(super) fn words(first: &str) -> impl FnMut(&str) -> Result<Vec<String>, String> {
    let mut reader = ReaderBuilder::new().delimiter(separator(first, false)).build();
    move |line| split(&mut reader, line)
}

/// The words of a line.
fn split(reader: &mut Reader, text: &str) -> Result<Vec<String>, String> {
    // no line has more columns than bytes
    let (mut out, mut ends) = (vec![0; text.len() + 1], vec![0; MAX_COLUMNS.min(text.len() + 1) + 1]);
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
    fn told(text: &[u8], words: &[&str]) -> Result<Vec<Vec<u32>>, String> {
        Ok(told_of(&schema(), text, words)?.into_iter().map(|row| row.numbers).collect())
    }

    fn told_of(schema: &Schema, text: &[u8], words: &[&str]) -> Result<Vec<Row>, String> {
        let mut all = Vec::new();
        let take = |_, row| {
            all.push(row);
            Ok(())
        };
        rows(text, Path::new("t"), (schema, &form(words)), take).map_err(|failure| failure.to_string())?;
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
        assert!(told(&vec![b'7'; 1 << 20], &[]).unwrap_err().contains("line 1: expected fewer than"));
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

    #[test]
    fn times_are_used_or_left_out_by_the_users_word_alone() {
        let text = "profile = \"u28\"\n[[channel]]\nname = \"a\"\n";
        let stamped: Schema = toml::from_str(text).unwrap();
        let at = |text: &str, words: &[&str]| {
            told_of(&stamped, text.as_bytes(), words).map(|rows| rows.iter().map(|row| row.at).collect::<Vec<_>>())
        };
        let zoned = "Time;a\n2027-01-01T00:00:00Z;1\n2027-01-01 09:00:00+09:00;2\n1798761600;3\n1798761600500;4";
        assert_eq!(at(zoned, &["--time", "time"]).unwrap(), [Some(1_798_761_600); 4]);
        assert_eq!(at(zoned, &["--time", "now"]).unwrap(), [None; 4]);
        assert_eq!(at("{\"a\":1,\"ts\":\"2027-01-01T00:00:00Z\"}", &["--time", "ts"]).unwrap(), [Some(1_798_761_600)]);
        let local = "a,when\n1,2027-01-01 09:00\n";
        assert_eq!(at(local, &["--time", "when", "--zone", "+09:00"]).unwrap(), [Some(1_798_761_600)]);
        for (text, words, expected) in [
            (zoned, &[][..], "line 1: Time looks like the times of readings: add --time Time to use it, or --time now"),
            ("{\"a\":1,\"timestamp\":5}", &[], "timestamp looks like the times of readings"),
            (zoned, &["--time", "when"], "nothing has the name when of --time"),
            ("1\n2\n", &["--time", "when"], "expected a header with the column when of --time"),
            (local, &["--time", "when"], "line 2: column 2: a time without a zone: add --zone"),
            ("a,when\n1,01/02/2027 10:00\n", &["--time", "when"], "line 2: column 2: expected a time such as"),
            ("a,when\n1,1969-12-31T00:00:00Z\n", &["--time", "when"], "expected a time from 1970 to 36811"),
        ] {
            let said = at(text, words).unwrap_err();
            assert!(said.contains(expected), "{text}: {said}");
        }
        let old = told(b"a,b,t\n1,2,3\n", &["--time", "t"]).unwrap_err();
        assert!(old.contains("needs a fleet whose frames have a time"), "{old}");
    }

    #[test]
    fn vectors_are_columns_or_a_list_and_numbers_may_have_32_bits() {
        let text = "profile = \"u28\"\n[[channel]]\nname = \"e\"\nbits = 32\nstep = 0.001\n\
                    [[channel]]\nname = \"g\"\nlength = 3\nbits = 16\nleast = -1\n";
        let schema: Schema = toml::from_str(text).unwrap();
        let told = |text: &str| told_of(&schema, text.as_bytes(), &[]).map(|rows| rows[0].numbers.clone());
        let expected = [4_294_967_295, 0, 65_535, 7];
        for good in [
            "g[2],g[0],E (kWh),g[1]\n6,-1,4294967.295,65534\n",
            "4294967.295,-1,65534,6\n",
            "{\"g\":[-1,65534,\"6\"],\"e\":4294967.295}",
        ] {
            assert_eq!(told(good).unwrap(), expected, "{good}");
        }
        for (text, said) in [
            ("g[0],e,g[1]\n1,2,3\n", "no column has the name of the channel g[2]"),
            ("{\"g\":[1,2],\"e\":1}", "channel g: expected a list of 3 numbers, found 2"),
            ("{\"g\":5,\"e\":1}", "channel g: expected a list of 3 numbers"),
            ("1,2,3,65535\n", "column 4 (g[2]): expected a reading from -1 to 65534, found another"),
        ] {
            let found = told(text).unwrap_err();
            assert!(found.contains(said), "{text}: {found}");
        }
    }
}
