//! The program `tobari`. It is measured as people run it: as a server in a process of its own, and
//! for sealing folders.

use std::env::{consts::EXE_SUFFIX, current_exe, split_paths, var_os};
use std::path::{Path, PathBuf};
use tobari_command::blind_server::{ANY_PORT, BlindProcess};
use tobari_command::output::Failure;

/// The place of the program.
pub(crate) struct Tobari {
    given: Option<PathBuf>,
}

impl Tobari {
    /// The program at this path; without a path, it is searched beside the running program and then
    /// on PATH.
    pub(crate) fn new(given: Option<PathBuf>) -> Self {
        Self { given }
    }

    /// The given path.
    pub(crate) fn given(&self) -> Option<&Path> {
        self.given.as_deref()
    }

    /// The path of the program. The search happens only on use, because most benchmarks do not need
    /// the program.
    pub(crate) fn path(&self) -> Result<PathBuf, Failure> {
        if let Some(given) = &self.given {
            return match given.is_file() {
                true => Ok(given.clone()),
                false => Err(Failure::Call(format!("{}: expected the program tobari, found no file", given.display()))),
            };
        }
        let beside = current_exe()?.parent().map(Path::to_path_buf);
        found(beside, var_os("PATH").iter().flat_map(split_paths)).ok_or_else(|| {
            let remedy = "build the program tobari first (cargo build -p tobari-cli), or name it by --tobari";
            Failure::Call(format!("expected the program tobari beside tobari-bench or on PATH, found none: {remedy}"))
        })
    }

    /// Starts a blind server in a process of its own, with further arguments.
    pub(crate) fn serve<'a>(&self, more: impl IntoIterator<Item = &'a str>) -> Result<BlindProcess, Failure> {
        self.serve_at(ANY_PORT, more)
    }

    /// The same at an address, for a server that replaces another.
    pub(crate) fn serve_at<'a>(
        &self,
        address: &'a str,
        more: impl IntoIterator<Item = &'a str>,
    ) -> Result<BlindProcess, Failure> {
        BlindProcess::start_program(&self.path()?, address, more)
    }
}

/// The program in the first of these folders that has it.
fn found(beside: Option<PathBuf>, on_path: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let name = format!("tobari{EXE_SUFFIX}");
    beside.into_iter().chain(on_path).map(|folder| folder.join(&name)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_beside_this_one_goes_before_those_on_path() {
        let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let [none, first, second] = [0, 1, 2].map(|at| folders[at].path().to_path_buf());
        let name = format!("tobari{EXE_SUFFIX}");
        for folder in [&first, &second] {
            std::fs::write(folder.join(&name), "").unwrap();
        }
        let on_path = || [none.clone(), second.clone()].into_iter();
        assert_eq!(found(Some(first.clone()), on_path()), Some(first.join(&name)));
        assert_eq!(found(Some(none.clone()), on_path()), Some(second.join(&name)));
        assert_eq!(found(Some(none.clone()), std::iter::empty()), None);
    }

    #[test]
    fn a_program_that_is_given_and_not_there_is_a_wrong_call() {
        let folder = tempfile::tempdir().unwrap();
        let refused = Tobari::new(Some(folder.path().join("tobari"))).path().unwrap_err();
        assert!(matches!(&refused, Failure::Call(text) if text.contains("expected the program tobari")), "{refused}");
    }
}
