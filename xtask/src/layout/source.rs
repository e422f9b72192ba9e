//! Rust source without comments, without the content of literals, and on request without test code.
//!
//! The layout checks search for words, and a word in a comment or in a message is not a use of it.
//! This is a lexer with the few rules for the ends of comments and literals, and not a parser:
//! macros and generics are plain tokens.

/// A word (identifier, keyword, number), `::`, or one other character, with its line, counted from
/// 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) line: usize,
}

/// The same text, with spaces in place of every comment and every string or character literal;
/// lines keep their numbers.
pub(crate) fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut blanked = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = skip(bytes, at);
        if end == at {
            blanked.push(bytes[at]);
            at += 1;
        } else {
            blanked.extend(bytes[at..end].iter().map(|&byte| if byte == b'\n' { b'\n' } else { b' ' }));
            at = end;
        }
    }
    String::from_utf8_lossy(&blanked).into_owned()
}

/// The tokens of a blanked text.
pub(crate) fn tokens(blanked: &str) -> Vec<Token<'_>> {
    let bytes = blanked.as_bytes();
    let (mut found, mut at, mut line) = (Vec::new(), 0, 1);
    while at < bytes.len() {
        let length = match bytes[at] {
            byte if is_word(byte) => bytes[at..].iter().take_while(|&&byte| is_word(byte)).count(),
            b':' if bytes.get(at + 1) == Some(&b':') => 2,
            _ => 1,
        };
        if bytes[at] == b'\n' {
            line += 1;
        } else if !bytes[at].is_ascii_whitespace() {
            found.push(Token { text: &blanked[at..at + length], line });
        }
        at += length;
    }
    found
}

/// The product code of a file.
pub(crate) struct Product<'a> {
    /// The tokens outside `#[cfg(test)]` and `#[test]` items.
    pub(crate) tokens: Vec<Token<'a>>,
    /// The names of modules declared by `#[cfg(test)] mod name;`, whose files are test code too.
    pub(crate) test_modules: Vec<&'a str>,
}

/// Removes items under `#[test]`, `#[cfg(test)]` and `#[cfg(all(test, …))]`; items under
/// `cfg(any(test, …))` stay, because they can be built without the tests.
pub(crate) fn without_tests<'a>(tokens: &[Token<'a>]) -> Product<'a> {
    let mut product = Product { tokens: Vec::new(), test_modules: Vec::new() };
    let mut at = 0;
    while at < tokens.len() {
        let Some(attribute) = attribute(tokens, at) else {
            product.tokens.push(tokens[at]);
            at += 1;
            continue;
        };
        if !attribute.marks_test {
            product.tokens.extend_from_slice(&tokens[at..attribute.end]);
            at = attribute.end;
        } else if attribute.inner {
            return Product { tokens: Vec::new(), test_modules: Vec::new() };
        } else {
            let end = item_end(tokens, attribute.end);
            if let [.., keyword, name, semicolon] = &tokens[attribute.end..end]
                && (keyword.text, semicolon.text) == ("mod", ";")
            {
                product.test_modules.push(name.text);
            }
            at = end;
        }
    }
    product
}

/// The path, without `.rs`, of the file for `mod module;` in the file at `path`.
pub(crate) fn module_stem(path: &str, module: &str) -> String {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    match name {
        "lib.rs" | "main.rs" | "mod.rs" => format!("{folder}/{module}"),
        _ => format!("{}/{module}", path.trim_end_matches(".rs")),
    }
}

/// True if the file at `path` is the module with this stem, or lies below it.
pub(crate) fn belongs_to(path: &str, stem: &str) -> bool {
    path.strip_prefix(stem).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

/// True for the letters of identifiers and numbers; any byte beyond ASCII counts as a letter.
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

struct Attribute {
    end: usize,
    inner: bool,
    marks_test: bool,
}

fn attribute(tokens: &[Token<'_>], at: usize) -> Option<Attribute> {
    let text = |index: usize| tokens.get(index).map(|token| token.text);
    if text(at) != Some("#") {
        return None;
    }
    let inner = text(at + 1) == Some("!");
    let start = at + 1 + usize::from(inner);
    if text(start) != Some("[") {
        return None;
    }
    let end = close(tokens, start);
    let body: Vec<&str> = tokens[start + 1..end].iter().map(|token| token.text).collect();
    let marks_test = matches!(body.as_slice(), ["test", "]"] | ["cfg", "(", "test", ")", "]"])
        || matches!(body.as_slice(), ["cfg", "(", "all", "(", "test", ..]);
    Some(Attribute { end, inner, marks_test })
}

/// The index after the bracket that closes the one at `open`, or the end of the file.
fn close(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth <= 1 => return index + 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
    }
    tokens.len()
}

/// The index after the item at `at`: after its `;` or its block, whichever is first outside
/// brackets.
fn item_end(tokens: &[Token<'_>], at: usize) -> usize {
    let mut index = at;
    while let Some(token) = tokens.get(index) {
        match token.text {
            ";" => return index + 1,
            "{" => return close(tokens, index),
            "}" | ")" | "]" => return index,
            "(" | "[" => index = close(tokens, index),
            _ => index += 1,
        }
    }
    tokens.len()
}

/// The index after the comment or literal at `at`, or `at` if none starts there.
fn skip(bytes: &[u8], at: usize) -> usize {
    match &bytes[at..] {
        [b'/', b'/', rest @ ..] => at + 2 + rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len()),
        [b'/', b'*', ..] => block_comment_end(bytes, at),
        [b'"', ..] => string_end(bytes, at + 1),
        [b'\'', ..] => character_end(bytes, at),
        [b'r', ..] if starts_word(bytes, at) => raw_string_end(bytes, at),
        _ => at,
    }
}

fn block_comment_end(bytes: &[u8], at: usize) -> usize {
    let (mut depth, mut index) = (0_usize, at);
    while index < bytes.len() {
        match &bytes[index..] {
            [b'/', b'*', ..] => (depth, index) = (depth + 1, index + 2),
            [b'*', b'/', ..] if depth == 1 => return index + 2,
            [b'*', b'/', ..] => (depth, index) = (depth - 1, index + 2),
            _ => index += 1,
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut index = start;
    while index < bytes.len() {
        match bytes[index] {
            b'"' => return index + 1,
            b'\\' => index += 2,
            _ => index += 1,
        }
    }
    bytes.len()
}

/// The end of a character literal such as `'x'` or `'\n'`; a lifetime such as `'x` stays unchanged.
fn character_end(bytes: &[u8], at: usize) -> usize {
    let Some(&first) = bytes.get(at + 1) else { return at };
    let search = if first == b'\\' { at + 3 } else { at + 1 + utf8_width(first) };
    match bytes.get(search) {
        Some(b'\'') => search + 1,
        Some(_) if first == b'\\' => {
            bytes[search..].iter().position(|&byte| byte == b'\'').map_or(bytes.len(), |length| search + length + 1)
        }
        _ => at,
    }
}

fn utf8_width(first: u8) -> usize {
    match first {
        0xF0.. => 4,
        0xE0.. => 3,
        0xC0.. => 2,
        _ => 1,
    }
}

/// The end of `r"…"`, `r#"…"#` and their `b` and `c` forms; `at` for a raw identifier such as
/// `r#type`.
fn raw_string_end(bytes: &[u8], at: usize) -> usize {
    let hashes = bytes[at + 1..].iter().take_while(|&&byte| byte == b'#').count();
    let open = at + 1 + hashes;
    if bytes.get(open) != Some(&b'"') {
        return at;
    }
    let closes = |index: &usize| {
        bytes[*index] == b'"' && bytes[index + 1..].iter().take(hashes).filter(|&&byte| byte == b'#').count() == hashes
    };
    (open + 1..bytes.len()).find(closes).map_or(bytes.len(), |quote| quote + 1 + hashes)
}

/// True if a word could start at `at`, or if one starts just before with the literal prefix `b` or
/// `c`.
fn starts_word(bytes: &[u8], at: usize) -> bool {
    let before = |distance: usize| at.checked_sub(distance).map(|index| bytes[index]);
    match before(1) {
        Some(b'b' | b'c') => !before(2).is_some_and(is_word),
        Some(byte) => !is_word(byte),
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        tokens(&blank(text)).iter().map(|token| token.text.to_owned()).collect()
    }

    fn product(text: &str) -> (Vec<String>, Vec<String>) {
        let blanked = blank(text);
        let all = tokens(&blanked);
        let product = without_tests(&all);
        let owned = |words: Vec<&str>| words.into_iter().map(str::to_owned).collect();
        (owned(product.tokens.iter().map(|token| token.text).collect()), owned(product.test_modules))
    }

    #[test]
    fn comments_and_literals_vanish_and_code_stays() {
        assert_eq!(words("a // b\nc /* d /* e */ f */ g"), ["a", "c", "g"]);
        assert_eq!(
            words(r#"f("std::fs \" x", 'y', '\'', b'"', '\u{41}') // z"#),
            ["f", "(", ",", ",", ",", "b", ",", ")"]
        );
        assert_eq!(words("r#\"one \" two\"# three br##\"x\"# y\"## four"), ["three", "b", "four"]);
        assert_eq!(words("'é' é"), ["é"]);
    }

    #[test]
    fn lifetimes_and_raw_identifiers_are_not_literals() {
        assert_eq!(words("<'a>(x: &'a str)").join(" "), "< ' a > ( x : & ' a str )");
        assert_eq!(words("r#type unsafe"), ["r", "#", "type", "unsafe"]);
        assert_eq!(words("for r in 0..3 { \"unsafe\" }"), ["for", "r", "in", "0", ".", ".", "3", "{", "}"]);
    }

    #[test]
    fn lines_keep_their_numbers() {
        let blanked = blank("/* one\ntwo */ a\n\"x\ny\" b :: c");
        let lines: Vec<(&str, usize)> = tokens(&blanked).iter().map(|token| (token.text, token.line)).collect();
        assert_eq!(lines, [("a", 2), ("b", 4), ("::", 4), ("c", 4)]);
    }

    #[test]
    fn unfinished_literals_end_with_the_file() {
        for text in ["\"abc", "r#\"abc", "/* abc", "'\\", "'", "a \"\\"] {
            assert!(blank(text).len() <= text.len(), "{text}");
        }
    }

    #[test]
    fn test_items_are_taken_away_and_the_code_after_them_stays() {
        let (kept, modules) = product("#[cfg(test)] mod tests { fn f() { g(); } } struct S;");
        assert_eq!((kept.join(" "), modules.len()), ("struct S ;".to_owned(), 0));
        let (kept, _) = product("#[cfg(test)] #[allow(x)] const A: [u8; 2] = [1; 2]; const B: u8 = 3;");
        assert_eq!(kept.join(" "), "const B : u8 = 3 ;");
        let (kept, _) = product("#[test] fn a() {} #[cfg(all(test, unix))] fn b() {} fn c() {}");
        assert_eq!(kept.join(" "), "fn c ( ) { }");
    }

    #[test]
    fn code_that_builds_without_the_tests_stays() {
        for text in
            ["#[cfg(not(test))] fn f() {}", "#[cfg(any(test, fuzzing))] fn f() {}", "#[derive(Debug)] struct S;"]
        {
            assert_eq!(product(text).0, words(text), "{text}");
        }
    }

    #[test]
    fn modules_in_their_own_test_file_are_named() {
        assert_eq!(product("#[cfg(test)] mod tests; mod other;").1, ["tests"]);
        assert_eq!(product("#![cfg(test)] mod a;").0.len(), 0);
    }
}
