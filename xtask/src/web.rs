//! The browser's clients. The package `tobari-wasm` is built into `web/dist`, which is committed,
//! with a module for each feature of the crate.
//!
//! `cargo run` embeds the committed files and needs no further tool. This step builds the modules
//! again and compares every byte, so that the served modules match the source. The result must be
//! the same on every machine, so the machine's paths are mapped to fixed ones.

use crate::child::{cargo, pass, target_folder};
use crate::steps::ensure_target;
use crate::summary::Outcome;
use crate::tools::on_path;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "wasm32-unknown-unknown";
/// A feature of the crate, and its module.
const MODULES: [(&str, &str); 4] = [
    ("call", "web/dist/tobari.wasm"),
    ("mls", "web/dist/tobari-mls.wasm"),
    ("ask", "web/dist/ask.wasm"),
    ("sense", "web/dist/sense.wasm"),
];
/// The platform of the compiler affects its output: on other platforms the bytes differ.
const HOST: &str = "x86_64-unknown-linux-gnu";

/// Builds the module of a feature; returns its path.
fn build(root: &Path, feature: &str) -> Result<PathBuf, String> {
    ensure_target(root, TARGET)?;
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    let home = home.ok_or("neither CARGO_HOME nor a home directory is known")?;
    let target = target_folder(root).join("web");
    let flags = [
        "-Ctarget-feature=+simd128".to_owned(),
        format!("--remap-path-prefix={}=tobari", root.display()),
        format!("--remap-path-prefix={}=cargo", home.display()),
    ];
    let mut command = cargo(root);
    command.args(["build", "--locked", "--profile", "web", "--package", "tobari-wasm", "--lib", "--target", TARGET]);
    command.args(["--no-default-features", "--features", feature]);
    command.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", root.join("xtask/link-web.sh"));
    // the caller's flags would change the bytes
    command.env_remove("RUSTFLAGS").env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f")).env("CARGO_TARGET_DIR", &target);
    pass(&mut command)?;
    Ok(target.join(TARGET).join("web/tobari_wasm.wasm"))
}

/// `cargo xtask web`: builds the modules, and copies them to the folder of embedded files.
pub(crate) fn renew(root: &Path) -> Result<(), String> {
    for (feature, committed) in MODULES {
        let built = build(root, feature)?;
        let bytes = std::fs::copy(&built, root.join(committed)).map_err(|error| format!("{committed}: {error}"))?;
        println!("{committed}: {bytes} bytes; commit it with the change that made it");
    }
    Ok(())
}

/// The step `web`: checks that the committed modules match the source, and tests them.
pub(crate) fn step(root: &Path) -> Outcome {
    match check(root) {
        Ok(None) => Outcome::Passed,
        Ok(Some(why)) => Outcome::NotRun(why),
        Err(why) => Outcome::Failed(why),
    }
}

fn check(root: &Path) -> Result<Option<String>, String> {
    let host = host(root)?;
    if host != HOST {
        return Ok(Some(format!("bytes are compared on {HOST}; this is {host}")));
    }
    let read = |path: &Path| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    for (feature, committed) in MODULES {
        let built = build(root, feature)?; // the next build replaces it
        compare(committed, &read(&root.join(committed))?, &read(&built)?)?;
    }
    let Some(node) = on_path("node") else {
        return Ok(Some("the bytes are the same; node is not on PATH to look further".to_owned()));
    };
    for look in ["web/test/client.mjs", "web/test/page.mjs", "web/test/vcf.mjs"] {
        pass(Command::new(&node).current_dir(root).arg(look))?;
    }
    Ok(None)
}

fn compare(name: &str, committed: &[u8], built: &[u8]) -> Result<(), String> {
    if committed == built {
        return Ok(());
    }
    let place = committed.iter().zip(built).take_while(|(a, b)| a == b).count();
    Err(format!(
        "{name} is not what the source makes: expected {} bytes, found {} that differ from byte {place} on; `cargo xtask web` renews it",
        built.len(),
        committed.len()
    ))
}

/// The compiler's name of its platform.
fn host(root: &Path) -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output =
        Command::new(rustc).arg("-vV").current_dir(root).output().map_err(|error| format!("rustc: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_owned).ok_or_else(|| "expected `host:` from rustc -vV, found none".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_more_less_or_other_is_told_with_its_place() {
        assert_eq!(compare("m", b"abc", b"abc"), Ok(()));
        for (committed, place) in [(&b"abd"[..], 2), (b"ab", 2), (b"abcd", 3), (b"", 0)] {
            let error = compare("m", committed, b"abc").unwrap_err();
            assert!(error.contains(&format!("from byte {place} on")) && error.contains("cargo xtask web"), "{error}");
        }
    }
}
