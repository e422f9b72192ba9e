//! Programs with the same bytes from every builder: one compiler for each language, no path of the
//! builder's machine, and nothing of the builder's C library.
//!
//! - Rust: the release of `rust-toolchain.toml`, its linker `rust-lld`, and its own copy of musl.
//! - C (the package `ring` has some): clang, from the pinned wheel of Zig. One file to install, for
//!   both processors.
//!
//! Every folder of the machine that a compiler sees has a fixed name in the program. The build ends
//! with a search for the machine's names in the program.

use super::pack::sha256;
use super::{Target, names};
use crate::child::{cargo, output, pass};
use crate::python::Environment;
use crate::steps::ensure_target;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The features of the artefacts.
pub(super) const FEATURES: &str = "full";
/// Where every option of a build must be the same: a caller's flags would change the bytes.
const CALLERS: [&str; 4] = ["RUSTFLAGS", "CFLAGS", "CARGO_BUILD_RUSTFLAGS", "CARGO_PROFILE_DIST_STRIP"];

/// C code may hold the time of its compilation, and some does.
const NO_TIME: &str = r#"-Wno-builtin-macro-redefined '-D__DATE__="none"' '-D__TIME__="none"'"#;

/// Macros that embed files also embed the times of the files, unless this is set. The value is the
/// same for every commit, because cargo compiles nothing again when the value changes.
const NO_DATE: &str = "0";

/// The compilers, and the folder in which cargo builds.
pub(super) struct Compilers {
    pub(super) python: Environment,
    root: PathBuf,
    /// Where cargo builds.
    folder: PathBuf,
    /// Scripts that start clang.
    scripts: PathBuf,
    /// Folders of this machine, and their names in a program; later ones have precedence.
    names: Vec<(PathBuf, String)>,
    /// rustc's folder.
    sysroot: PathBuf,
}

impl Compilers {
    /// Installs what is missing into the build folder.
    ///
    /// # Errors
    /// The failed command, or an unknown home folder.
    pub(super) fn provide(root: &Path, dist: &Path) -> Result<Self, String> {
        let python = Environment::provide(root, "dist-python", &["requirements-dist.txt"])?;
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
        let home = home.ok_or("neither CARGO_HOME nor a home directory is known")?;
        let rustc = |words: &[&str]| output(Command::new("rustc").args(words).current_dir(root));
        let sysroot = PathBuf::from(rustc(&["--print", "sysroot"])?.trim());
        let told = rustc(&["-vV"])?;
        let commit = told.lines().find_map(|line| line.strip_prefix("commit-hash: "));
        let commit = commit.ok_or("rustc -vV: expected `commit-hash:`, found none")?;
        let folder = dist.join("build");
        // so that the folders of the registries are there when they get their names
        pass(cargo(root).args(["fetch", "--locked"]))?;
        let mut names = vec![(root.to_owned(), "/tobari".to_owned()), (home.clone(), "/cargo".to_owned())];
        // the folder of a registry has the registry's address in its name, and a mirror has another
        let mut registries: Vec<PathBuf> = std::fs::read_dir(home.join("registry/src"))
            .map(|found| found.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default();
        registries.sort();
        names.extend(registries.into_iter().map(|registry| (registry, "/cargo".to_owned())));
        names.push((sysroot.join("lib/rustlib/src/rust"), format!("/rustc/{commit}")));
        names.push((folder.clone(), "/target".to_owned()));
        Ok(Self { python, root: root.to_owned(), folder, scripts: dist.join("tools"), names, sysroot })
    }

    /// Builds the program for a target; returns its bytes.
    ///
    /// # Errors
    /// The failed command, or a path of this machine in the program.
    pub(super) fn program(&self, target: &Target) -> Result<Vec<u8>, String> {
        ensure_target(&self.root, target.triple)?;
        let clang = self.clang(target)?;
        let mut build = cargo(&self.root);
        build.args(["build", "--locked", "--profile", "dist", "--target", target.triple]);
        build.args(["--package", names::CRATE, "--features", FEATURES]);
        let linker = ["-Clinker=rust-lld", "-Clinker-flavor=ld.lld", "-Clink-self-contained=yes"];
        let flags = linker.into_iter().chain(["-Ctarget-feature=+crt-static"]);
        self.reproducible(&mut build, flags);
        let triple = target.triple.replace('-', "_");
        build.env(format!("CC_{triple}"), clang).env(format!("AR_{triple}"), self.script("ar", "ar")?);
        pass(&mut build)?;
        let program = self.folder.join(target.triple).join("dist").join(names::COMMAND);
        let bytes = std::fs::read(&program).map_err(|error| format!("{}: {error}", program.display()))?;
        self.names_nothing_here(names::COMMAND, &bytes)?;
        Ok(bytes)
    }

    /// Sets the environment of a build whose bytes depend on the sources alone.
    pub(super) fn reproducible<'a>(&self, build: &mut Command, more: impl IntoIterator<Item = &'a str>) {
        let remap = |(from, to): &(PathBuf, String)| format!("--remap-path-prefix={}={to}", from.display());
        let flags: Vec<String> = self.names.iter().map(remap).chain(more.into_iter().map(str::to_owned)).collect();
        CALLERS.iter().for_each(|name| _ = build.env_remove(name));
        build.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f")).env("CARGO_TARGET_DIR", &self.folder);
        build.env("CARGO_INCREMENTAL", "0").env("SOURCE_DATE_EPOCH", NO_DATE);
    }

    /// Removes symbols from a program, and puts data into it, in a section of this name.
    ///
    /// # Errors
    /// The failed command.
    pub(super) fn embed(&self, program: &[u8], section: &str, data: &[u8]) -> Result<Vec<u8>, String> {
        let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let objcopy = self.sysroot.join("lib/rustlib").join(host).join("bin/rust-objcopy");
        let at = |name: &str| self.scripts.join(name);
        let (from, to, file) = (at("plain"), at("with-data"), at("data"));
        std::fs::create_dir_all(&self.scripts).map_err(|error| format!("{}: {error}", self.scripts.display()))?;
        let io = |error: std::io::Error| format!("{}: {error}", self.scripts.display());
        std::fs::write(&from, program).and_then(|()| std::fs::write(&file, data)).map_err(io)?;
        let mut copy = Command::new(objcopy);
        copy.env("LD_LIBRARY_PATH", self.sysroot.join("lib"))
            .arg("--strip-all")
            .arg(format!("--add-section={section}={}", file.display()))
            .args([&from, &to]);
        output(&mut copy)?;
        std::fs::read(&to).map_err(io)
    }

    /// Searches bytes for the machine's folders.
    ///
    /// # Errors
    /// The first folder that the bytes name.
    pub(super) fn names_nothing_here(&self, what: &str, bytes: &[u8]) -> Result<(), String> {
        let home = std::env::home_dir();
        let folders = self.names.iter().map(|(folder, _)| folder).chain([&self.sysroot]).chain(home.as_ref());
        match folders.filter(|folder| folder.components().count() > 1).find(|folder| contains(bytes, folder)) {
            Some(folder) => Err(format!(
                "{what}: expected no path of this machine, found {}: other builders would get other bytes",
                folder.display()
            )),
            None => Ok(()),
        }
    }

    fn clang(&self, target: &Target) -> Result<PathBuf, String> {
        let maps: Vec<String> =
            self.names.iter().map(|(from, to)| format!("'-ffile-prefix-map={}={to}'", from.display())).collect();
        let words = format!("cc -target {}-linux-musl -g0 {NO_TIME} {}", target.name, maps.join(" "));
        self.script(&format!("cc-{}", target.name), &words)
    }

    /// Writes a script that starts a tool of Zig, without cargo's own name for the target.
    fn script(&self, name: &str, words: &str) -> Result<PathBuf, String> {
        use std::os::unix::fs::PermissionsExt;
        let python = self.python.program_path("python");
        let text = format!(
            "#!/bin/sh\nfor word in \"$@\"; do\n  shift\n  case $word in --target=*) ;; *) set -- \"$@\" \"$word\" ;; esac\ndone\n\
             export ZIG_GLOBAL_CACHE_DIR='{}'\nexec '{}' -m ziglang {words} \"$@\"\n",
            self.scripts.join("cache").display(),
            python.display()
        );
        // another text has another name: cargo compiles C code again if the compiler's name changes
        let at = self.scripts.join(format!("{name}-{}", &sha256(text.as_bytes())[..16]));
        let io = |error: std::io::Error| format!("{}: {error}", at.display());
        std::fs::create_dir_all(&self.scripts).and_then(|()| std::fs::write(&at, text)).map_err(io)?;
        std::fs::set_permissions(&at, std::fs::Permissions::from_mode(0o755)).map_err(io)?;
        Ok(at)
    }

    /// `PATH` with the environment's programs first.
    pub(super) fn path(&self) -> OsString {
        let before = std::env::var_os("PATH").unwrap_or_default();
        let first = self.python.program_path("python").parent().map(Path::to_owned);
        std::env::join_paths(first.into_iter().chain(std::env::split_paths(&before))).unwrap_or(before)
    }
}

/// Whether bytes name a file in a folder.
fn contains(bytes: &[u8], folder: &Path) -> bool {
    let wanted = [folder.as_os_str().as_encoded_bytes(), b"/"].concat();
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_folder_is_found_at_any_place() {
        for bytes in [&b"/home/me/x"[..], b"..\0/home/me/"] {
            assert!(contains(bytes, Path::new("/home/me")));
        }
        for bytes in [&b"/home/me"[..], b"/home/mexico/x", b"", b"src/home/me.rs"] {
            assert!(!contains(bytes, Path::new("/home/me")));
        }
    }
}
