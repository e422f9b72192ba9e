//! No circle between folders, so that the parts of a crate can be read, tested and moved one after
//! the other.
//!
//! The nodes are siblings in the module tree. `x.rs` and the files below `x/` are one node, and an
//! edge from `a` to `b` means that product code below `a` names an item below `b`. A circle is a
//! set of siblings in which each one reaches every other one. Circles of files alone are allowed:
//! such files are parts of one thing. A circle with a folder is a finding, which shows the smallest
//! way round and its lines.
//!
//! A parent and its children are not siblings, so `mod.rs` may use its children and they may use
//! it.

use super::modules::{Edge, ModulePath, Modules, Place, Siblings};
use super::packages::{Package, packages};
use super::{Finding, SourceFile};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A circle that is allowed for now.
struct Known {
    /// The whole names of its modules, sorted.
    modules: &'static [&'static str],
    reason: &'static str,
}

/// The exceptions, all older than this check. Each must match exactly: a circle that grew or shrank
/// is another circle.
const KNOWN: &[Known] = &[];

/// Siblings in which each one reaches every other one.
#[derive(Debug)]
pub(crate) struct Circle {
    /// The whole names of the modules, sorted: `tobari_lattice::ring`.
    pub(crate) modules: Vec<String>,
    /// True if files lie below one of them.
    pub(crate) has_folder: bool,
    /// The edges of the smallest way round, through a folder if there is one.
    pub(crate) smallest: Vec<(Edge, Place)>,
}

impl Circle {
    /// One line: the way round, and the place that makes each edge.
    pub(crate) fn way(&self) -> String {
        let edge = |(Edge { from, to }, Place { file, line, names }): &(Edge, Place)| {
            format!("{from} to {to} at {file}:{line} ({names})")
        };
        self.smallest.iter().map(edge).collect::<Vec<_>>().join(", ")
    }
}

/// Finds every unknown circle with a folder, and every known circle that no longer exists.
pub(crate) fn between_folders(files: &[SourceFile]) -> Vec<Finding> {
    judge(files, KNOWN)
}

fn judge(files: &[SourceFile], known: &[Known]) -> Vec<Finding> {
    if packages(files).is_empty() {
        return vec![Finding::new("Cargo.toml", 0, "no package of a workspace found: nothing was checked")];
    }
    let mut circles = all(files);
    circles.retain(|circle| circle.has_folder);
    let is = |circle: &Circle, known: &Known| circle.modules.iter().eq(known.modules);
    let mut findings: Vec<Finding> = Vec::new();
    for circle in circles.iter().filter(|circle| !known.iter().any(|known| is(circle, known))) {
        let (file, line) = circle.smallest.first().map_or(("", 0), |(_, place)| (&*place.file, place.line));
        let message = format!("circle of {}; cut one of these edges: {}", circle.modules.join(", "), circle.way());
        findings.push(Finding::new(file, line, message));
    }
    for gone in known.iter().filter(|known| !circles.iter().any(|circle| is(circle, known))) {
        let message = format!("no circle of {} ({}): take it out of KNOWN", gone.modules.join(", "), gone.reason);
        findings.push(Finding::new("xtask/src/layout/circles.rs", 0, message));
    }
    findings
}

/// Every circle of every package, including those of files alone.
pub(crate) fn all(files: &[SourceFile]) -> Vec<Circle> {
    packages(files).iter().flat_map(|package| of_package(package, files)).collect()
}

fn of_package(package: &Package<'_>, files: &[SourceFile]) -> Vec<Circle> {
    let name = package.name().replace('-', "_");
    let modules = Modules::read(package, files);
    let levels = modules.edges();
    levels.iter().flat_map(|(level, siblings)| of_level(&name, &modules, level, siblings)).collect()
}

fn of_level(name: &str, modules: &Modules, level: &ModulePath, siblings: &Siblings) -> Vec<Circle> {
    let below = |node: &str| level.iter().cloned().chain([node.to_owned()]).collect::<ModulePath>();
    let whole = |node: &&str| [&[name.to_owned()][..], &below(node)].concat().join("::");
    let circle = |nodes: &BTreeSet<&str>| {
        let folders: BTreeSet<&str> = nodes.iter().copied().filter(|node| modules.is_folder(&below(node))).collect();
        let starts = if folders.is_empty() { nodes } else { &folders };
        Circle {
            modules: nodes.iter().map(whole).collect(),
            has_folder: !folders.is_empty(),
            smallest: smallest(siblings, starts),
        }
    };
    components(siblings).iter().map(circle).collect()
}

/// The sets of at least two nodes that all reach one another.
fn components(siblings: &Siblings) -> Vec<BTreeSet<&str>> {
    let starts: BTreeSet<&str> = siblings.keys().map(|edge| &*edge.from).collect();
    let reached: BTreeMap<&str, BTreeSet<&str>> = starts.iter().map(|start| (*start, reach(siblings, start))).collect();
    let mut found: Vec<BTreeSet<&str>> = Vec::new();
    for (start, reach) in reached.iter().filter(|(start, reach)| reach.contains(*start)) {
        let returns = |node: &&str| reached.get(node).is_some_and(|back| back.contains(start));
        let component: BTreeSet<&str> = reach.iter().copied().filter(returns).collect();
        if !found.contains(&component) {
            found.push(component);
        }
    }
    found
}

/// Every node that `start` reaches; `start` itself only if a way leads back.
fn reach<'a>(siblings: &'a Siblings, start: &str) -> BTreeSet<&'a str> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![start]);
    while let Some(node) = open.pop() {
        for edge in siblings.keys().filter(|edge| edge.from == node) {
            if reached.insert(&*edge.to) {
                open.push(&edge.to);
            }
        }
    }
    reached
}

/// The edges of the shortest way from one of `starts` back to itself.
fn smallest(siblings: &Siblings, starts: &BTreeSet<&str>) -> Vec<(Edge, Place)> {
    let ways = starts.iter().filter_map(|start| round(siblings, start));
    let shortest = ways.min_by_key(Vec::len).unwrap_or_default();
    shortest.into_iter().map(|(edge, place)| (edge.clone(), place.clone())).collect()
}

/// The shortest way from `start` back to itself, by breadth-first search.
fn round<'a>(siblings: &'a Siblings, start: &str) -> Option<Vec<(&'a Edge, &'a Place)>> {
    let mut came: BTreeMap<&str, (&Edge, &Place)> = BTreeMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(node) = open.pop_front() {
        for (edge, place) in siblings.iter().filter(|(edge, _)| edge.from == node) {
            if !came.contains_key(&*edge.to) {
                came.insert(&edge.to, (edge, place));
                open.push_back(&edge.to);
            }
        }
    }
    let mut way = vec![*came.get(start)?];
    while let Some((edge, _)) = way.last().filter(|(edge, _)| edge.from != start) {
        way.push(*came.get(&*edge.from)?);
    }
    way.reverse();
    Some(way)
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    /// The findings in a tree with these files below `crates/toy/src`, written to a folder and read
    /// again.
    fn found(name: &str, sources: &[(&str, &str)], known: &[Known]) -> Vec<String> {
        let root = std::env::temp_dir().join(format!("xtask-circles-{name}-{}", std::process::id()));
        let manifests = [
            ("Cargo.toml".to_owned(), "[workspace]\nmembers = [\"crates/*\"]\n"),
            ("crates/toy/Cargo.toml".to_owned(), "[package]\nname = \"toy-house\"\n"),
        ];
        let sources = sources.iter().map(|(path, text)| (format!("crates/toy/src/{path}"), *text));
        for (path, text) in manifests.into_iter().chain(sources) {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let files = tree::read(&root).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        judge(&files, known).iter().map(ToString::to_string).collect()
    }

    const CIRCLE: &[(&str, &str)] = &[
        ("lib.rs", "mod garden; mod kitchen; mod door;"),
        ("kitchen.rs", "mod stove;\n\nuse crate::garden::Herb;\nuse crate::door::Key;\n"),
        ("kitchen/stove.rs", "pub struct Stove;"),
        ("garden/mod.rs", "mod fire;\npub struct Herb;"),
        ("garden/fire.rs", "\nfn light() -> crate::kitchen::stove::Stove { todo!() }\n"),
        ("door.rs", "pub struct Key;"),
    ];

    #[test]
    fn a_circle_is_found_with_its_modules_and_the_lines_that_make_it() {
        let expected = "crates/toy/src/garden/fire.rs:2: circle of toy_house::garden, toy_house::kitchen; cut one of these edges: garden to \
                        kitchen at crates/toy/src/garden/fire.rs:2 (crate::kitchen::stove::Stove), kitchen to garden at \
                        crates/toy/src/kitchen.rs:3 (crate::garden::Herb)";
        assert_eq!(found("two", CIRCLE, &[]), [expected]);
    }

    #[test]
    fn the_smallest_way_round_goes_through_a_folder_and_the_set_has_all() {
        let tree = [
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::b::B; use crate::c::C; pub struct A;"),
            ("b.rs", "use crate::a::A; pub struct B;"),
            ("c/mod.rs", "mod deep; use crate::d::D; pub struct C;"),
            ("c/deep.rs", ""),
            ("d.rs", "use crate::a::A; pub struct D;"),
        ];
        let found = found("set", &tree, &[]);
        assert_eq!(found.len(), 1);
        assert!(
            found[0]
                .contains("toy_house::a, toy_house::b, toy_house::c, toy_house::d; cut one of these edges: c to d at "),
            "{}",
            found[0]
        );
        assert!(!found[0].contains("b.rs"), "{}", found[0]);
    }

    #[test]
    fn a_tree_without_a_circle_passes() {
        let mut tree = CIRCLE.to_vec();
        tree[4].1 = "// crate::kitchen::stove::Stove\n";
        assert_eq!(found("none", &tree, &[]), Vec::<String>::new());
    }

    #[test]
    fn parents_and_children_files_alone_and_tests_make_no_finding() {
        let tree = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "use crate::a::A; pub struct B;"),
            ("c/mod.rs", "mod deep; mod tests; use deep::Deep; pub struct C; use crate::a::A;"),
            ("c/deep.rs", "use super::C; pub struct Deep;\n#[cfg(test)] mod tests { use super::super::other; }"),
            ("c/tests.rs", "use crate::b::B;"),
            ("a/tests/mod.rs", "use crate::c::C;"),
        ];
        assert_eq!(found("allowed", &tree, &[]), Vec::<String>::new());
    }

    #[test]
    fn a_known_circle_passes_and_one_that_is_gone_does_not() {
        let known = |modules| [Known { modules, reason: "for now" }];
        let both = known(&["toy_house::garden", "toy_house::kitchen"]);
        assert_eq!(found("known", CIRCLE, &both), Vec::<String>::new());
        assert_eq!(found("gone", &CIRCLE[..1], &both).len(), 1);
        let grown = known(&["toy_house::door", "toy_house::garden", "toy_house::kitchen"]);
        assert_eq!(found("grown", CIRCLE, &grown).len(), 2);
    }
}
