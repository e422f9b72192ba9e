//! Readings as people have them.

use super::folder::wrong;
use std::io::{BufRead, Read};
use std::path::Path;
use tobari_command::output::Failure;
use tobari_sense::schema::Schema;

/// Largest length of a line of readings in bytes.
const MAX_LINE: u64 = 1 << 14;

/// Reads rows of readings, and passes each to `take` with the number of its line, as bytes. An
/// error names the line and the problem, but no reading.
pub(super) fn rows(
    mut input: impl BufRead,
    path: &Path,
    schema: &Schema,
    mut take: impl FnMut(u64, Vec<u8>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut order: Vec<usize> = (0..schema.channels.len()).collect();
    let mut line = String::new();
    for number in 1u64.. {
        line.clear();
        let count = (&mut input).take(MAX_LINE).read_line(&mut line).map_err(|error| wrong(path, error))?;
        if count == 0 {
            return Ok(());
        }
        let at = |what: String| wrong(path, format!("line {number}: {what}"));
        if count as u64 == MAX_LINE {
            return Err(at(format!("expected fewer than {MAX_LINE} bytes, found more")));
        }
        let text = line.trim();
        if text.is_empty() {
            continue;
        }
        let words: Vec<&str> = text.split(',').map(str::trim).collect();
        if words.len() != order.len() {
            return Err(at(format!("expected {} numbers with commas between, found {}", order.len(), words.len())));
        }
        let names: Vec<Option<usize>> = words.iter().map(|word| schema.channel(word)).collect();
        if number == 1 && names.iter().any(Option::is_some) {
            let found: Option<Vec<usize>> = names.into_iter().collect();
            let mut sorted = found.clone().unwrap_or_default();
            sorted.sort_unstable();
            if !sorted.into_iter().eq(0..order.len()) {
                return Err(at("the first line must have each channel's name once".to_owned()));
            }
            order = found.unwrap_or_default();
            continue;
        }
        let mut readings = vec![0.0; order.len()];
        for (word, channel) in words.iter().zip(&order) {
            readings[*channel] = word.parse::<f64>().map_err(|_| at("a reading is no number".to_owned()))?;
        }
        take(number, schema.bytes(&readings).map_err(|error| at(error.to_string()))?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of a text, or the error.
    fn told(text: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let schema: Schema =
            toml::from_str("profile = \"u25\"\n[[channel]]\nname = \"a\"\n[[channel]]\nname = \"b\"\n").unwrap();
        let mut all = Vec::new();
        let take = |_, row| {
            all.push(row);
            Ok(())
        };
        rows(text, Path::new("t"), &schema, take).map_err(|failure| failure.to_string())?;
        Ok(all)
    }

    #[test]
    fn any_bytes_are_rows_of_all_channels_or_a_line_that_is_named_and_not_quoted() {
        let good = b"b, a\r\n77,7\n\n 78, 8 \n79,9";
        assert_eq!(told(good).unwrap(), [[7, 77], [8, 78], [9, 79]]);
        for place in 0..good.len() {
            for change in *b"\n\r, ba7e-.+\0\xff" {
                let mut changed = good.to_vec();
                changed[place] = change;
                for text in [&changed[..], &changed[..place]] {
                    match told(text) {
                        Ok(rows) => assert!(rows.len() <= 4 && rows.iter().all(|row| row.len() == 2)),
                        Err(said) => assert!(said.starts_with("t: ") && !said.contains("77"), "{said}"),
                    }
                }
            }
        }
        assert!(told(&[b'7'; 1 << 15]).unwrap_err().contains("line 1: expected fewer than"));
        for wrong in ["1,nan", "1,inf", "1,1e999", "1,256", "-1,1", "1,2,3", "a,a", "a,c"] {
            assert!(told(wrong.as_bytes()).unwrap_err().contains("line 1"), "{wrong}");
        }
    }
}
