//! The references between the modules of a crate.
//!
//! The text of a crate is read file by file, token by token. A module is a file, or a block after
//! `mod name`. For each module the reader keeps the defined names, the imported names, and the
//! mentioned paths. Then each path is followed to the module that defines the item: through
//! children, imports, re-exports and globs. A name that no file defines, because a macro makes it,
//! counts for the last module on its path.
//!
//! Test code is left out: `#[cfg(test)]` items, the files that these declare, files named
//! `tests.rs`, and folders named `tests`. Names from macros and method calls are not visible to the
//! reader, so the edges are a lower bound.

use super::SourceFile;
use super::packages::Package;
use super::paths::{Named, expand};
use super::source::{Token, belongs_to, blank, is_word, module_stem, tokens, without_tests};
use std::collections::{BTreeMap, BTreeSet};

/// A module by its names from the crate's root; the root has none.
pub(crate) type ModulePath = Vec<String>;

/// Keywords of items; the next word is the item's name.
const ITEMS: &[&str] = &["fn", "struct", "enum", "union", "trait", "type", "const", "static", "mod"];

/// The longest chain of imports that lead to imports. The chains of this project have a handful of
/// links at most.
const LONGEST_CHASE: usize = 32;

/// Two siblings: the first names an item below the second.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Edge {
    pub(crate) from: String,
    pub(crate) to: String,
}

/// The line that makes an edge, and the path in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) names: String,
}

/// The siblings of one module, with the first place of each edge between them.
pub(crate) type Siblings = BTreeMap<Edge, Place>;

/// The modules of one crate.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    modules: BTreeMap<ModulePath, Module>,
    /// The modules with a file of their own.
    with_file: BTreeSet<ModulePath>,
}

#[derive(Debug, Default)]
struct Module {
    file: String,
    defines: BTreeSet<String>,
    imports: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    mentions: Vec<(Vec<String>, usize)>,
    /// Single words, with the first line of each: a glob may have imported them.
    words: BTreeMap<String, usize>,
}

/// The target of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Module(ModulePath),
    /// An item that this module defines.
    Item(ModulePath),
    /// An item of another crate.
    Outside,
}

impl Modules {
    /// Reads the product code of a package.
    pub(crate) fn read(package: &Package<'_>, files: &[SourceFile]) -> Self {
        let (mut read, mut tests) = (Self::default(), Vec::new());
        let folder = format!("{}/src/", package.path);
        let mut found = Vec::new();
        for file in package.sources(files) {
            let blanked = blank(&file.text);
            let all = tokens(&blanked);
            let product = without_tests(&all);
            tests.extend(product.test_modules.iter().map(|module| module_stem(&file.path, module)));
            if let Some(module) = file.path.strip_prefix(&folder).and_then(module_path) {
                found.push((file, Reader::read(&file.path, module, &product.tokens)));
            }
        }
        found.retain(|(file, _)| !tests.iter().any(|stem| belongs_to(&file.path, stem)));
        for (_, modules) in found {
            read.with_file.extend(modules.first().map(|(path, _)| path.clone()));
            for (path, module) in modules {
                // a library and a program in one package share the root; the library is read first
                read.modules.entry(path).or_insert(module);
            }
        }
        read
    }

    /// True if files lie below the module.
    pub(crate) fn is_folder(&self, module: &[String]) -> bool {
        self.with_file.iter().any(|other| other.len() > module.len() && other.starts_with(module))
    }

    /// The edges between siblings, under their parent module.
    pub(crate) fn edges(&self) -> BTreeMap<ModulePath, Siblings> {
        let mut levels: BTreeMap<ModulePath, Siblings> = BTreeMap::new();
        let mut add = |from: &ModulePath, target: &ModulePath, place: Place| {
            let shared = from.iter().zip(target).take_while(|(a, b)| a == b).count();
            // a module may name its ancestors and its descendants
            if let (Some(a), Some(b)) = (from.get(shared), target.get(shared)) {
                let edge = Edge { from: a.clone(), to: b.clone() };
                let first = levels.entry(from[..shared].to_vec()).or_default().entry(edge);
                let first = first.or_insert_with(|| place.clone());
                if place < *first {
                    *first = place;
                }
            }
        };
        for (here, module) in &self.modules {
            let place = |line: usize, names: String| Place { file: module.file.clone(), line, names };
            for (path, line) in &module.mentions {
                if let Target::Module(target) | Target::Item(target) = self.find(here, path, LONGEST_CHASE) {
                    add(here, &target, place(*line, path.join("::")));
                }
            }
            for (word, line) in &module.words {
                if let Some(target) = self.by_glob(here, word) {
                    add(here, &target, place(*line, word.clone()));
                }
            }
        }
        levels
    }

    /// The module that defines a single word, if a glob imported it.
    fn by_glob(&self, here: &ModulePath, word: &str) -> Option<ModulePath> {
        if self.modules.get(here)?.globs.is_empty() || self.own(here, word, LONGEST_CHASE).is_some() {
            return None;
        }
        match self.name(here, word, LONGEST_CHASE) {
            Some(Target::Item(target)) => Some(target),
            _ => None,
        }
    }

    /// Follows a path in the module `from`.
    fn find(&self, from: &[String], path: &[String], left: usize) -> Target {
        self.follow(from, path, &|here, name| self.name(here, name, left))
    }

    fn follow(&self, from: &[String], path: &[String], name: &dyn Fn(&[String], &str) -> Option<Target>) -> Target {
        let above = |module: &[String]| Target::Module(module[..module.len().saturating_sub(1)].to_vec());
        let mut words = path.iter();
        let mut target = match words.next().map(String::as_str) {
            None | Some("self") => Target::Module(from.to_vec()),
            Some("crate") => Target::Module(Vec::new()),
            Some("super") => above(from),
            Some(first) => name(from, first).unwrap_or(Target::Outside),
        };
        for word in words {
            let Target::Module(here) = &target else { break };
            target = match word.as_str() {
                "super" => above(here),
                word => name(here, word).unwrap_or_else(|| Target::Item(here.clone())),
            };
        }
        target
    }

    /// The target of a name in a module, with globs last, as in Rust.
    fn name(&self, here: &[String], name: &str, left: usize) -> Option<Target> {
        if left == 0 {
            return None;
        }
        self.own(here, name, left)
            .or_else(|| self.reached_by_globs(here).iter().find_map(|at| self.own(at, name, left)))
    }

    /// The target of a name in a module without its globs: a child, an item, or an import.
    fn own(&self, here: &[String], name: &str, left: usize) -> Option<Target> {
        let left = left.checked_sub(1)?;
        let child: ModulePath = here.iter().cloned().chain([name.to_owned()]).collect();
        if self.modules.contains_key(&child) {
            return Some(Target::Module(child));
        }
        let module = self.modules.get(here)?;
        if module.defines.contains(name) {
            return Some(Target::Item(here.to_vec()));
        }
        let path = module.imports.get(name)?;
        // `use tokio;` names the crate, not the imported name
        let outside = path.first().is_some_and(|first| first == name);
        Some(if outside { Target::Outside } else { self.find(here, path, left) })
    }

    /// The modules whose names a module has through globs, including the globs of these modules.
    fn reached_by_globs(&self, here: &[String]) -> Vec<ModulePath> {
        let mut reached = vec![here.to_vec()];
        let mut next = 0;
        while let Some(at) = reached.get(next).cloned() {
            for path in self.modules.get(&at).map_or(&[][..], |module| &module.globs) {
                // a glob whose path needs another glob is not followed: that search might not end
                let found = self.follow(&at, path, &|here, name| self.own(here, name, 1));
                if let Target::Module(target) = found
                    && !reached.contains(&target)
                {
                    reached.push(target);
                }
            }
            next += 1;
        }
        reached.split_off(1)
    }
}

/// The module of a file, by its path below `src`; none for tests, and for further programs, which
/// are crates of their own.
fn module_path(file: &str) -> Option<ModulePath> {
    let mut words: ModulePath = file.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if words.len() == 1 && matches!(words[0].as_str(), "lib" | "main") || words.last().is_some_and(|word| word == "mod")
    {
        words.pop();
    }
    let left_out = words.iter().any(|word| word == "tests") || words.first().is_some_and(|word| word == "bin");
    (!left_out).then_some(words)
}

/// Reads the tokens of one file, and tracks the current module.
struct Reader<'t, 'a> {
    tokens: &'t [Token<'a>],
    file: &'t str,
    depth: usize,
    here: Frame,
    outer: Vec<Frame>,
    done: Vec<(ModulePath, Module)>,
}

/// A module, and the brace depth of its items.
struct Frame {
    path: ModulePath,
    depth: usize,
    module: Module,
}

impl Frame {
    fn new(path: ModulePath, depth: usize, file: &str) -> Self {
        Self { path, depth, module: Module { file: file.to_owned(), ..Module::default() } }
    }
}

impl<'t, 'a> Reader<'t, 'a> {
    /// Every module of the file: the file's own first, then the inline modules.
    fn read(file: &'t str, path: ModulePath, tokens: &'t [Token<'a>]) -> Vec<(ModulePath, Module)> {
        let here = Frame::new(path, 0, file);
        let mut reader = Self { tokens, file, depth: 0, here, outer: Vec::new(), done: Vec::new() };
        let mut at = 0;
        while at < tokens.len() {
            at = reader.step(at);
        }
        while reader.leave() {}
        reader.done.push((reader.here.path, reader.here.module));
        reader.done.reverse();
        reader.done
    }

    fn text(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    /// Reads the item or path at `at`; returns its end.
    fn step(&mut self, at: usize) -> usize {
        let (text, next) = (self.text(at), self.text(at + 1));
        match text {
            "{" => self.depth += 1,
            "}" => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth < self.here.depth {
                    self.leave();
                }
            }
            "use" => return self.import(at + 1),
            "mod" if self.text(at + 2) == "{" => {
                self.depth += 1;
                let path = self.here.path.iter().cloned().chain([next.to_owned()]).collect();
                let inner = Frame::new(path, self.depth, self.file);
                self.outer.push(std::mem::replace(&mut self.here, inner));
                return at + 3;
            }
            "macro_rules" => self.define(at + 2),
            _ if ITEMS.contains(&text) => self.define(at + 1),
            _ if next == "::" && self.starts_path(at) => return self.mention(at),
            _ if self.starts_path(at) => {
                self.here.module.words.entry(text.to_owned()).or_insert(self.tokens[at].line);
            }
            _ => {}
        }
        at + 1
    }

    /// Leaves an inline module; false if there is none.
    fn leave(&mut self) -> bool {
        let Some(outer) = self.outer.pop() else { return false };
        let inner = std::mem::replace(&mut self.here, outer);
        self.done.push((inner.path, inner.module));
        true
    }

    /// Records a name for the module, unless it is inside a block: no other module can use items in
    /// functions.
    fn define(&mut self, at: usize) {
        if self.depth == self.here.depth {
            self.here.module.defines.insert(self.text(at).to_owned());
        }
    }

    fn import(&mut self, at: usize) -> usize {
        let (end, named) = self.expand(at);
        for Named { path, alias, line } in named {
            let mut words: Vec<String> = path.split("::").map(str::to_owned).collect();
            let glob = words.pop_if(|last| last == "*").is_some();
            words.pop_if(|last| last == "self");
            let Some(last) = words.last() else { continue };
            if self.depth == self.here.depth {
                let name = alias.unwrap_or(last).to_owned();
                if glob {
                    self.here.module.globs.push(words.clone());
                } else {
                    self.here.module.imports.insert(name, words.clone());
                }
            }
            self.here.module.mentions.push((words, line));
        }
        end
    }

    fn mention(&mut self, at: usize) -> usize {
        let (end, named) = self.expand(at);
        let words = |path: &str| path.split("::").map(str::to_owned).collect();
        self.here.module.mentions.extend(named.iter().map(|named| (words(&named.path), named.line)));
        end
    }

    fn expand(&self, at: usize) -> (usize, Vec<Named<'a>>) {
        let mut named = Vec::new();
        let end = expand(self.tokens, at, "", &mut named);
        named.retain(|named| !named.path.is_empty());
        (end.max(at), named)
    }

    /// True unless the word is a field, a method, a lifetime, a variable of a macro, or a later
    /// part of a path.
    fn starts_path(&self, at: usize) -> bool {
        let word = self.text(at).bytes().next().is_some_and(|first| is_word(first) && !first.is_ascii_digit());
        let before = |distance: usize| at.checked_sub(distance).map_or("", |index| self.text(index));
        word && match before(1) {
            "." => before(2) == ".",
            "$" => self.text(at) == "crate",
            "::" | "'" => false,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::super::packages::packages;
    use super::*;

    /// Every edge of a crate with these files, as `level: a b line`.
    fn edges(sources: &[(&str, &str)]) -> Vec<String> {
        let mut files = vec![
            file("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\n"),
            file("crates/toy/Cargo.toml", "[package]\nname = \"toy\"\n"),
        ];
        files.extend(sources.iter().map(|(path, text)| file(&format!("crates/toy/src/{path}"), text)));
        let modules = Modules::read(&packages(&files)[0], &files);
        let mut found = Vec::new();
        for (level, siblings) in modules.edges() {
            for (Edge { from, to }, place) in siblings {
                found.push(format!("{}: {from} {to} {}", level.join("::"), place.line));
            }
        }
        found
    }

    #[test]
    fn every_way_to_name_a_sibling_is_an_edge() {
        for code in [
            "use crate::b::Thing;",
            "use super::b::Thing;",
            "use super::{b::{self, Thing as T}};",
            "use super::b;",
            "pub(crate) use super::b::Thing;",
            "fn f() -> crate::b::Thing { x }",
            "fn f() { super::b::make(); }",
            "fn f() { use super::b::Thing; }",
            "fn f() { x(..super::b::LAST); }",
            "macro_rules! m { () => { $crate::b::make() } }",
            "fn f() { x.map(super::b::Thing::<u8>::new) }",
            "use super::*; fn f() { b::make() }",
            "mod inner { use super::super::b::Thing; }",
            "use super as up; fn f() { up::b::make() }",
        ] {
            let found = edges(&[("lib.rs", "mod a; mod b;"), ("a.rs", code), ("b.rs", "pub struct Thing;")]);
            assert_eq!(found, [": a b 1"], "{code}");
        }
    }

    #[test]
    fn what_names_no_sibling_is_no_edge() {
        for code in [
            "// use crate::b::Thing;",
            "fn f() { say(\"crate::b::Thing\") }",
            "use std::b::Thing;",
            "use super::Own; use crate::Own as O;",
            "fn f() { x.b(); self.b::<u8>() }",
            "#[cfg(test)] mod tests { use crate::b::Thing; }",
            "#[cfg(test)] use crate::b::Thing;",
            "fn f<'b>(b: &'b u8) {}",
        ] {
            let root = "mod a; mod b; pub struct Own;";
            assert!(edges(&[("lib.rs", root), ("a.rs", code), ("b.rs", "")]).is_empty(), "{code}");
        }
    }

    #[test]
    fn a_re_export_is_followed_to_where_the_item_is() {
        let tree = |root: &str, code: &str| {
            let files = [("lib.rs", root), ("a.rs", code), ("b/mod.rs", "pub use deep::Thing; mod deep;")];
            edges(&[&files[..], &[("b/deep.rs", "pub struct Thing;")]].concat())
        };
        assert_eq!(tree("pub use b::Thing;", "use crate::Thing;"), [": a b 1"]);
        assert_eq!(tree("use b::Thing as Other;", "use super::Other;"), [": a b 1"]);
        assert_eq!(tree("pub use b::*;", "fn f() -> crate::Thing {}"), [": a b 1"]);
        assert_eq!(tree("use b::Thing;", "use super::*; struct S(u8,\n Thing);"), [": a b 2"]);
        assert_eq!(tree("use b::Thing;", "use super::*; struct Thing;"), Vec::<String>::new());
        assert_eq!(tree("use other::Thing;", "use super::Thing;"), Vec::<String>::new());
    }

    #[test]
    fn names_that_lead_to_themselves_end() {
        let root = "use tokio; use crate::x as y; use crate::y as x; pub use a::*; mod a;";
        let found =
            edges(&[("lib.rs", root), ("a.rs", "pub use super::*; fn f() { x::g(); y::g(); tokio::g(); z() }")]);
        assert!(found.is_empty());
    }

    #[test]
    fn a_parent_and_its_children_are_no_siblings_and_cousins_meet_at_their_level() {
        let found = edges(&[
            ("lib.rs", "mod x; mod y;"),
            ("x/mod.rs", "mod a; mod b; use a::One;"),
            ("x/a.rs", "use super::two; use crate::y::c::Three;\npub struct One;"),
            ("x/b.rs", "use super::a::One;"),
            ("y.rs", "mod c; use self::c::Three;"),
            ("y/c.rs", "use super::super::x::a::One;"),
        ]);
        assert_eq!(found, [": x y 1", ": y x 1", "x: b a 1"]);
    }

    #[test]
    fn files_of_tests_have_no_edges_and_make_no_folder() {
        let found = edges(&[
            ("lib.rs", "mod a; mod b; #[cfg(test)] mod support;"),
            ("a.rs", "#[cfg(test)] mod tests;"),
            ("a/tests.rs", "use crate::b::Thing;"),
            ("a/tests/deep.rs", "use crate::b::Thing;"),
            ("support.rs", "use crate::b::Thing;"),
            ("bin/other.rs", "use crate::b::Thing;"),
            ("b.rs", ""),
        ]);
        assert!(found.is_empty());
    }
}
