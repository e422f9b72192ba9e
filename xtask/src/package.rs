//! The step `package`: the libraries as a registry would get them.
//!
//! They are packed and unpacked in another folder. There an example runs, and the documentation
//! builds without a warning, from the unpacked files alone.

use crate::child::{cargo, pass, target_folder};
use crate::summary::{Outcome, outcome};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The libraries that are published, each after those that it needs.
const LIBRARIES: [&str; 4] = ["tobari-octets", "tobari-simd", "tobari-lattice", "tobari-curve"];

/// Packs, unpacks, runs and documents.
pub(crate) fn step(root: &Path) -> Outcome {
    outcome(check(root, &target_folder(root)))
}

fn check(root: &Path, target: &Path) -> Result<(), String> {
    let mut pack = cargo(root);
    pack.args(["package", "--quiet", "--locked", "--no-verify", "--allow-dirty"]).env("CARGO_TARGET_DIR", target);
    LIBRARIES.iter().for_each(|name| _ = pack.args(["--package", name]));
    pass(&mut pack)?;

    // outside of the workspace, which would take them for packages of its own
    let folder = std::env::temp_dir().join(format!("tobari-packages-{}", std::process::id()));
    let done = in_folder(&folder, target);
    _ = std::fs::remove_dir_all(&folder);
    done
}

fn in_folder(folder: &Path, target: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    for name in LIBRARIES {
        let archive = packed(target, name)?;
        pass(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(folder))?;
    }
    let unpacked = |name: &str| folder.join(format!("{name}-{}", env!("CARGO_PKG_VERSION")));
    let inside = |name: &str, words: &[&str]| {
        let mut command = cargo(&unpacked(name));
        command.args(words).env("CARGO_TARGET_DIR", target.join("packages"));
        // the registry has none of them yet
        for other in LIBRARIES.into_iter().filter(|other| *other != name) {
            command.arg("--config").arg(format!("patch.crates-io.{other}.path={:?}", unpacked(other)));
        }
        command.env("RUSTDOCFLAGS", "--deny warnings");
        pass(&mut command)
    };
    for (name, example) in [("tobari-lattice", "1_encrypt"), ("tobari-curve", "sum")] {
        inside(name, &["run", "--quiet", "--example", example])?;
    }
    ["tobari-lattice", "tobari-curve"].iter().try_for_each(|name| inside(name, &["doc", "--quiet", "--no-deps"]))
}

/// The archive of a library, of this version.
fn packed(target: &Path, name: &str) -> Result<PathBuf, String> {
    let archive = target.join("package").join(format!("{name}-{}.crate", env!("CARGO_PKG_VERSION")));
    if archive.is_file() { Ok(archive) } else { Err(format!("expected {}, found no such file", archive.display())) }
}
