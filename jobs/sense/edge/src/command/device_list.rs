//! The table of `tobari sense provision --devices`: a line for each device, with its name and
//! perhaps its tenant.

use super::folder::wrong;
use super::readings::{without_mark, words};
use std::collections::BTreeSet;
use std::path::Path;
use tobari_command::output::Failure;
use tobari_host::files::read_bounded;
use tobari_sense::schema::is_name;

/// The largest file: 2^21 devices with names of 64 letters, and room for other columns.
const MAX_LIST: u64 = 1 << 30;

/// A device of the list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ListedDevice {
    pub(super) name: String,
    /// Empty if the list has none.
    pub(super) tenant: String,
}

/// Reads a list. The file is checked as a whole.
///
/// # Errors
/// What is wrong, with its line and the remedy.
pub(super) fn read(path: &Path) -> Result<Vec<ListedDevice>, Failure> {
    parse(&read_bounded(path, MAX_LIST)?).map_err(|error| wrong(path, error))
}

fn parse(bytes: &[u8]) -> Result<Vec<ListedDevice>, String> {
    let text = std::str::from_utf8(without_mark(bytes)?).map_err(|_| "expected text in UTF-8, found other bytes")?;
    let mut lines = (1u64..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let (_, header) = lines.next().ok_or("expected a line for each device, found an empty file")?;
    let mut split = words(header);
    let columns = split(header)?;
    let column = |name: &str| columns.iter().position(|column| column.eq_ignore_ascii_case(name));
    let name = column("name").ok_or(
        "expected a first line with the column name, and perhaps tenant, found another: add the line `name,tenant`",
    )?;
    let tenant = column("tenant");
    let (mut devices, mut names) = (Vec::new(), BTreeSet::new());
    for (number, line) in lines {
        let at = |what: &str| format!("line {number}: {what}");
        let words = split(line).map_err(|error| at(&error))?;
        if words.len() != columns.len() {
            return Err(at(&format!(
                "expected {} columns, as in the first line, found {}",
                columns.len(),
                words.len()
            )));
        }
        let (name, tenant) = (words[name].clone(), tenant.map(|tenant| words[tenant].clone()).unwrap_or_default());
        if !is_name(&name) || !(tenant.is_empty() || is_name(&tenant)) {
            return Err(at("expected a name of 1 to 64 letters, digits, '-', '_' and '.', found another"));
        }
        if !names.insert(name.clone()) {
            return Err(at(&format!("{name} is in the list twice: remove one line")));
        }
        devices.push(ListedDevice { name, tenant });
    }
    if devices.is_empty() {
        Err("expected a line for each device, found the first line only".to_owned())
    } else {
        Ok(devices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Result<Vec<(String, String)>, String> {
        parse(text.as_bytes()).map(|all| all.into_iter().map(|device| (device.name, device.tenant)).collect())
    }

    #[test]
    fn names_and_tenants_are_found_by_their_columns() {
        let all = |words: &[(&str, &str)]| {
            Ok(words.iter().map(|(name, tenant)| ((*name).to_owned(), (*tenant).to_owned())).collect::<Vec<_>>())
        };
        assert_eq!(told("name\na\nb-1\n\n"), all(&[("a", ""), ("b-1", "")]));
        assert_eq!(told("\u{feff}Floor;TENANT;Name\r\n1;north;a\r\n;;\"b\"\r\n"), all(&[("a", "north"), ("b", "")]));
    }

    #[test]
    fn an_error_names_the_line() {
        for (text, expected) in [
            ("", "an empty file"),
            ("a\nb\n", "add the line `name,tenant`"),
            ("name\n", "the first line only"),
            ("name,tenant\na,b\nc\n", "line 3: expected 2 columns"),
            ("name\na\na b\n", "line 3: expected a name"),
            ("name,tenant\na,b c\n", "line 2: expected a name"),
            ("name,tenant\n,b\n", "line 2: expected a name"),
            ("name\na\nb\na\n", "line 4: a is in the list twice"),
            ("name\n\"a\n", "line 2: a quote has no end"),
        ] {
            let error = told(text).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
        assert!(parse(&[0xff, 0xfe, b'n', 0]).unwrap_err().contains("UTF-16"));
    }
}
