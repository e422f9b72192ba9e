//! The package for Debian and Ubuntu: the program, its pages, the unit for systemd, and the
//! settings.
//!
//! The unit makes the server's user and its folder (`DynamicUser`, `StateDirectory`), so the
//! package makes none. The server does not start on installation: its settings name a host first.
//! `purge` removes the settings, and everything that the server kept.

use super::pack::{Tree, ar, gzip};
use super::{Built, Product, Target, archive, names};

/// Where the archive's own examples run the program, and where the package has it.
const PATHS: (&str, &str) = ("/usr/local/bin/tobari", "/usr/bin/tobari");
const UNIT: &str = "usr/lib/systemd/system/tobari.service";
const SETTINGS: &str = "etc/tobari/tobari.toml";

const AFTER_INSTALLATION: &str = "\
#!/bin/sh
set -e
if [ \"$1\" = configure ] && [ -d /run/systemd/system ]; then
  systemctl --system daemon-reload
  # a server that runs continues with the new program; others stay stopped
  systemctl try-restart tobari.service || true
fi
";
const BEFORE_REMOVAL: &str = "\
#!/bin/sh
set -e
if [ \"$1\" = remove ] && [ -d /run/systemd/system ]; then
  systemctl --no-reload disable --now tobari.service
fi
";
const AFTER_REMOVAL: &str = "\
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
  systemctl --system daemon-reload
fi
if [ \"$1\" = purge ]; then
  rm -rf /var/lib/tobari /var/lib/private/tobari /etc/tobari
fi
";

/// The name and the bytes of the package.
///
/// # Errors
/// A missing file of the repository.
pub(super) fn pack(product: &Product, built: &Built, target: &Target) -> Result<(String, Vec<u8>), String> {
    let io = |error: std::io::Error| error.to_string();
    let files = files(product, built)?;
    let control = control(product, &files, target);
    let packed = [control.tar_gz("", product.time).map_err(io)?, files.tar_gz("", product.time).map_err(io)?];
    let members = [("debian-binary", &b"2.0\n"[..]), ("control.tar.gz", &packed[0]), ("data.tar.gz", &packed[1])];
    let name = format!("{}_{}_{}.deb", names::DEBIAN, product.version, target.debian);
    Ok((name, ar(&members, product.time)))
}

/// The installed files.
fn files(product: &Product, built: &Built) -> Result<Tree, String> {
    let mut tree = Tree::default();
    let documents = format!("usr/share/doc/{}", names::DEBIAN);
    for (path, bytes) in archive::pack(product, built)?.files() {
        let name = path.rsplit('/').next().unwrap_or(path);
        if path.starts_with("bin/") {
            tree.program(format!("usr/{path}"), bytes);
        } else if path.starts_with("share/man/") {
            tree.file(format!("usr/{path}.gz"), gzip(bytes).map_err(|error| error.to_string())?);
        } else if let Some(shells) = path.strip_prefix("share/zsh/site-functions/") {
            // Debian's zsh looks here
            tree.file(format!("usr/share/zsh/vendor-completions/{shells}"), bytes);
        } else if !path.contains("/examples/") && !name.starts_with("LICENSE-") {
            tree.file(format!("usr/{path}"), bytes);
        }
    }
    let unit = product.text("deploy/systemd/tobari.service")?;
    // the first comment tells how to install the unit by hand
    let unit = unit.split_once("\n[Unit]").map_or(unit.as_str(), |(_, rest)| rest);
    tree.file(UNIT, format!("[Unit]{}", unit.replace(PATHS.0, PATHS.1)));
    tree.file(SETTINGS, product.read("deploy/tobari.toml")?);
    let changes = gzip(&product.read("CHANGELOG.md")?).map_err(|error| error.to_string())?;
    tree.file(format!("{documents}/changelog.gz"), changes);
    tree.file(format!("{documents}/copyright"), copyright(product)?);
    Ok(tree)
}

/// The licences, in Debian's form.
fn copyright(product: &Product) -> Result<String, String> {
    let mit = product.text("LICENSE-MIT")?;
    let holder = mit.lines().find_map(|line| line.strip_prefix("Copyright (c) "));
    let holder = holder.ok_or("LICENSE-MIT: expected a line `Copyright (c) …`, found none")?;
    let conditions = &mit[mit.find("Permission is").unwrap_or_default()..];
    let indented = |line: &str| if line.is_empty() { " .\n".to_owned() } else { format!(" {line}\n") };
    let conditions: String = conditions.trim_end().lines().map(indented).collect();
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: Tobari\nComment: \
         sbom.cdx.json lists the linked packages with their licences.\n\nFiles: *\nCopyright: {holder}\nLicense: Apache-2.0 or \
         Expat\n\nLicense: Apache-2.0\n On Debian systems, /usr/share/common-licenses/Apache-2.0 has the whole text.\n\nLicense: \
         Expat\n{conditions}"
    ))
}

/// The package's description and its scripts.
fn control(product: &Product, files: &Tree, target: &Target) -> Tree {
    let mut tree = Tree::default();
    tree.file("control", fields(product, files, target));
    tree.file("conffiles", format!("/{SETTINGS}\n"));
    for (name, script) in [("postinst", AFTER_INSTALLATION), ("prerm", BEFORE_REMOVAL), ("postrm", AFTER_REMOVAL)] {
        tree.program(name, script);
    }
    tree
}

fn fields(product: &Product, files: &Tree, target: &Target) -> String {
    format!(
        "Package: {}\nVersion: {}\nArchitecture: {}\nMaintainer: {}\nInstalled-Size: {}\nRecommends: ca-certificates\nSection: \
         net\nPriority: optional\nDescription: compute on data that the server cannot read\n Tobari lets a server compute on \
         encrypted data: it mixes calls, searches\n tables, classifies images and adds up sensor readings. Only clients have keys.\n \
         .\n This package has the command and the unit of the server, which starts after\n \"systemctl enable --now tobari\". It is \
         research software, which nobody\n outside the project has reviewed.\n",
        names::DEBIAN,
        product.version,
        target.debian,
        names::MAINTAINER,
        files.size().div_ceil(1024),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::TARGETS;
    use std::path::Path;
    use std::process::Command;

    fn product() -> Product {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        Product { root: root.to_owned(), version: "0.9.0".to_owned(), time: 1_000_000_000 }
    }

    fn built() -> Built {
        let mut share = Tree::default();
        share.file("man/man1/tobari.1", "a page");
        share.file("zsh/site-functions/_tobari", "completions");
        Built { program: b"\x7fELF".to_vec(), bill: "{}".to_owned(), share }
    }

    #[test]
    fn the_package_has_the_unit_with_its_program_and_the_settings() {
        let files = files(&product(), &built()).unwrap();
        let text = |path: &str| {
            let (_, bytes) = files.files().find(|(found, _)| *found == path).unwrap_or_else(|| panic!("{path}"));
            String::from_utf8_lossy(bytes).into_owned()
        };
        let unit = text(UNIT);
        assert!(
            unit.starts_with("[Unit]\nDescription=") && unit.contains("\nExecStart=/usr/bin/tobari serve "),
            "{unit}"
        );
        assert!(!unit.contains("/usr/local"), "{unit}");
        assert!(text(SETTINGS).contains("[serve]"));
        let copyright = text("usr/share/doc/tobari/copyright");
        assert!(copyright.contains("\nLicense: Expat\n Permission is hereby granted"), "{copyright}");
        text("usr/share/man/man1/tobari.1.gz");
        text("usr/share/zsh/vendor-completions/_tobari");
    }

    #[test]
    fn dpkg_reads_the_package_and_its_fields() {
        let (name, bytes) = pack(&product(), &built(), &TARGETS[1]).unwrap();
        assert_eq!(name, "tobari_0.9.0_arm64.deb");
        assert_eq!(pack(&product(), &built(), &TARGETS[1]).unwrap().1, bytes);
        let path = std::env::temp_dir().join(format!("xtask-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        let fields = Command::new("dpkg-deb").arg("--field").arg(&path).output();
        let contents = Command::new("dpkg-deb").arg("--contents").arg(&path).output();
        std::fs::remove_file(&path).unwrap();
        let (Ok(fields), Ok(contents)) = (fields, contents) else { return println!("NOT RUN: no dpkg-deb") };
        let text = |output: &std::process::Output| String::from_utf8_lossy(&output.stdout).into_owned();
        for line in ["Package: tobari", "Version: 0.9.0", "Architecture: arm64", "Section: net", "Priority: optional"] {
            assert!(text(&fields).lines().any(|found| found == line), "{line}: {}", text(&fields));
        }
        let listed = text(&contents);
        let line = listed.lines().find(|line| line.ends_with(" usr/bin/tobari")).unwrap_or_else(|| panic!("{listed}"));
        assert!(line.starts_with("-rwxr-xr-x 0/0 "), "{line}");
    }
}
