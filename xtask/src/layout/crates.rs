//! The allowed dependencies between crates: the manifests against the table of rooms.

use super::manifest::{Dependency, Kind, dependencies, takes_workspace_lints};
use super::packages::packages;
use super::rooms::{ROOMS, Room, TABLE, find, members};
use super::{Finding, SourceFile};

/// Finds every package of the workspace that does not have exactly one line in the table, and every
/// line without its package at its path.
pub(crate) fn on_the_map(files: &[SourceFile]) -> Vec<Finding> {
    mapped(ROOMS, files)
}

/// Finds every dependency between rooms that is not in the table.
pub(crate) fn edges(files: &[SourceFile]) -> Vec<Finding> {
    edges_past(ROOMS, files)
}

/// Finds every dependency of a pure room's product code that is not on its short list.
pub(crate) fn pure_dependencies(files: &[SourceFile]) -> Vec<Finding> {
    dependencies_past_the_lists(ROOMS, files)
}

/// Finds every crate that does not take the workspace's lints.
pub(crate) fn lints(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = nothing_checked(ROOMS, files);
    for (room, file) in members(ROOMS, files).filter(|(_, file)| !takes_workspace_lints(&file.text)) {
        findings.push(Finding::new(&file.path, 1, format!("{} lacks `[lints] workspace = true`", room.package)));
    }
    findings
}

fn mapped(rooms: &[Room], files: &[SourceFile]) -> Vec<Finding> {
    let packages = packages(files);
    if packages.is_empty() {
        return vec![Finding::new("Cargo.toml", 0, "no package of a workspace found: nothing was checked")];
    }
    let mut findings = Vec::new();
    for (name, manifest) in packages.iter().map(|package| (package.name(), package.manifest)) {
        let lines = rooms.iter().filter(|room| room.package == name).count();
        if lines != 1 {
            let message = format!("expected one line for {name} in {TABLE}, found {lines}");
            findings.push(Finding::new(&manifest.path, 1, message));
        }
    }
    for Room { package: name, path, .. } in rooms {
        if !packages.iter().any(|package| package.path == *path && package.name() == *name) {
            let message = format!("the workspace has no package {name} at {path}: correct its line or remove it");
            findings.push(Finding::new(TABLE, 0, message));
        }
    }
    findings
}

fn edges_past(rooms: &[Room], files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = nothing_checked(rooms, files);
    for (Room { package, may_use, .. }, file) in members(rooms, files) {
        for Dependency { name: other, line, .. } in dependencies(&file.text) {
            if find(rooms, &other).is_some() && !may_use.contains(&other.as_str()) {
                let message = format!("{package} may not depend on {other}: it may know {}", list(may_use));
                findings.push(Finding::new(&file.path, line, message));
            }
        }
    }
    findings
}

fn dependencies_past_the_lists(rooms: &[Room], files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let pure = members(rooms, files).filter_map(|(room, file)| Some((room.package, room.outside?, file)));
    let pure: Vec<_> = pure.collect();
    for (name, allowed, file) in &pure {
        for Dependency { name: other, kind, line, .. } in dependencies(&file.text) {
            let product = kind != Kind::Dev && find(rooms, &other).is_none();
            if product && !allowed.contains(&other.as_str()) {
                let message = format!("the pure room {name} may not depend on {other}: its list is {}", list(allowed));
                findings.push(Finding::new(&file.path, line, message));
            }
        }
    }
    if pure.is_empty() {
        findings.push(Finding::new("Cargo.toml", 0, "none of the pure rooms is here: nothing was checked"));
    }
    findings
}

fn nothing_checked(rooms: &[Room], files: &[SourceFile]) -> Vec<Finding> {
    if members(rooms, files).next().is_some() {
        return Vec::new();
    }
    vec![Finding::new("Cargo.toml", 0, "no crate found: nothing was checked")]
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::super::rooms::TOY;
    use super::*;

    fn manifest(name: &str, body: &str) -> SourceFile {
        file(&format!("{}/Cargo.toml", find(ROOMS, name).unwrap().path), body)
    }

    fn depends(name: &str, other: &str) -> Vec<SourceFile> {
        vec![manifest(name, &format!("[dependencies]\n{other}.workspace = true\n"))]
    }

    #[test]
    fn a_crate_may_look_down() {
        for (name, other) in [
            ("tobari-cli", "tobari-lattice"),
            ("tobari-infer", "tobari-plan"),
            ("tobari-sense", "tobari-device"),
            ("tobari-sense-edge", "tobari-sense-files"),
        ] {
            assert!(edges(&depends(name, other)).is_empty(), "{name} → {other}");
        }
    }

    #[test]
    fn a_crate_may_not_look_up_or_sideways() {
        for (name, other) in [
            ("tobari-lattice", "tobari-search"),
            ("tobari-search", "tobari-host"),
            ("tobari-search", "tobari-search-files"),
            ("tobari-search", "tobari-sense"),
            ("tobari-wasm", "tobari-host"),
            ("tobari-host", "tobari-node"),
            ("tobari-lattice", "tobari-device"),
            ("tobari-lattice", "xtask"),
        ] {
            assert_eq!(edges(&depends(name, other)).len(), 1, "{name} → {other}");
        }
    }

    #[test]
    fn the_leaves_do_not_know_one_another_even_in_tests() {
        let leaves = ["tobari-octets", "tobari-simd", "tobari-plan", "tobari-enclave", "tobari-device"];
        for (name, other) in leaves.iter().flat_map(|a| leaves.iter().map(move |b| (a, b))).filter(|(a, b)| a != b) {
            let body = format!("[dev-dependencies]\n{other} = {{ path = \"../{other}\" }}\n");
            assert_eq!(edges(&[manifest(name, &body)]).len(), 1, "{name} → {other}");
        }
    }

    #[test]
    fn a_renamed_dependency_is_seen_by_its_own_name() {
        let body = "[dependencies]\nhidden = { package = \"tobari-host\", path = \"../tobari-host\" }\n";
        assert_eq!(edges(&[manifest("tobari-search", body)]).len(), 1);
    }

    /// The workspace that the toy table describes.
    fn toy() -> Vec<SourceFile> {
        let root = "[workspace]\nmembers = [\"crates/*\", \"jobs/*/*\", \"cli\", \"xtask\"]\n";
        let manifest = |room: &Room| {
            file(&format!("{}/Cargo.toml", room.path), &format!("[package]\nname = \"{}\"\n", room.package))
        };
        [file("Cargo.toml", root)].into_iter().chain(TOY.iter().map(manifest)).collect()
    }

    fn places(findings: &[Finding]) -> Vec<&str> {
        findings.iter().map(|finding| &*finding.path).collect()
    }

    #[test]
    fn a_workspace_whose_packages_are_those_of_the_table_passes() {
        assert_eq!(mapped(TOY, &toy()), []);
        let mut files = toy();
        files.push(file("fuzz/Cargo.toml", "[package]\nname = \"fuzz\"\n[dependencies]\nhouse-core = \"1\"\n"));
        assert_eq!(mapped(TOY, &files), [], "fuzz is no package of the workspace");
    }

    #[test]
    fn a_crate_that_is_not_on_the_map_is_a_finding() {
        let mut files = toy();
        files.push(file("crates/extra/Cargo.toml", "[package]\nname = \"house-extra\"\n"));
        assert_eq!(places(&mapped(TOY, &files)), ["crates/extra/Cargo.toml"]);
        assert_eq!(
            edges(&[file("fuzz/Cargo.toml", "[dependencies]\ntobari-lattice = \"1\"\n")]).len(),
            1,
            "only: no crate"
        );
    }

    #[test]
    fn a_line_without_its_package_at_its_path_is_a_finding() {
        let without: Vec<SourceFile> = toy().into_iter().filter(|file| file.path != "cli/Cargo.toml").collect();
        assert_eq!(places(&mapped(TOY, &without)), [TABLE]);
        let mut moved = toy();
        moved[1].path = "crates/elsewhere/Cargo.toml".to_owned();
        assert_eq!(places(&mapped(TOY, &moved)), [TABLE]);
        let mut renamed = toy();
        renamed[1].text = "[package]\nname = \"house-heart\"\n".to_owned();
        assert_eq!(places(&mapped(TOY, &renamed)), ["crates/core/Cargo.toml", TABLE]);
        let mut no_member = toy();
        no_member[0].text = "[workspace]\nmembers = [\"crates/*\", \"jobs/*/*\", \"xtask\"]\n".to_owned();
        assert_eq!(places(&mapped(TOY, &no_member)), [TABLE]);
    }

    #[test]
    fn a_package_with_two_lines_is_a_finding() {
        let twice: Vec<Room> = TOY.iter().chain(&TOY[..1]).copied().collect();
        assert_eq!(places(&mapped(&twice, &toy())), ["crates/core/Cargo.toml"]);
    }

    #[test]
    fn rooms_are_known_by_their_packages_and_not_by_their_folders() {
        let depends = |path: &str, other: &str| {
            edges_past(TOY, &[file(path, &format!("[dependencies]\n{other}.workspace = true\n"))]).len()
        };
        assert_eq!(depends("jobs/sing/protocol/Cargo.toml", "house-core"), 0);
        assert_eq!(depends("jobs/sing/protocol/Cargo.toml", "house-machine"), 1);
        assert_eq!(depends("jobs/sing/protocol/Cargo.toml", "machine"), 0, "a package of others");
        assert_eq!(depends("crates/core/Cargo.toml", "chores"), 1);
    }

    #[test]
    fn a_pure_room_depends_on_the_short_list_only() {
        assert!(pure_dependencies(&depends("tobari-lattice", "zeroize")).is_empty());
        assert!(pure_dependencies(&depends("tobari-call", "tobari-curve")).is_empty());
        assert_eq!(pure_dependencies(&depends("tobari-lattice", "tokio")).len(), 1);
        assert_eq!(pure_dependencies(&depends("tobari-search", "getrandom")).len(), 1);
        let dev = manifest("tobari-lattice", "[dev-dependencies]\nnum-bigint = \"0.4\"\n");
        assert!(pure_dependencies(&[dev]).is_empty());
        let build = manifest("tobari-lattice", "[build-dependencies]\ncc = \"1\"\n");
        assert_eq!(pure_dependencies(&[build]).len(), 1);
    }

    #[test]
    fn a_crate_without_the_workspace_lints_is_a_finding() {
        assert!(lints(&[manifest("tobari-lattice", "[lints]\nworkspace = true\n")]).is_empty());
        assert_eq!(lints(&[manifest("tobari-lattice", "[package]\n")]).len(), 1);
    }
}
