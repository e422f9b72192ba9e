//! Invariant 3: `unsafe` is only in its allowed places, and each block says why it is sound.

use super::rooms::{ROOMS, Room, containing};
use super::source::{Token, blank, tokens};
use super::{Finding, SourceFile};

/// Allowed places of `unsafe` outside the table of rooms: code that exports C names, and is not a
/// package of the workspace.
const OUTSIDE_THE_WORKSPACE: &[&str] = &["bench/wasm/", "glue/"];

/// Finds the word `unsafe` in the code (not in comments or messages) of every other place,
/// including tests.
pub(crate) fn only_in_its_rooms(files: &[SourceFile]) -> Vec<Finding> {
    words_elsewhere(ROOMS, files)
}

/// Finds every crate root that does not forbid `unsafe_code` for the whole crate. In a room with
/// places for `unsafe` the root may deny it instead.
pub(crate) fn roots_forbid(files: &[SourceFile]) -> Vec<Finding> {
    roots_that_allow(ROOMS, files)
}

fn words_elsewhere(rooms: &[Room], files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = nothing_checked(rooms, files);
    for file in files.iter().filter(|file| file.is_rust() && !may_hold(rooms, &file.path)) {
        let blanked = blank(&file.text);
        findings.extend(
            tokens(&blanked)
                .iter()
                .filter(|token| token.text == "unsafe")
                .map(|token| Finding::new(&file.path, token.line, "`unsafe` outside the rooms that may hold it")),
        );
    }
    findings
}

fn roots_that_allow(rooms: &[Room], files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = nothing_checked(rooms, files);
    for (room, file) in files.iter().filter_map(|file| Some((room_of_root(rooms, &file.path)?, file))) {
        let Some(level) = room.unsafe_level() else { continue };
        let blanked = blank(&file.text);
        let all = tokens(&blanked);
        if !has_inner_lint(&all, "forbid") && !has_inner_lint(&all, level) {
            findings.push(Finding::new(&file.path, 1, format!("the crate root lacks `#![{level}(unsafe_code)]`")));
        }
    }
    findings
}

/// Finds every `unsafe` block and implementation without a `// SAFETY:` comment of its own.
///
/// The comment stands directly above the block's statement, or on the block's line. One comment
/// covers one block.
pub(crate) fn blocks_are_argued(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = nothing_checked(ROOMS, files);
    for file in files.iter().filter(|file| file.is_rust()) {
        let blanked = blank(&file.text);
        let all = tokens(&blanked);
        let raw: Vec<&str> = file.text.lines().collect();
        let code: Vec<&str> = blanked.lines().collect();
        for pair in all.windows(2).filter(|pair| pair[0].text == "unsafe" && matches!(pair[1].text, "{" | "impl")) {
            if !is_argued(&raw, &code, pair[0].line) {
                findings.push(Finding::new(
                    &file.path,
                    pair[0].line,
                    "`unsafe` without a `// SAFETY:` comment of its own",
                ));
            }
        }
    }
    findings
}

fn nothing_checked(rooms: &[Room], files: &[SourceFile]) -> Vec<Finding> {
    if files.iter().any(|file| room_of_root(rooms, &file.path).is_some()) {
        return Vec::new();
    }
    vec![Finding::new("Cargo.toml", 0, "no crate root found: nothing was checked")]
}

fn may_hold(rooms: &[Room], path: &str) -> bool {
    containing(rooms, path).is_some_and(|(room, inside)| room.allows_unsafe(inside))
        || OUTSIDE_THE_WORKSPACE.iter().any(|place| path.starts_with(place))
}

/// The room whose root this file is: `src/lib.rs`, `src/main.rs` and each of `src/bin/*.rs` are
/// crates to the compiler.
fn room_of_root<'r>(rooms: &'r [Room], path: &str) -> Option<&'r Room> {
    let (room, inside) = containing(rooms, path)?;
    let source = inside.strip_prefix("src/")?;
    let binary = source.strip_prefix("bin/").is_some_and(|name| name.ends_with(".rs") && !name.contains('/'));
    (binary || matches!(source, "lib.rs" | "main.rs")).then_some(room)
}

fn has_inner_lint(tokens: &[Token<'_>], level: &str) -> bool {
    let start = ["#", "!", "[", level, "("];
    tokens.windows(start.len()).enumerate().any(|(at, window)| {
        let inside = tokens[at + start.len()..].iter().take_while(|token| token.text != ")");
        window.iter().map(|token| token.text).eq(start) && inside.clone().any(|token| token.text == "unsafe_code")
    })
}

/// Whether a comment argues for a block. It looks up from the block's line, past comments,
/// attributes and the earlier lines of the same statement.
fn is_argued(raw: &[&str], code: &[&str], line: usize) -> bool {
    let says = |index: usize| {
        let comment = raw[index].get(code[index].trim_end().len()..).unwrap_or_default();
        comment.contains("// SAFETY:")
    };
    if says(line - 1) {
        return true;
    }
    for index in (0..line - 1).rev() {
        if says(index) {
            return true;
        }
        let text = code[index].trim();
        let comment_or_attribute = text.starts_with('#') || (text.is_empty() && !raw[index].trim().is_empty());
        if !comment_or_attribute && (text.is_empty() || text.ends_with([';', '{', '}', ','])) {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::super::rooms::TOY;
    use super::*;

    fn with(path: &str, text: &str) -> Vec<SourceFile> {
        vec![file("xtask/src/main.rs", "#![forbid(unsafe_code)]"), file(path, text)]
    }

    #[test]
    fn the_word_is_refused_outside_its_rooms() {
        let code = "fn f() { unsafe { g() } }";
        for path in ["jobs/sing/protocol/src/call/mod.rs", "crates/core/src/wire.rs", "cli/tests/a.rs"] {
            assert_eq!(words_elsewhere(TOY, &with(path, code)).len(), 1, "{path}");
        }
        assert_eq!(words_elsewhere(TOY, &with("fuzz/fuzz_targets/a.rs", "#[unsafe(no_mangle)] fn f() {}")).len(), 1);
    }

    #[test]
    fn the_word_is_free_in_its_rooms_in_comments_and_in_messages() {
        for path in ["crates/core/src/simd/portable.rs", "crates/machine/src/memory.rs"] {
            assert!(words_elsewhere(TOY, &with(path, "unsafe fn f() {}")).is_empty(), "{path}");
        }
        let harmless = "// unsafe\n#![forbid(unsafe_code)] fn f() { say(\"unsafe\") }";
        assert!(words_elsewhere(TOY, &with("jobs/sing/protocol/src/lib.rs", harmless)).is_empty());
    }

    #[test]
    fn every_root_forbids_and_the_core_may_deny() {
        let forbid = "//! Words.\n#![forbid(missing_docs, unsafe_code)]";
        assert!(roots_that_allow(TOY, &with("jobs/sing/protocol/src/lib.rs", forbid)).is_empty());
        assert!(roots_that_allow(TOY, &with("crates/core/src/lib.rs", "#![deny(unsafe_code)]")).is_empty());
        assert!(roots_that_allow(TOY, &with("crates/machine/src/lib.rs", "")).is_empty());
        for (path, text) in [
            ("jobs/sing/protocol/src/lib.rs", "#![deny(unsafe_code)]"),
            ("cli/src/main.rs", "fn main() {}"),
            ("cli/src/bin/other.rs", "// #![forbid(unsafe_code)]"),
            ("crates/core/src/lib.rs", "#![warn(unsafe_code)]"),
            ("cli/src/lib.rs", "#![forbid(missing_docs)] #[deny(unsafe_code)] mod a;"),
        ] {
            assert_eq!(roots_that_allow(TOY, &with(path, text)).len(), 1, "{path} {text}");
        }
    }

    fn argued(text: &str) -> bool {
        blocks_are_argued(&with("crates/machine/src/lib.rs", text)).is_empty()
    }

    #[test]
    fn a_comment_above_the_statement_or_on_its_line_argues_the_block() {
        assert!(argued("// SAFETY: because\nunsafe { f() }"));
        assert!(argued(
            "fn g() {\n  // SAFETY: because\n  // of this\n  #[allow(x)]\n  let a =\n    unsafe { f() };\n}"
        ));
        assert!(argued("let a = unsafe { f() }; // SAFETY: because"));
        assert!(argued("// SAFETY: because\nunsafe impl Send for A {}"));
        assert!(argued("unsafe fn f() {}"), "a function states its contract under # Safety, which clippy asks for");
    }

    #[test]
    fn a_block_without_its_own_comment_is_refused() {
        assert!(!argued("unsafe { f() }"));
        assert!(!argued("// because\nunsafe { f() }"));
        assert!(!argued("// SAFETY: for one\nunsafe { f() };\nunsafe { g() }"));
        assert!(!argued("// SAFETY: far away\n\nunsafe { g() }"));
        assert!(!argued("let s = \"// SAFETY: not a comment\";\nunsafe { g() }"));
        assert!(!argued("unsafe impl Send for A {}"));
    }
}
