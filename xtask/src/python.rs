//! The Python package: built as a wheel, installed into an environment of its own, and tested
//! there.
//!
//! Everything is in a folder of the build folder. An environment is made once, and again when the
//! interpreter or the requirements change; it has only the required packages. The wheel has the
//! profile of tests: optimised, with all assertions.

use crate::child::{pass, target_folder};
use crate::layout::rooms;
use crate::steps::features;
use crate::tools::{bring, on_path};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package of the Python module. Its tests need an interpreter, so cargo runs none of them.
pub(crate) const PACKAGE: &str = "tobari-py";
/// Pages whose examples run too, beside the package's own examples.
const PAGES: [&str; 3] = ["book/src/guides/compute.md", "book/src/guides/python.md", "README.md"];

/// An environment with the package.
pub(crate) struct Environment {
    root: PathBuf,
    folder: PathBuf,
    /// The package's folder, from the root of the repository.
    room: &'static str,
}

impl Environment {
    /// Makes the environment with this name and these requirements, or uses the existing one.
    ///
    /// # Errors
    /// The failed command, or the missing program.
    pub(crate) fn provide(root: &Path, name: &str, requirements: &[&str]) -> Result<Self, String> {
        let folder = target_folder(root).join(name);
        let environment = Self { root: root.to_owned(), folder, room: rooms::path(PACKAGE)? };
        let (mut wanted, mut pip) = (version()?, environment.pip());
        for file in requirements {
            let path = root.join(environment.room).join(file);
            wanted += &std::fs::read_to_string(&path).map_err(|error| format!("{file}: {error}"))?;
            pip.arg("-r").arg(path);
        }
        let stamp = environment.folder.join("made-of.txt");
        if std::fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
            return Ok(environment);
        }
        environment.make()?;
        pass(&mut pip)
            .map_err(|why| format!("{why}; where PyPI is out of reach, --without python leaves the step out"))?;
        std::fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))?;
        Ok(environment)
    }

    /// Makes an empty environment. In Debian the module `venv` is a package of its own.
    fn make(&self) -> Result<(), String> {
        let venv = || {
            let mut command = Command::new("python3");
            command.args(["-m", "venv", "--clear"]).arg(self.folder.join("env"));
            pass(&mut command)
        };
        std::fs::create_dir_all(&self.folder).map_err(|error| format!("{}: {error}", self.folder.display()))?;
        venv().or_else(|why| {
            if bring("python3-venv")? { venv() } else { Err(format!("{why} (Debian: apt-get install python3-venv)")) }
        })
    }

    /// A file of the package, from the root of the repository.
    pub(crate) fn file(&self, inside: &str) -> PathBuf {
        Path::new(self.room).join(inside)
    }

    /// The path of a program of the environment.
    pub(crate) fn program_path(&self, name: &str) -> PathBuf {
        self.folder.join("env/bin").join(name)
    }

    /// A program of the environment.
    pub(crate) fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.program_path(name));
        // no variables of another environment, and no byte code in the tree
        command.current_dir(&self.root).env_remove("PYTHONPATH").env_remove("VIRTUAL_ENV");
        command.env("PYTHONDONTWRITEBYTECODE", "1").env("CARGO_TARGET_DIR", target_folder(&self.root));
        command
    }

    /// `pip install`.
    pub(crate) fn pip(&self) -> Command {
        let mut command = self.program("python");
        command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        command
    }

    /// Builds the wheel and installs it.
    ///
    /// # Errors
    /// The failed command, or a number of wheels other than one.
    pub(crate) fn install(&self) -> Result<(), String> {
        let wheels = self.folder.join("wheels");
        let gone = std::fs::remove_dir_all(&wheels);
        gone.or_else(|error| if wheels.exists() { Err(format!("{}: {error}", wheels.display())) } else { Ok(()) })?;
        let manifest = self.file("Cargo.toml");
        let mut build = self.program("maturin");
        build
            .args(["build", "--quiet", "--auditwheel", "skip", "--profile", "dev", "--strip"])
            .args(["--features", &shared_features()])
            .arg("--out")
            .arg(&wheels);
        pass(build.arg("--manifest-path").arg(manifest))?;
        let found = std::fs::read_dir(&wheels).map_err(|error| format!("{}: {error}", wheels.display()))?;
        let found: Vec<PathBuf> = found.flatten().map(|entry| entry.path()).collect();
        let [wheel] = &found[..] else { return Err(format!("expected one wheel, found {}", found.len())) };
        pass(self.pip().args(["--force-reinstall", "--no-deps"]).arg(wheel))
    }

    /// The commands, in order: the tests (with those of the types) and the examples of the pages,
    /// then the examples of the package's own texts.
    pub(crate) fn tests(&self) -> [Command; 2] {
        let [mut all, mut own] = [self.pytest(), self.pytest()];
        all.arg(self.file("tests")).args(PAGES).arg(self.file("README.md"));
        all.args(["--doctest-glob=compute.md", "--doctest-glob=python.md", "--doctest-glob=README.md"]);
        own.args(["--doctest-modules", "--pyargs", "tobari"]);
        [all, own]
    }

    /// pytest, which leaves nothing in the tree.
    pub(crate) fn pytest(&self) -> Command {
        let mut command = self.program("python");
        command.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-ra", "-c"]).arg(self.file("pyproject.toml"));
        command
    }
}

/// Features under which dependencies are compiled as for the other tests, and not again: those of
/// the workspace, except of its programs, and those that only tests enable.
fn shared_features() -> String {
    let named = features().split(',').filter(|feature| !feature.starts_with("tobari-bench/"));
    named.chain(["rcgen/pem", "tokio/test-util"]).collect::<Vec<_>>().join(",")
}

/// The version of the interpreter.
fn version() -> Result<String, String> {
    let python = on_path("python3").ok_or("python3 is not on PATH")?;
    let output = Command::new(&python).arg("--version").output().map_err(|error| format!("python3: {error}"))?;
    Ok(format!("{} {}", python.display(), String::from_utf8_lossy(&output.stdout)))
}

#[cfg(test)]
mod tests {
    use super::{PACKAGE, shared_features};
    use crate::child::cargo;
    use crate::steps::features;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// Every package of a build, with its features.
    fn packages(words: &[&str]) -> BTreeSet<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut tree = cargo(root);
        tree.args(["tree", "--prefix", "none", "--no-dedupe", "--format", "{p} {f}"]).args(words);
        let output = tree.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_python_module_shares_its_dependencies_with_the_other_tests() {
        let module = packages(&["--package", PACKAGE, "--edges", "normal,build", "--features", &shared_features()]);
        let edges = ["--edges", "normal,build,dev"];
        let others = packages(&[&["--workspace", "--exclude", PACKAGE, "--features", features()], &edges[..]].concat());
        let alone: Vec<&String> = module.difference(&others).collect();
        let names = |package: &&String| package.split(' ').next().unwrap_or_default().to_owned();
        let compiled_for_it_alone: BTreeSet<String> = alone.iter().map(names).collect();
        // Python's own interface, and nothing that other crates use
        let expected = [
            "matrixmultiply",
            "ndarray",
            "num-complex",
            "numpy",
            "pyo3",
            "pyo3-build-config",
            "pyo3-ffi",
            "pyo3-macros",
            "pyo3-macros-backend",
            "rawpointer",
            "target-lexicon",
            PACKAGE,
        ];
        assert_eq!(compiled_for_it_alone, expected.map(str::to_owned).into());
    }
}
