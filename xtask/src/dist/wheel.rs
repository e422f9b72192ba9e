//! The Python package: one wheel for CPython 3.9 and later, and for every Linux with glibc 2.17 or
//! later.

use super::compile::Compilers;
use super::{Product, Target, names};
use crate::child::{output, pass};
use crate::layout::rooms;
use crate::python::PACKAGE;
use crate::steps::ensure_target;
use std::path::Path;
use std::process::Command;

/// The oldest C library: that of the oldest distribution that `pip` counts as manylinux2014.
const COMPATIBLE: &str = "manylinux2014";

/// The name and the bytes of the wheel.
///
/// # Errors
/// The failed command, or a path of this machine in the wheel.
pub(super) fn build(
    product: &Product,
    compilers: &Compilers,
    target: &Target,
    folder: &Path,
) -> Result<(String, Vec<u8>), String> {
    ensure_target(&product.root, target.shared)?;
    let wheels = folder.join("wheels");
    emptied(&wheels)?;
    let manifest = product.root.join(rooms::path(PACKAGE)?).join("Cargo.toml");
    let mut maturin = compilers.python.program("maturin");
    maturin.args(["build", "--quiet", "--locked", "--profile", "dist", "--zig", "--target", target.shared]);
    maturin.args(["--compatibility", COMPATIBLE, "--out"]).arg(&wheels).arg("--manifest-path").arg(manifest);
    compilers.reproducible(&mut maturin, []);
    maturin.env("SOURCE_DATE_EPOCH", product.time.to_string()).env("PATH", compilers.path());
    pass(&mut maturin)?;
    let found = std::fs::read_dir(&wheels).map_err(|error| format!("{}: {error}", wheels.display()))?;
    let found: Vec<_> = found.flatten().map(|entry| entry.path()).collect();
    let [wheel] = &found[..] else { return Err(format!("expected one wheel, found {}", found.len())) };
    let name = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let expected = format!("{}-{}-cp39-abi3-", names::PYTHON, product.version);
    if !name.starts_with(&expected) {
        return Err(format!("expected a wheel {expected}…, found {name}"));
    }
    named_nothing(compilers, wheel, &folder.join("wheel-files"))?;
    Ok((name, std::fs::read(wheel).map_err(|error| format!("{}: {error}", wheel.display()))?))
}

/// Checks every file of the wheel, which is compressed, for paths of this machine.
fn named_nothing(compilers: &Compilers, wheel: &Path, folder: &Path) -> Result<(), String> {
    emptied(folder)?;
    let mut unpack: Command = compilers.python.program("python");
    output(unpack.args(["-m", "zipfile", "-e"]).args([wheel, folder]))?;
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let found = std::fs::read_dir(&next).map_err(|error| format!("{}: {error}", next.display()))?;
        for path in found.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            compilers.names_nothing_here(&path.file_name().unwrap_or_default().to_string_lossy(), &bytes)?;
        }
    }
    Ok(())
}

/// Makes an empty folder.
pub(super) fn emptied(folder: &Path) -> Result<(), String> {
    let gone = if folder.exists() { std::fs::remove_dir_all(folder) } else { Ok(()) };
    gone.and_then(|()| std::fs::create_dir_all(folder)).map_err(|error| format!("{}: {error}", folder.display()))
}
