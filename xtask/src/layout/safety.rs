//! Invariant 3: `unsafe` is written only in its rooms, and each block says why it is sound.

use super::source::{Token, blank, tokens};
use super::{Finding, SourceFile};

/// Where `unsafe` may be written: the kernels, the machine, and the pieces that export C names.
const UNSAFE_ROOMS: &[&str] = &[
    "crates/tobari-core/src/simd/",
    "crates/tobari-core/src/simd.rs",
    "crates/tobari-host/",
    "crates/tobari-wasm/src/abi.rs",
    "crates/tobari-wasm/src/abi/",
    "bench/wasm/",
    "glue/",
];

/// Crates whose root need not forbid `unsafe`; those that deny it have one room that allows it again.
const ROOTS_THAT_MAY_ALLOW: &[&str] = &["crates/tobari-host/"];
const ROOTS_THAT_DENY: &[&str] = &["crates/tobari-core/", "crates/tobari-wasm/"];

/// Finds the word `unsafe` in the code (not the comments or messages) of every other room, tests included.
pub(crate) fn only_in_its_rooms(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = nothing_checked(files);
    for file in files.iter().filter(|file| file.is_rust() && !in_any(&file.path, UNSAFE_ROOMS)) {
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

/// Finds every crate root that does not forbid (in the core: deny) `unsafe_code` for the whole crate.
pub(crate) fn roots_forbid(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = nothing_checked(files);
    for file in files.iter().filter(|file| is_crate_root(&file.path) && !in_any(&file.path, ROOTS_THAT_MAY_ALLOW)) {
        let blanked = blank(&file.text);
        let all = tokens(&blanked);
        let level = if in_any(&file.path, ROOTS_THAT_DENY) { "deny" } else { "forbid" };
        if !has_inner_lint(&all, "forbid") && !has_inner_lint(&all, level) {
            findings.push(Finding::new(&file.path, 1, format!("the crate root lacks `#![{level}(unsafe_code)]`")));
        }
    }
    findings
}

/// Finds every `unsafe` block and implementation without a `// SAFETY:` comment of its own.
///
/// The comment stands directly above the block's statement, or on the block's line. One comment covers one block.
pub(crate) fn blocks_are_argued(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = nothing_checked(files);
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

fn nothing_checked(files: &[SourceFile]) -> Vec<Finding> {
    if files.iter().any(|file| is_crate_root(&file.path)) {
        return Vec::new();
    }
    vec![Finding::new("crates", 0, "no crate root found: nothing was checked")]
}

fn in_any(path: &str, rooms: &[&str]) -> bool {
    rooms.iter().any(|room| path.starts_with(room))
}

/// `src/lib.rs`, `src/main.rs` and `src/bin/*.rs` of the workspace's crates: each is a crate to the compiler.
fn is_crate_root(path: &str) -> bool {
    let Some((folder, inside)) = path.split_once("/src/") else { return false };
    let ours = folder == "xtask" || folder.strip_prefix("crates/").is_some_and(|name| !name.contains('/'));
    let binary = inside.strip_prefix("bin/").is_some_and(|name| name.ends_with(".rs") && !name.contains('/'));
    ours && (matches!(inside, "lib.rs" | "main.rs") || binary)
}

fn has_inner_lint(tokens: &[Token<'_>], level: &str) -> bool {
    let start = ["#", "!", "[", level, "("];
    tokens.windows(start.len()).enumerate().any(|(at, window)| {
        let inside = tokens[at + start.len()..].iter().take_while(|token| token.text != ")");
        window.iter().map(|token| token.text).eq(start) && inside.clone().any(|token| token.text == "unsafe_code")
    })
}

/// Looks up from the block's line, past comments, attributes and the earlier lines of the same statement.
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
    use super::*;

    fn with(path: &str, text: &str) -> Vec<SourceFile> {
        vec![file("xtask/src/main.rs", "#![forbid(unsafe_code)]"), file(path, text)]
    }

    #[test]
    fn the_word_is_refused_outside_its_rooms() {
        let code = "fn f() { unsafe { g() } }";
        for path in
            ["crates/tobari-apps/src/call/mod.rs", "crates/tobari-core/src/wire.rs", "crates/tobari-cli/tests/a.rs"]
        {
            assert_eq!(only_in_its_rooms(&with(path, code)).len(), 1, "{path}");
        }
        assert_eq!(only_in_its_rooms(&with("fuzz/fuzz_targets/a.rs", "#[unsafe(no_mangle)] fn f() {}")).len(), 1);
    }

    #[test]
    fn the_word_is_free_in_its_rooms_in_comments_and_in_messages() {
        for path in ["crates/tobari-core/src/simd/portable.rs", "crates/tobari-host/src/memory.rs"] {
            assert!(only_in_its_rooms(&with(path, "unsafe fn f() {}")).is_empty(), "{path}");
        }
        let harmless = "// unsafe\n#![forbid(unsafe_code)] fn f() { say(\"unsafe\") }";
        assert!(only_in_its_rooms(&with("crates/tobari-apps/src/lib.rs", harmless)).is_empty());
    }

    #[test]
    fn every_root_forbids_and_the_core_may_deny() {
        let forbid = "//! Words.\n#![forbid(missing_docs, unsafe_code)]";
        assert!(roots_forbid(&with("crates/tobari-apps/src/lib.rs", forbid)).is_empty());
        assert!(roots_forbid(&with("crates/tobari-core/src/lib.rs", "#![deny(unsafe_code)]")).is_empty());
        assert!(roots_forbid(&with("crates/tobari-host/src/lib.rs", "")).is_empty());
        for (path, text) in [
            ("crates/tobari-apps/src/lib.rs", "#![deny(unsafe_code)]"),
            ("crates/tobari-cli/src/main.rs", "fn main() {}"),
            ("crates/tobari-cli/src/bin/other.rs", "// #![forbid(unsafe_code)]"),
            ("crates/tobari-core/src/lib.rs", "#![warn(unsafe_code)]"),
            ("crates/tobari-server/src/lib.rs", "#![forbid(missing_docs)] #[deny(unsafe_code)] mod a;"),
        ] {
            assert_eq!(roots_forbid(&with(path, text)).len(), 1, "{path} {text}");
        }
    }

    fn argued(text: &str) -> bool {
        blocks_are_argued(&with("crates/tobari-host/src/lib.rs", text)).is_empty()
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
