//! Programs that some tests need, from the distribution's packages: brokers, proxies, and a tracer
//! of system calls.
//!
//! A package with a server starts the server on installation, which is not wanted for tests. So
//! these packages are not installed: they and their libraries are unpacked in the target folder,
//! and the tests start the programs from there. If that is impossible, the tests print NOT RUN.

use crate::child::pass;
use crate::tools::{may_install, on_path};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Programs, and their Debian packages.
const COMPANIONS: [(&str, &str); 5] = [
    ("caddy", "caddy"),
    ("mosquitto", "mosquitto"),
    ("nats-server", "nats-server"),
    ("nginx", "nginx"),
    ("strace", "strace"),
];
const PLACES: [&str; 3] = ["usr/sbin", "usr/bin", "sbin"];

/// The `PATH` for tests, with the available programs.
pub(crate) fn path(target: &Path) -> OsString {
    let folder = target.join("companions");
    let missing: Vec<(&str, &str)> = COMPANIONS.into_iter().filter(|(program, _)| on_path(program).is_none()).collect();
    let mut updated = false;
    for (program, package) in missing.iter().filter(|(program, _)| !folder.join("bin").join(program).exists()) {
        if let Err(why) = bring(&folder, program, package, &mut updated) {
            println!("  {program} cannot be had: {why}");
        }
    }
    let before = std::env::var_os("PATH").unwrap_or_default();
    // last: the machine's own programs have precedence
    let all = std::env::split_paths(&before).chain([folder.join("bin")]);
    std::env::join_paths(all).unwrap_or(before)
}

fn bring(folder: &Path, program: &str, package: &str, updated: &mut bool) -> Result<(), String> {
    let io = |error: std::io::Error| error.to_string();
    let bin = folder.join("bin");
    std::fs::create_dir_all(&bin).map_err(io)?;
    let root = unpack(folder, package, &[package], updated)?;
    let found = PLACES.iter().map(|place| root.join(place).join(program)).find(|file| file.is_file());
    let found = found.ok_or_else(|| format!("the package {package} does not contain it"))?;
    starts(&found, &root)?;
    wrap(&bin.join(program), &found, &root, "").map_err(io)
}

/// Downloads packages of the distribution with their missing dependencies, and unpacks them;
/// returns the folder.
///
/// # Errors
/// The reason why that is impossible here.
pub(crate) fn unpack(folder: &Path, name: &str, packages: &[&str], updated: &mut bool) -> Result<PathBuf, String> {
    if !may_install() {
        return Err(format!("not root on Debian (apt-get install {})", packages.join(" ")));
    }
    let io = |error: std::io::Error| error.to_string();
    let (archives, root) = (folder.join("archives").join(name), folder.join("root").join(name));
    for made in [&archives.join("partial"), &root] {
        std::fs::create_dir_all(made).map_err(io)?;
    }
    let apt = || {
        let mut apt = Command::new("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive");
        apt
    };
    if !std::mem::replace(updated, true) {
        pass(apt().args(["update", "--quiet"]))?;
    }
    let place = format!("Dir::Cache::archives={}", archives.display());
    let words = ["install", "--download-only", "--yes", "--quiet", "--no-install-recommends", "-o", &place];
    pass(apt().args(words).args(packages))?;
    for archive in std::fs::read_dir(&archives).map_err(io)?.flatten().map(|entry| entry.path()) {
        if archive.extension().is_some_and(|end| end == "deb") {
            pass(Command::new("dpkg-deb").arg("--extract").arg(&archive).arg(&root))?;
        }
    }
    Ok(root)
}

/// The folder of the package's libraries.
fn libraries(root: &Path) -> PathBuf {
    root.join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH))
}

/// Checks that an unpacked program finds its libraries: if not, the dynamic linker exits with 127.
fn starts(program: &Path, root: &Path) -> Result<(), String> {
    let mut command = Command::new(program);
    command.arg("-h").env("LD_LIBRARY_PATH", libraries(root));
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    match status.map_err(|error| error.to_string())?.code() {
        Some(126 | 127) | None => Err("what the package contains does not start here".to_owned()),
        Some(_) => Ok(()),
    }
}

/// Writes, atomically, a script that runs a program with its libraries. The script puts `first`
/// before its own arguments.
pub(crate) fn wrap(at: &Path, program: &Path, root: &Path, first: &str) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let (libraries, program) = (libraries(root).display().to_string(), program.display());
    let text = format!("#!/bin/sh\nLD_LIBRARY_PATH='{libraries}' exec '{program}' {first} \"$@\"\n");
    let draft = at.with_extension("draft");
    std::fs::write(&draft, text)?;
    std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o755))?;
    std::fs::rename(&draft, at)
}
