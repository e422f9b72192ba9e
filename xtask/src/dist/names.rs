//! The names under which the product is packed, all in this place.
//!
//! The command is `tobari` everywhere. A registry may have another package of that name, so a
//! package can have another name than the command. Looked up on 2026-11-30: `tobari` is another
//! project's package on the Rust registry; `tobari` on the Python index and on npm, and
//! `tobari-cli` on the Rust registry, are free.

/// The command, and the first word of the files of an artefact.
pub(super) const COMMAND: &str = "tobari";
/// The package of the command in the workspace, and on the Rust registry.
pub(super) const CRATE: &str = "tobari-cli";
/// The Debian package.
pub(super) const DEBIAN: &str = "tobari";
/// The Python package, as `python/pyproject.toml` has it; the module has the same name.
pub(super) const PYTHON: &str = "tobari";
/// The npm package of the browser's clients.
pub(super) const NPM: &str = "tobari-client";
/// The container image, without a registry.
pub(super) const IMAGE: &str = "tobari";
/// The maintainer of packages that must have one.
pub(super) const MAINTAINER: &str = "The Tobari project <security@tobari.invalid>";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::string;
    use std::path::Path;

    #[test]
    fn the_manifests_have_these_names() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let has = |file: &str, line: &str| {
            let text = std::fs::read_to_string(root.join(file)).unwrap();
            assert!(text.lines().any(|found| found == line), "{file}: {line}");
        };
        has("cli/Cargo.toml", &format!("name = {}", string(CRATE)));
        has("cli/Cargo.toml", &format!("name = {}", string(COMMAND)));
        has("python/pyproject.toml", &format!("name = {}", string(PYTHON)));
    }
}
