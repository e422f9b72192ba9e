//! Invariant 1: the pure rooms open no file, socket, clock or thread, and take randomness as an
//! argument.
//!
//! The check expands every `use` tree and every path of their product code, so that it finds
//! `use std::{fs, time::Instant}` as well as `std::fs::read`. `std` itself, its forbidden modules
//! and the forbidden crates must not be imported whole or renamed either.

use super::paths::{Named, expand};
use super::rooms::{ROOMS, Room, members};
use super::source::{Token, belongs_to, blank, module_stem, tokens, without_tests};
use super::{Finding, SourceFile};

/// Parts of `std` that access the machine; of `std::time` only `Duration` is a plain number.
const FORBIDDEN_PARTS: &[&str] =
    &["std::fs", "std::net", "std::process", "std::thread", "std::env", "std::os", "std::time"];

/// Crates that access the machine or draw randomness from it.
const FORBIDDEN_CRATES: &[&str] = &["tokio", "getrandom"];

/// Finds every access to the machine in the product code of the pure rooms.
pub(crate) fn no_machine(files: &[SourceFile]) -> Vec<Finding> {
    machine_in(ROOMS, files)
}

fn machine_in(rooms: &[Room], files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let pure: Vec<&Room> = members(rooms, files).map(|(room, _)| room).filter(|room| room.outside.is_some()).collect();
    if pure.is_empty() {
        findings.push(Finding::new("Cargo.toml", 0, "none of the pure rooms is here: nothing was checked"));
    }
    for room in pure {
        let is_source = |path: &str| room.inside(path).is_some_and(|inside| inside.starts_with("src/"));
        let sources: Vec<&SourceFile> = files.iter().filter(|file| file.is_rust() && is_source(&file.path)).collect();
        if sources.is_empty() {
            findings.push(Finding::new(room.path, 0, "no source found: nothing was checked"));
        }
        findings.extend(in_room(&sources));
    }
    findings
}

fn in_room(sources: &[&SourceFile]) -> Vec<Finding> {
    let (mut findings, mut test_files) = (Vec::new(), Vec::new());
    for file in sources {
        let blanked = blank(&file.text);
        let all = tokens(&blanked);
        let product = without_tests(&all);
        test_files.extend(product.test_modules.iter().map(|module| module_stem(&file.path, module)));
        findings.extend(uses(&product.tokens).into_iter().map(|(path, line)| {
            Finding::new(&file.path, line, format!("{path} in a pure room: take what it gives as an argument"))
        }));
    }
    findings.retain(|finding| !test_files.iter().any(|stem| belongs_to(&finding.path, stem)));
    findings
}

/// Every forbidden path among the tokens, with its line. A path that is renamed or imported whole
/// ends with ` as`.
fn uses(tokens: &[Token<'_>]) -> Vec<(String, usize)> {
    let mut paths = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        if token.text == "std" || FORBIDDEN_CRATES.contains(&token.text) {
            let mut named = Vec::new();
            expand(tokens, at, "", &mut named);
            let imported = at.checked_sub(1).is_some_and(|before| tokens[before].text == "use");
            paths.extend(named.into_iter().map(|Named { path, alias, line }| {
                let renamed = alias.is_some() || (imported && !path.contains("::"));
                (if renamed { format!("{path} as") } else { path }, line)
            }));
        }
    }
    paths.retain(|(path, _)| is_forbidden(path));
    paths
}

fn is_forbidden(path: &str) -> bool {
    let renamed = path.ends_with(" as");
    let path = path.trim_end_matches(" as").trim_end_matches("::self");
    let under = |part: &str| path == part || path.strip_prefix(part).is_some_and(|rest| rest.starts_with("::"));
    match path {
        "std" => renamed,
        "std::*" => true,
        _ if under("std::time::Duration") => false,
        _ => {
            FORBIDDEN_PARTS.iter().any(|part| under(part))
                || FORBIDDEN_CRATES.iter().any(|name| if path == *name { renamed } else { under(name) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::super::rooms::TOY;
    use super::*;

    fn found(code: &str) -> Vec<String> {
        let files = [file("crates/core/Cargo.toml", ""), file("crates/core/src/lib.rs", code)];
        machine_in(TOY, &files).into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn every_way_to_the_machine_is_refused() {
        for code in [
            "use std::fs;",
            "use std::{mem, net::TcpStream};",
            "use std::{fmt, time::{Duration, Instant}};",
            "use std::time;",
            "use std::time::{self, Duration};",
            "use std::time::*;",
            "use std::*;",
            "use std as s;",
            "use std::{self as s};",
            "use ::std::thread::spawn;",
            "use std::thread as t;",
            "fn f() { let x = std::process::id(); }",
            "fn f() -> std::time::SystemTime { now() }",
            "fn f() { std::env::var(\"A\"); }",
            "use {core::mem, std::fs::File};",
            "use tokio::net;",
            "use tokio;",
            "extern crate getrandom as g;",
            "fn f() { getrandom::fill(&mut x); }",
            "use std::os::fd::AsFd;",
        ] {
            assert!(!found(code).is_empty(), "{code}");
        }
    }

    #[test]
    fn what_is_pure_passes() {
        for code in [
            "use std::{fmt, mem, time::Duration};",
            "use std::time::Duration; use std::collections::HashMap;",
            "extern crate std;",
            "// use std::fs;\n/* std::net */ fn f() { let s = \"std::thread\"; }",
            "fn process(env: u8) { let net = fs; self.tokio(); }",
            "use std::sync::{Arc, OnceLock}; use std::io::Read;",
            "mod fs; use crate::fs::File;",
        ] {
            assert_eq!(found(code), Vec::<String>::new(), "{code}");
        }
    }

    #[test]
    fn a_finding_names_path_and_line() {
        let expected = "crates/core/src/lib.rs:3: std::fs::File in a pure room: take what it gives as an argument";
        assert_eq!(found("use std::{\n  fmt,\n  fs::File,\n};"), [expected]);
    }

    #[test]
    fn test_code_may_use_the_machine() {
        assert!(found("#[cfg(test)] mod tests { use std::fs; }").is_empty());
        assert!(!found("#[cfg(test)] mod tests { } use std::fs;").is_empty());
        let room = "crates/core";
        let mut files = vec![
            file(&format!("{room}/Cargo.toml"), ""),
            file(&format!("{room}/src/wire.rs"), "#[cfg(test)] mod tests;"),
            file(&format!("{room}/src/wire/tests.rs"), "use std::fs;"),
        ];
        assert!(machine_in(TOY, &files).is_empty());
        files[1].text = "mod tests;".to_owned();
        assert_eq!(machine_in(TOY, &files).len(), 1);
    }

    #[test]
    fn rooms_that_are_not_pure_are_left_alone() {
        let mut files = vec![
            file("crates/core/Cargo.toml", ""),
            file("crates/core/src/lib.rs", ""),
            file("crates/machine/Cargo.toml", ""),
            file("crates/machine/src/lib.rs", "use std::fs;"),
            file("crates/core/tests/files.rs", "use std::fs;"),
        ];
        assert!(machine_in(TOY, &files).is_empty());
        files.remove(1);
        assert_eq!(machine_in(TOY, &files).len(), 1, "a pure room without source is not a pass");
    }
}
