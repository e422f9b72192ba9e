//! `cargo xtask dist`: everything that people install, from one commit.
//!
//! | artefact | for |
//! |---|---|
//! | `archive` | any Linux: the static program, its pages, completions and parts |
//! | `deb` | Debian and Ubuntu: the same, and the server's unit for systemd |
//! | `image` | container engines: the program and a health check, and nothing else |
//! | `wheel` | Python |
//! | `npm` | JavaScript: the browser's clients |
//!
//! The artefacts are in the folder `dist` of the build folder, with their digests in `SHA256SUMS`.
//! **Two builders of one commit get the same bytes** (see `compile` and `pack`). Each artefact is
//! tried as a user gets it, in a root with nothing else in it (see `trial`).

mod archive;
mod compile;
mod deb;
mod image;
mod names;
mod npm;
mod pack;
mod parts;
mod trial;
mod wheel;

use crate::child::{output, target_folder};
use compile::{Compilers, FEATURES};
use pack::{Tree, sha256};
use parts::{Parts, SECTION};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The file of digests.
const SUMS: &str = "SHA256SUMS";

/// A processor for which the artefacts are built.
#[derive(Debug)]
pub(crate) struct Target {
    /// Its name in the names of artefacts, and in triples.
    name: &'static str,
    /// rustc's target of the static program.
    triple: &'static str,
    /// rustc's target of the Python module, which uses the interpreter's C library.
    shared: &'static str,
    /// Debian's name, which container engines have too.
    debian: &'static str,
}

const TARGETS: [Target; 2] = [
    Target { name: "x86_64", triple: "x86_64-unknown-linux-musl", shared: "x86_64-unknown-linux-gnu", debian: "amd64" },
    Target {
        name: "aarch64",
        triple: "aarch64-unknown-linux-musl",
        shared: "aarch64-unknown-linux-gnu",
        debian: "arm64",
    },
];

const ARTEFACTS: [&str; 5] = ["archive", "deb", "image", "wheel", "npm"];

/// The names for `--target`.
pub(crate) fn targets() -> Vec<&'static str> {
    TARGETS.iter().map(|target| target.name).collect()
}

/// The names for `--only`.
pub(crate) fn artefacts() -> Vec<&'static str> {
    ARTEFACTS.to_vec()
}

/// The product, as all artefacts describe it.
#[derive(Clone, Debug)]
struct Product {
    root: PathBuf,
    version: String,
    /// The time of all files, in seconds since 1970: that of the commit.
    time: u64,
}

impl Product {
    fn of(root: &Path) -> Result<Self, String> {
        let manifest = std::fs::read_to_string(root.join("Cargo.toml")).map_err(|error| error.to_string())?;
        let version = manifest.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
        let version = version.ok_or("Cargo.toml: expected a version of the workspace, found none")?.to_owned();
        let text = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(text) => text,
            Err(_) => output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root))
                .map_err(|why| format!("the time of the commit is unknown; set SOURCE_DATE_EPOCH to it: {why}"))?,
        };
        let seconds = text.trim().parse();
        let time = seconds.map_err(|_| format!("expected SOURCE_DATE_EPOCH in seconds, found `{}`", text.trim()))?;
        Ok(Self { root: root.to_owned(), version, time })
    }

    /// The bytes of a file of the repository.
    fn read(&self, file: &str) -> Result<Vec<u8>, String> {
        std::fs::read(self.root.join(file)).map_err(|error| format!("{file}: {error}"))
    }

    /// The text of a file of the repository.
    fn text(&self, file: &str) -> Result<String, String> {
        String::from_utf8(self.read(file)?).map_err(|_| format!("{file}: expected text"))
    }

    /// `NAME-VERSION-TARGET-linux`
    fn stem(&self, name: &str, target: &Target) -> String {
        format!("{name}-{}-{}-linux", self.version, target.name)
    }
}

/// The program of a target with everything that it prints about itself.
struct Built {
    program: Vec<u8>,
    bill: String,
    /// `share`: manual pages and completions.
    share: Tree,
}

/// Builds, packs and tries.
///
/// # Errors
/// The first failure; artefacts of earlier steps stay.
pub(crate) fn run(root: &Path, chosen: &[String], only: &[String]) -> Result<(), String> {
    if (std::env::consts::OS, std::env::consts::ARCH) != ("linux", "x86_64") {
        return Err("artefacts are built on Linux, x86-64: other compilers make other bytes".to_owned());
    }
    let product = Product::of(root)?;
    let folder = target_folder(root).join("dist");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let compilers = Compilers::provide(root, &folder)?;
    let wants = |artefact: &str| only.is_empty() || only.iter().any(|name| name == artefact);
    let mut made = Made { folder: &folder, files: Vec::new() };
    for target in TARGETS.iter().filter(|target| chosen.is_empty() || chosen.iter().any(|name| name == target.name)) {
        if ["archive", "deb", "image"].into_iter().any(wants) {
            let built = build(&product, &compilers, target, &folder)?;
            if wants("archive") {
                let stem = product.stem(names::COMMAND, target);
                let bytes = archive::pack(&product, &built)?.tar_gz(&format!("{stem}/"), product.time);
                let path = made.put(&format!("{stem}.tar.gz"), &bytes.map_err(|error| error.to_string())?)?;
                trial::archive(&path, target, &folder)?;
            }
            if wants("deb") {
                let (name, bytes) = deb::pack(&product, &built, target)?;
                let path = made.put(&name, &bytes)?;
                trial::deb(&path, target, &folder)?;
            }
            if wants("image") {
                let bytes = image::pack(&product, &built, target)?;
                let path = made.put(&format!("{}-image.tar", product.stem(names::IMAGE, target)), &bytes)?;
                trial::image(&path, target, &folder)?;
            }
        }
        if wants("wheel") {
            let (name, bytes) = wheel::build(&product, &compilers, target, &folder)?;
            let path = made.put(&name, &bytes)?;
            trial::wheel(&path, target, &folder)?;
        }
    }
    if wants("npm") {
        let bytes = npm::pack(&product)?.tar_gz("package/", product.time).map_err(|error| error.to_string())?;
        let path = made.put(&format!("{}-{}.tgz", names::NPM, product.version), &bytes)?;
        trial::npm(&path, &folder)?;
    }
    made.sums()
}

/// Compiles the program of a target, and asks it for its pages and completions.
fn build(product: &Product, compilers: &Compilers, target: &Target, folder: &Path) -> Result<Built, String> {
    let plain = compilers.program(target)?;
    let parts = Parts::of(&product.root, names::CRATE, FEATURES, target.triple)?;
    let program = compilers.embed(&plain, SECTION, &parts.section()?)?;
    let bill = parts.bill(&sha256(&program));
    let share = archive::share(&program, target, folder)?;
    Ok(Built { program, bill, share })
}

/// The artefacts of this run.
struct Made<'a> {
    folder: &'a Path,
    files: Vec<(String, String)>,
}

impl Made<'_> {
    /// Writes an artefact; returns its path.
    fn put(&mut self, name: &str, bytes: &[u8]) -> Result<PathBuf, String> {
        let path = self.folder.join(name);
        std::fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        let digest = sha256(bytes);
        println!("{digest}  {name}  ({} bytes)", bytes.len());
        self.files.push((name.to_owned(), digest));
        Ok(path)
    }

    /// Writes the digests as `sha256sum --check` reads them.
    fn sums(mut self) -> Result<(), String> {
        self.files.sort();
        let lines: String = self.files.iter().map(|(name, digest)| format!("{digest}  {name}\n")).collect();
        let path = self.folder.join(SUMS);
        std::fs::write(&path, lines).map_err(|error| format!("{}: {error}", path.display()))?;
        println!("{}", path.display());
        Ok(())
    }
}
