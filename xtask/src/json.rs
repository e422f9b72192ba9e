//! The little JSON that `--json` and packages need.

/// A string with its quotes.
pub(crate) fn string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control < ' ' => quoted.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// An array of JSON values.
pub(crate) fn array(values: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", values.into_iter().collect::<Vec<_>>().join(","))
}

/// An object of names and JSON values, in this order.
pub(crate) fn object<'a>(fields: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let field = |(name, value): (&str, String)| format!("{}:{value}", string(name));
    format!("{{{}}}", fields.into_iter().map(field).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_arrays_are_what_a_parser_reads() {
        assert_eq!(string("a\"b\\c\nd é"), r#""a\"b\\c\u000ad é""#);
        assert_eq!(array(["a", "b"].map(string)), r#"["a","b"]"#);
        assert_eq!(array([]), "[]");
        assert_eq!(object([("a", string("b")), ("c", array([]))]), r#"{"a":"b","c":[]}"#);
    }
}
