//! Which crate may know which: the map of ARCHITECTURE.md as a table.

use super::manifest::{Dependency, Kind, dependencies, takes_workspace_lints};
use super::purity::PURE_ROOMS;
use super::{Finding, SourceFile};

/// Every crate, with the crates of the workspace it may depend on (for its tests too). Each may reach down past its
/// neighbour; none may reach up or sideways. The leaves are those with an empty list.
const EDGES: &[(&str, &[&str])] = &[
    ("tobari-octets", &[]),
    ("tobari-core", &[]),
    ("tobari-plan", &[]),
    ("tobari-enclave", &[]),
    ("tobari-device", &[]),
    ("tobari-group", &[]),
    (
        "tobari-apps",
        &["tobari-octets", "tobari-core", "tobari-plan", "tobari-enclave", "tobari-device", "tobari-group"],
    ),
    ("tobari-host", &["tobari-apps", "tobari-core", "tobari-plan", "tobari-enclave", "tobari-device"]),
    (
        "tobari-server",
        &[
            "tobari-octets",
            "tobari-host",
            "tobari-apps",
            "tobari-core",
            "tobari-plan",
            "tobari-enclave",
            "tobari-device",
        ],
    ),
    (
        "tobari-cli",
        &[
            "tobari-server",
            "tobari-octets",
            "tobari-host",
            "tobari-apps",
            "tobari-core",
            "tobari-plan",
            "tobari-enclave",
            "tobari-device",
        ],
    ),
    ("tobari-wasm", &["tobari-octets", "tobari-apps", "tobari-core", "tobari-device"]),
    (
        "tobari-py",
        &[
            "tobari-octets",
            "tobari-host",
            "tobari-apps",
            "tobari-core",
            "tobari-plan",
            "tobari-enclave",
            "tobari-device",
        ],
    ),
    ("xtask", &[]),
];

/// What the product code of a pure room may depend on outside the workspace: arithmetic, hygiene, errors and text,
/// nothing that can reach the machine.
const PURE_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("tobari-octets", &["sha2"]),
    ("tobari-core", &["aes", "chacha20", "rand_core", "subtle", "thiserror", "zeroize"]),
    ("tobari-plan", &["serde", "thiserror"]),
    (
        "tobari-enclave",
        &[
            "chacha20poly1305",
            "ed25519-dalek",
            "hkdf",
            "hpke",
            "p256",
            "p384",
            "rand_core",
            "sha2",
            "thiserror",
            "zeroize",
        ],
    ),
    (
        "tobari-apps",
        &[
            "aes-gcm",
            "argon2",
            "bytes",
            "chacha20",
            "curve25519-dalek",
            "ed25519-dalek",
            "hkdf",
            "hmac",
            "ml-kem",
            "rand_core",
            "serde",
            "serde_json",
            "sha2",
            "subtle",
            "thiserror",
            "zeroize",
        ],
    ),
    ("tobari-device", &["aes-gcm", "chacha20", "hmac", "sha2", "subtle", "zeroize"]),
    (
        "tobari-group",
        &[
            "chacha20",
            "ed25519-dalek",
            "mls-rs",
            "mls-rs-core",
            "mls-rs-crypto-hpke",
            "mls-rs-crypto-rustcrypto",
            "mls-rs-crypto-traits",
            "rand_core",
            "sha2",
            "thiserror",
            "zeroize",
        ],
    ),
];

/// Finds every dependency between crates that is not in the table, and every crate that the table does not know.
pub(crate) fn edges(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = unknown_or_none(files);
    for (name, file) in members(files) {
        let Some(allowed) = lookup(EDGES, name) else { continue };
        for Dependency { name: other, line, .. } in dependencies(&file.text) {
            let inside = other.starts_with("tobari") || other == "xtask";
            if inside && !allowed.contains(&other.as_str()) {
                let message = format!("{name} may not depend on {other}: it may know {}", list(allowed));
                findings.push(Finding::new(&file.path, line, message));
            }
        }
    }
    findings
}

/// Finds every dependency of a pure room's product code that is not on its short list.
pub(crate) fn pure_dependencies(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen = 0;
    for (name, file) in members(files).filter(|(name, _)| PURE_ROOMS.contains(name)) {
        seen += 1;
        let allowed = lookup(PURE_DEPENDENCIES, name).unwrap_or_default();
        for Dependency { name: other, kind, line } in dependencies(&file.text) {
            let product = kind != Kind::Dev && !other.starts_with("tobari");
            if product && !allowed.contains(&other.as_str()) {
                let message = format!("the pure room {name} may not depend on {other}: its list is {}", list(allowed));
                findings.push(Finding::new(&file.path, line, message));
            }
        }
    }
    if seen == 0 {
        findings.push(Finding::new("crates", 0, "none of the pure rooms is here: nothing was checked"));
    }
    findings
}

/// Finds every crate that does not take the workspace's lints.
pub(crate) fn lints(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = unknown_or_none(files);
    findings.retain(|finding| finding.path == "crates");
    for (name, file) in members(files) {
        if !takes_workspace_lints(&file.text) {
            findings.push(Finding::new(&file.path, 1, format!("{name} lacks `[lints] workspace = true`")));
        }
    }
    findings
}

/// Every crate of the workspace: the name of its folder, and its manifest.
fn members(files: &[SourceFile]) -> impl Iterator<Item = (&str, &SourceFile)> {
    files.iter().filter_map(|file| {
        let folder = file.path.strip_suffix("/Cargo.toml")?;
        let name = folder.strip_prefix("crates/").or_else(|| (folder == "xtask").then_some(folder))?;
        (!name.contains('/')).then_some((name, file))
    })
}

fn unknown_or_none(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = members(files)
        .filter(|(name, _)| lookup(EDGES, name).is_none())
        .map(|(name, file)| Finding::new(&file.path, 1, format!("{name} is not on the map: give it a line in EDGES")))
        .collect();
    if members(files).next().is_none() {
        findings.push(Finding::new("crates", 0, "no crate found: nothing was checked"));
    }
    findings
}

fn lookup(table: &'static [(&'static str, &'static [&'static str])], name: &str) -> Option<&'static [&'static str]> {
    table.iter().find(|row| row.0 == name).map(|row| row.1)
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn manifest(name: &str, body: &str) -> SourceFile {
        file(&format!("crates/{name}/Cargo.toml"), body)
    }

    fn depends(name: &str, other: &str) -> Vec<SourceFile> {
        vec![manifest(name, &format!("[dependencies]\n{other}.workspace = true\n"))]
    }

    #[test]
    fn a_crate_may_look_down() {
        for (name, other) in
            [("tobari-cli", "tobari-core"), ("tobari-apps", "tobari-plan"), ("tobari-apps", "tobari-device")]
        {
            assert!(edges(&depends(name, other)).is_empty(), "{name} → {other}");
        }
    }

    #[test]
    fn a_crate_may_not_look_up_or_sideways() {
        for (name, other) in [
            ("tobari-core", "tobari-apps"),
            ("tobari-apps", "tobari-host"),
            ("tobari-wasm", "tobari-host"),
            ("tobari-host", "tobari-server"),
            ("tobari-core", "tobari-device"),
            ("tobari-core", "xtask"),
        ] {
            assert_eq!(edges(&depends(name, other)).len(), 1, "{name} → {other}");
        }
    }

    #[test]
    fn the_leaves_do_not_know_one_another_even_in_tests() {
        let leaves = ["tobari-core", "tobari-plan", "tobari-enclave", "tobari-device"];
        for (name, other) in leaves.iter().flat_map(|a| leaves.iter().map(move |b| (a, b))).filter(|(a, b)| a != b) {
            let body = format!("[dev-dependencies]\n{other} = {{ path = \"../{other}\" }}\n");
            assert_eq!(edges(&[manifest(name, &body)]).len(), 1, "{name} → {other}");
        }
    }

    #[test]
    fn a_renamed_dependency_is_seen_by_its_own_name() {
        let body = "[dependencies]\nhidden = { package = \"tobari-host\", path = \"../tobari-host\" }\n";
        assert_eq!(edges(&[manifest("tobari-apps", body)]).len(), 1);
    }

    #[test]
    fn a_crate_that_is_not_on_the_map_is_a_finding() {
        assert_eq!(edges(&[manifest("tobari-extra", "[package]\n")]).len(), 1);
        assert_eq!(
            edges(&[file("fuzz/Cargo.toml", "[dependencies]\ntobari-core = \"1\"\n")]).len(),
            1,
            "only: no crate"
        );
    }

    #[test]
    fn every_pure_room_has_both_its_lines() {
        for room in PURE_ROOMS {
            assert!(lookup(EDGES, room).is_some() && lookup(PURE_DEPENDENCIES, room).is_some(), "{room}");
        }
    }

    #[test]
    fn a_pure_room_depends_on_the_short_list_only() {
        assert!(pure_dependencies(&depends("tobari-core", "zeroize")).is_empty());
        assert!(pure_dependencies(&depends("tobari-apps", "tobari-core")).is_empty());
        assert_eq!(pure_dependencies(&depends("tobari-core", "tokio")).len(), 1);
        assert_eq!(pure_dependencies(&depends("tobari-apps", "getrandom")).len(), 1);
        let dev = manifest("tobari-core", "[dev-dependencies]\nnum-bigint = \"0.4\"\n");
        assert!(pure_dependencies(&[dev]).is_empty());
        let build = manifest("tobari-core", "[build-dependencies]\ncc = \"1\"\n");
        assert_eq!(pure_dependencies(&[build]).len(), 1);
    }

    #[test]
    fn a_crate_without_the_workspace_lints_is_a_finding() {
        assert!(lints(&[manifest("tobari-core", "[lints]\nworkspace = true\n")]).is_empty());
        assert_eq!(lints(&[manifest("tobari-core", "[package]\n")]).len(), 1);
    }
}
