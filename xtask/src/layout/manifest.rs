//! The few facts about a `Cargo.toml` that the layout checks need, such as its dependencies, read
//! line by line.
//!
//! This is not a TOML parser. It knows table headers, keys, and the end of a value that spans
//! lines. A manifest that hides a dependency from it (for example by a header inside a multi-line
//! string) does not pass review either.

/// The table of the manifest with the dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `[dependencies]`, and `[target.….dependencies]`.
    Normal,
    /// `[dev-dependencies]`.
    Dev,
    /// `[build-dependencies]`.
    Build,
    /// `[workspace.dependencies]` of the root manifest.
    Workspace,
}

/// One dependency: the package's own name, even where the manifest renames it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Its name in this manifest; a crate that takes it from the workspace uses the workspace's.
    pub(crate) key: String,
    pub(crate) kind: Kind,
    pub(crate) line: usize,
}

/// Every dependency the manifest names, in its order.
pub(crate) fn dependencies(manifest: &str) -> Vec<Dependency> {
    let mut found: Vec<Dependency> = Vec::new();
    let mut place = Place::Elsewhere;
    for Entry { line, text, header } in entries(manifest) {
        if header {
            place = Place::of(&text);
            if let Place::Single(kind, name) = &place {
                found.push(Dependency { name: name.clone(), key: name.clone(), kind: *kind, line });
            }
            continue;
        }
        let key = segments(text.split('=').next().unwrap_or_default()).into_iter().next().unwrap_or_default();
        match &place {
            Place::Table(kind) => {
                let name = renamed(&text).unwrap_or_else(|| key.clone());
                found.push(Dependency { name, key, kind: *kind, line });
            }
            Place::Single(..) if key == "package" => {
                if let (Some(dependency), Some(name)) = (found.last_mut(), renamed(&text)) {
                    dependency.name = name;
                }
            }
            _ => {}
        }
    }
    found
}

/// True if the manifest says `[lints] workspace = true`. Without this line no lint of the workspace
/// applies to the crate.
pub(crate) fn takes_workspace_lints(manifest: &str) -> bool {
    let mut inside = false;
    for entry in entries(manifest) {
        if entry.header {
            inside = entry.text == "[lints]";
        } else if (inside && squeeze(&entry.text) == "workspace=true") || squeeze(&entry.text) == "lints.workspace=true"
        {
            return true;
        }
    }
    false
}

/// The name in `[package]`.
pub(crate) fn package_name(manifest: &str) -> Option<String> {
    strings(manifest, "[package]", "name").into_iter().next()
}

/// The patterns in `members` of `[workspace]`.
pub(crate) fn members(manifest: &str) -> Vec<String> {
    strings(manifest, "[workspace]", "members")
}

/// Every string in the value of `key` in the table with this header.
fn strings(manifest: &str, header: &str, key: &str) -> Vec<String> {
    let mut inside = false;
    for entry in entries(manifest) {
        if entry.header {
            inside = entry.text == header;
        } else if let Some((name, value)) = entry.text.split_once('=')
            && inside
            && name.trim() == key
        {
            return value.split('"').skip(1).step_by(2).map(str::to_owned).collect();
        }
    }
    Vec::new()
}

enum Place {
    Elsewhere,
    Table(Kind),
    Single(Kind, String),
}

impl Place {
    fn of(header: &str) -> Self {
        let path = segments(header.trim_matches(|c| c == '[' || c == ']'));
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        let at = words.iter().position(|word| word.ends_with("dependencies"));
        let Some(at) = at else { return Self::Elsewhere };
        let kind = match (words[..at].first(), words[at]) {
            (Some(&"workspace"), "dependencies") => Kind::Workspace,
            (_, "dependencies") => Kind::Normal,
            (_, "dev-dependencies") => Kind::Dev,
            (_, "build-dependencies") => Kind::Build,
            _ => return Self::Elsewhere,
        };
        words.get(at + 1).map_or(Self::Table(kind), |name| Self::Single(kind, (*name).to_owned()))
    }
}

/// A header, or a key with its whole value, without comments.
struct Entry {
    line: usize,
    text: String,
    header: bool,
}

fn entries(manifest: &str) -> Vec<Entry> {
    let mut found: Vec<Entry> = Vec::new();
    let mut depth = 0_i32;
    for (index, raw) in manifest.lines().enumerate() {
        let (text, change) = significant(raw);
        if depth > 0 {
            if let Some(entry) = found.last_mut() {
                entry.text.push(' ');
                entry.text.push_str(&text);
            }
            depth += change;
        } else if text.starts_with('[') {
            found.push(Entry { line: index + 1, text, header: true });
        } else if !text.is_empty() {
            found.push(Entry { line: index + 1, text, header: false });
            depth = change;
        }
    }
    found
}

/// The line without its comment and outer spaces, and the number of opened minus closed brackets
/// outside strings.
fn significant(raw: &str) -> (String, i32) {
    let (mut quote, mut depth, mut end) = (None, 0, raw.len());
    for (index, character) in raw.char_indices() {
        match (quote, character) {
            (None, '#') => {
                end = index;
                break;
            }
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth -= 1,
            _ => {}
        }
    }
    (raw[..end].trim().to_owned(), depth)
}

/// Splits a dotted key; segments may be quoted: `target.'cfg(unix)'.dependencies` has three.
fn segments(key: &str) -> Vec<String> {
    let (mut found, mut quote) = (vec![String::new()], None);
    for character in key.trim().chars() {
        match (quote, character) {
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (None, '.') => found.push(String::new()),
            (None, ' ') => {}
            _ => found.iter_mut().last().into_iter().for_each(|segment| segment.push(character)),
        }
    }
    found
}

/// The name in `package = "name"`, if the entry has one.
fn renamed(text: &str) -> Option<String> {
    let squeezed = squeeze(text);
    let (before, after) = squeezed.split_once("package=\"")?;
    let starts_key = before.is_empty() || before.ends_with(['{', ',', '.']);
    starts_key.then(|| after.split('"').next().unwrap_or_default().to_owned())
}

fn squeeze(text: &str) -> String {
    text.chars().filter(|character| !character.is_whitespace()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(manifest: &str) -> Vec<(String, Kind)> {
        dependencies(manifest).into_iter().map(|dependency| (dependency.name, dependency.kind)).collect()
    }

    #[test]
    fn every_way_to_name_a_dependency_is_read() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\na.workspace = true # why\nb = \"1\"\nc = { version = \"1\" }\n\
                        \"d\" = { package = \"real\", version = \"2\" }\n[dependencies.e]\nversion = \"1\"\npackage = \"whole\"\n\
                        [target.'cfg(unix)'.dependencies]\nf = \"1\"\n[dev-dependencies]\ng = \"1\"\n[build-dependencies.h]\n";
        let expected = [
            ("a", Kind::Normal),
            ("b", Kind::Normal),
            ("c", Kind::Normal),
            ("real", Kind::Normal),
            ("whole", Kind::Normal),
            ("f", Kind::Normal),
            ("g", Kind::Dev),
            ("h", Kind::Build),
        ];
        assert_eq!(names(manifest), expected.map(|(name, kind)| (name.to_owned(), kind)));
    }

    #[test]
    fn workspace_dependencies_are_their_own_kind() {
        let manifest =
            "[workspace]\nmembers = [\"a\"]\n[workspace.dependencies]\ntokio = \"1\"\n[profile.dev]\ndebug = true\n";
        assert_eq!(names(manifest), [("tokio".to_owned(), Kind::Workspace)]);
    }

    #[test]
    fn a_value_over_several_lines_is_one_entry() {
        let manifest = "[dependencies]\nt = { version = \"1\", features = [\n  \"net\", # a comment ]\n  \"rt\",\n] }\nu = \"1\"\n";
        assert_eq!(names(manifest).iter().map(|pair| pair.0.as_str()).collect::<Vec<_>>(), ["t", "u"]);
        assert_eq!(dependencies(manifest)[1].line, 6);
    }

    #[test]
    fn other_tables_name_no_dependency() {
        assert!(names("[features]\nx = [\"dep:a\"]\n[lints]\nworkspace = true\n").is_empty());
    }

    #[test]
    fn names_and_members_are_read_from_their_tables_only() {
        let root =
            "[package]\nname = \"a-b\" # not c\n[workspace]\nmembers = [\n  \"crates/*\", # all\n  \"xtask\",\n]\n";
        assert_eq!(package_name(root).as_deref(), Some("a-b"));
        assert_eq!(members(root), ["crates/*", "xtask"]);
        assert_eq!(package_name("[[bin]]\nname = \"x\"\n"), None);
        assert!(members("members = [\"a\"]\n").is_empty());
    }

    #[test]
    fn workspace_lints_are_seen_only_where_they_are_taken() {
        assert!(takes_workspace_lints("[lints]\nworkspace = true\n"));
        assert!(takes_workspace_lints("lints.workspace = true\n"));
        assert!(!takes_workspace_lints("[lints]\nworkspace = false\n"));
        assert!(!takes_workspace_lints("[dependencies]\nworkspace = true\n"));
        assert!(!takes_workspace_lints("# [lints]\n# workspace = true\n"));
    }
}
