//! The packages of which a program is made: as a CycloneDX bill of materials beside the program,
//! and as data inside the program.
//!
//! cargo lists the packages that the build links, with the features of the build. Packages that
//! only compile, such as macros, are not in the program and not listed. The data inside have the
//! format of `cargo auditable`: a section `.dep-v0` of JSON, compressed by zlib. `cargo audit bin`
//! and other scanners read this section.

use super::names;
use super::pack::zlib;
use crate::child::{cargo, output};
use crate::json::{array, object, string};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The name of the section.
pub(super) const SECTION: &str = ".dep-v0";

/// A package in the program.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    name: String,
    version: String,
    licence: String,
    /// The checksum of a registry's archive; none for packages of this repository.
    sha256: Option<String>,
    /// Places in the list of parts, in ascending order.
    uses: Vec<usize>,
}

/// The packages, sorted by name and version.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parts {
    parts: Vec<Part>,
    root: usize,
}

impl Parts {
    /// The packages of a build.
    ///
    /// # Errors
    /// cargo's failure, or an unexpected line.
    pub(super) fn of(root: &Path, package: &str, features: &str, triple: &str) -> Result<Self, String> {
        let mut tree = cargo(root);
        tree.args(["tree", "--locked", "--package", package, "--target", triple]);
        tree.args(["--edges", "normal,no-proc-macro", "--prefix", "depth", "--format", "|{p}|{l}"]);
        if !features.is_empty() {
            tree.args(["--features", features]);
        }
        let lock = std::fs::read_to_string(root.join("Cargo.lock")).map_err(|error| format!("Cargo.lock: {error}"))?;
        Self::read(&output(&mut tree)?, &checksums(&lock))
    }

    /// Reads lines of `cargo tree`: depth, package and licence. A package whose dependencies were
    /// listed before ends with `(*)`.
    fn read(tree: &str, checksums: &BTreeMap<(String, String), String>) -> Result<Self, String> {
        type Key = (String, String);
        let mut found: BTreeMap<Key, (String, BTreeSet<Key>)> = BTreeMap::new();
        let mut above: Vec<Key> = Vec::new();
        for line in tree.lines().filter(|line| !line.trim().is_empty()) {
            let wrong = || format!("cargo tree: expected depth, package and licence, found `{line}`");
            let (depth, rest) = line.split_once('|').ok_or_else(wrong)?;
            let (package, licence) = rest.split_once('|').ok_or_else(wrong)?;
            let depth: usize = depth.parse().map_err(|_| wrong())?;
            let mut words = package.split(' ');
            let (Some(name), Some(version)) = (words.next(), words.next().and_then(|word| word.strip_prefix('v')))
            else {
                return Err(wrong());
            };
            let key = (name.to_owned(), version.to_owned());
            if depth > above.len() {
                return Err(wrong());
            }
            above.truncate(depth);
            if let Some((_, uses)) = above.last().and_then(|parent| found.get_mut(parent)) {
                uses.insert(key.clone());
            }
            let licence = licence.trim_end_matches(" (*)").to_owned();
            found.entry(key.clone()).or_insert_with(|| (licence, BTreeSet::new()));
            above.push(key);
        }
        let first = above.first().ok_or("cargo tree: expected packages, found none")?;
        let keys: Vec<&Key> = found.keys().collect();
        let place = |key: &Key| keys.binary_search(&key).unwrap_or_default();
        let parts = found.iter().map(|(key, (licence, uses))| Part {
            name: key.0.clone(),
            version: key.1.clone(),
            licence: licence.clone(),
            sha256: checksums.get(key).cloned(),
            uses: uses.iter().map(place).collect(),
        });
        Ok(Self { parts: parts.collect(), root: place(first) })
    }

    /// The content of the section [`SECTION`].
    ///
    /// # Errors
    /// The data cannot be compressed.
    pub(super) fn section(&self) -> Result<Vec<u8>, String> {
        zlib(self.embedded().as_bytes()).map_err(|error| error.to_string())
    }

    fn embedded(&self) -> String {
        let one = |(at, part): (usize, &Part)| {
            let source = if part.sha256.is_some() { "crates.io" } else { "local" };
            let mut fields =
                vec![("name", string(&part.name)), ("version", string(&part.version)), ("source", string(source))];
            if !part.uses.is_empty() {
                fields.push(("dependencies", array(part.uses.iter().map(ToString::to_string))));
            }
            if at == self.root {
                fields.push(("root", "true".to_owned()));
            }
            object(fields)
        };
        object([("packages", array(self.parts.iter().enumerate().map(one)))])
    }

    /// A bill of materials: CycloneDX 1.5 in JSON. It has no serial number and no time, so that it
    /// is the same from every builder.
    pub(super) fn bill(&self, sha256: &str) -> String {
        let root = &self.parts[self.root];
        let others = self.parts.iter().enumerate().filter(|(at, _)| *at != self.root);
        let mut program = component(root, "application");
        program.push(("hashes", hashes(sha256)));
        let tool = [("type", string("application")), ("name", string("cargo xtask dist"))];
        let tools = object([("components", array([object(tool)]))]);
        let lines = |values: Vec<String>| format!("[\n{}\n]", values.join(",\n"));
        let depends = |part: &Part| {
            let on = part.uses.iter().map(|at| string(&reference(&self.parts[*at])));
            object([("ref", string(&reference(part))), ("dependsOn", array(on))])
        };
        object([
            ("bomFormat", string("CycloneDX")),
            ("specVersion", string("1.5")),
            ("version", "1".to_owned()),
            ("metadata", object([("tools", tools), ("component", object(program))])),
            ("components", lines(others.map(|(_, part)| object(component(part, "library"))).collect())),
            ("dependencies", lines(self.parts.iter().map(depends).collect())),
        ]) + "\n"
    }
}

/// The name of a part inside of the bill.
fn reference(part: &Part) -> String {
    match &part.sha256 {
        Some(_) => format!("pkg:cargo/{}@{}", part.name, part.version),
        None => format!("{}@{}", part.name, part.version),
    }
}

fn hashes(sha256: &str) -> String {
    array([object([("alg", string("SHA-256")), ("content", string(sha256))])])
}

fn component(part: &Part, kind: &str) -> Vec<(&'static str, String)> {
    let mut fields = vec![
        ("type", string(kind)),
        ("bom-ref", string(&reference(part))),
        ("name", string(if part.name == names::CRATE { names::COMMAND } else { &part.name })),
        ("version", string(&part.version)),
    ];
    if !part.licence.is_empty() {
        // old manifests put a slash between two licences
        let expression = part.licence.replace(" / ", " OR ").replace('/', " OR ");
        fields.push(("licenses", array([object([("expression", string(&expression))])])));
    }
    if let Some(sha256) = &part.sha256 {
        fields.push(("purl", string(&reference(part))));
        fields.push(("hashes", hashes(sha256)));
    }
    fields
}

/// The checksums of a lock file, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        line.map(|text| text.trim_matches('"').to_owned())
    };
    let package = |block: &str| Some(((value(block, "name")?, value(block, "version")?), value(block, "checksum")?));
    lock.split("[[package]]").filter_map(package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "\
0|tobari-cli v0.1.0 (/home/me/cli)|MIT OR Apache-2.0
1|b v1.0.0|MIT/Apache-2.0
2|a v2.0.0|
1|tobari-x v0.1.0 (/home/me/crates/x)|MIT OR Apache-2.0
2|b v1.0.0|MIT/Apache-2.0 (*)
1|a v3.0.0|BSD-3-Clause
";
    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"2.0.0\"\nchecksum = \"a2\"\n\n\
        [[package]]\nname = \"a\"\nversion = \"3.0.0\"\nchecksum = \"a3\"\n\n[[package]]\nname = \"b\"\nversion = \"1.0.0\"\n\
        source = \"registry\"\nchecksum = \"b1\"\n\n[[package]]\nname = \"tobari-x\"\nversion = \"0.1.0\"\n";

    fn parts() -> Parts {
        Parts::read(TREE, &checksums(LOCK)).unwrap()
    }

    #[test]
    fn scanners_read_each_package_with_its_version_and_its_uses() {
        let expected = r#"{"packages":[
{"name":"a","version":"2.0.0","source":"crates.io"},
{"name":"a","version":"3.0.0","source":"crates.io"},
{"name":"b","version":"1.0.0","source":"crates.io","dependencies":[0]},
{"name":"tobari-cli","version":"0.1.0","source":"local","dependencies":[1,2,4],"root":true},
{"name":"tobari-x","version":"0.1.0","source":"local","dependencies":[2]}]}"#;
        assert_eq!(parts().embedded(), expected.replace('\n', ""));
    }

    #[test]
    fn a_bill_has_licences_checksums_and_the_program_and_no_path() {
        let bill = parts().bill("00ff");
        for piece in [
            r#""component":{"type":"application","bom-ref":"tobari-cli@0.1.0","name":"tobari","version":"0.1.0""#,
            r#""hashes":[{"alg":"SHA-256","content":"00ff"}]"#,
            r#""licenses":[{"expression":"MIT OR Apache-2.0"}],"purl":"pkg:cargo/b@1.0.0","hashes":[{"alg":"SHA-256","content":"b1"}]"#,
            r#"{"ref":"tobari-cli@0.1.0","dependsOn":["pkg:cargo/a@3.0.0","pkg:cargo/b@1.0.0","tobari-x@0.1.0"]}"#,
        ] {
            assert!(bill.contains(piece), "{piece}\n{bill}");
        }
        assert!(!bill.contains("/home/me"), "{bill}");
    }

    #[test]
    fn a_line_that_cargo_does_not_print_today_is_an_error() {
        for tree in ["", "0|a v1.0.0", "x|a v1.0.0|MIT", "0|a|MIT", "1|a v1.0.0|MIT"] {
            let error = Parts::read(tree, &BTreeMap::new()).unwrap_err();
            assert!(error.starts_with("cargo tree: expected "), "{tree}: {error}");
        }
    }
}
