//! Paths and `use` trees: the whole paths that a piece of code names.
//!
//! `use a::{b, c::d as e};` names `a::b` and `a::c::d`, the second under the name `e`. A path in an
//! expression is a tree without branches, so the same function reads both.

use super::source::{Token, is_word};

/// One whole path that the code names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named<'a> {
    /// The words of the path with `::` between them; the last may be `self` or `*`.
    pub(crate) path: String,
    /// The name after `as`.
    pub(crate) alias: Option<&'a str>,
    pub(crate) line: usize,
}

/// Expands the path or use tree at `at` into whole paths; returns its end.
pub(crate) fn expand<'a>(tokens: &[Token<'a>], at: usize, prefix: &str, named: &mut Vec<Named<'a>>) -> usize {
    let Some(token) = tokens.get(at) else { return at };
    if token.text == "{" {
        return expand_group(tokens, at + 1, prefix, named);
    }
    if token.text != "*" && !token.text.bytes().all(is_word) {
        named.push(Named { path: prefix.to_owned(), alias: None, line: token.line });
        return at;
    }
    let path = if prefix.is_empty() { token.text.to_owned() } else { format!("{prefix}::{}", token.text) };
    let text = |index: usize| tokens.get(index).map(|token| token.text);
    match text(at + 1) {
        Some("::") => return expand(tokens, at + 2, &path, named),
        Some("as") => named.push(Named { path, alias: text(at + 2), line: token.line }),
        _ => named.push(Named { path, alias: None, line: token.line }),
    }
    at + 1
}

fn expand_group<'a>(tokens: &[Token<'a>], start: usize, prefix: &str, named: &mut Vec<Named<'a>>) -> usize {
    let mut at = start;
    while tokens.get(at).is_some_and(|token| token.text != "}") {
        at = expand(tokens, at, prefix, named);
        while tokens.get(at).is_some_and(|token| token.text != "," && token.text != "}") {
            at += 1;
        }
        if tokens.get(at).is_some_and(|token| token.text == ",") {
            at += 1;
        }
    }
    at + 1
}

#[cfg(test)]
mod tests {
    use super::super::source::{blank, tokens};
    use super::*;

    #[test]
    fn a_tree_is_all_its_paths_with_their_names_and_lines() {
        let blanked = blank("a::{b, c::{self as d, *},\n e::f as g} rest");
        let all = tokens(&blanked);
        let mut named = Vec::new();
        let end = expand(&all, 0, "", &mut named);
        let found: Vec<_> = named.iter().map(|named| (named.path.as_str(), named.alias, named.line)).collect();
        assert_eq!(
            found,
            [("a::b", None, 1), ("a::c::self", Some("d"), 1), ("a::c::*", None, 1), ("a::e::f", Some("g"), 2)]
        );
        assert_eq!(all[end].text, "rest");
    }

    #[test]
    fn a_path_in_an_expression_ends_before_its_arguments() {
        let blanked = blank("a::B::<u8>::new(x)");
        let all = tokens(&blanked);
        let mut named = Vec::new();
        let end = expand(&all, 0, "", &mut named);
        assert_eq!((named[0].path.as_str(), all[end].text), ("a::B", "<"));
    }
}
