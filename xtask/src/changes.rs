//! The changed files, from git.

use std::path::Path;
use std::process::Command;

/// Variables with which git passes its repository and index to a hook. They are removed, because
/// the repository is always the one around the given folder.
const OF_HOOKS: [&str; 4] = ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"];

/// The files that differ between the working tree and a commit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Changes {
    /// The commit, in words.
    pub(crate) base: String,
    /// Paths from the root of the repository, with `/` between the parts, sorted and without
    /// duplicates.
    pub(crate) paths: Vec<String>,
}

impl Changes {
    /// Compares the working tree under `root` with the revision, else with the merge base of the
    /// branch and its upstream, else with `HEAD`. Files that git does not track count as changed.
    ///
    /// # Errors
    /// There is no git checkout or no such revision, or git failed.
    pub(crate) fn read(root: &Path, since: Option<&str>) -> Result<Self, String> {
        git(root, &["rev-parse", "--is-inside-work-tree"]).map_err(|why| {
            format!("check asks git what changed, and git finds no checkout here: {why}; run `cargo xtask test`")
        })?;
        let (commit, name) = base(root, since)?;
        // both names of a renamed file, since it may have moved to another room
        let diff = ["diff", "--name-only", "--no-renames", "--relative", "-z", &commit, "--"];
        let untracked = ["ls-files", "--others", "--exclude-standard", "-z"];
        let listing = git(root, &diff)? + &git(root, &untracked)?;
        let mut paths: Vec<String> = listing.split_terminator('\0').map(str::to_owned).collect();
        paths.sort();
        paths.dedup();
        let short: String = commit.chars().take(7).collect();
        Ok(Self { base: format!("{name} ({short})"), paths })
    }
}

/// The commit to compare with, and its description.
fn base(root: &Path, since: Option<&str>) -> Result<(String, String), String> {
    if let Some(revision) = since {
        let unknown = |why| format!("expected a commit after --since, found `{revision}`: {why}");
        return Ok((commit(root, revision).map_err(unknown)?, revision.to_owned()));
    }
    if let Ok(upstream) = commit(root, "@{upstream}") {
        let shared = git(root, &["merge-base", "HEAD", &upstream])?;
        return Ok((shared.trim().to_owned(), "the merge base with the upstream".to_owned()));
    }
    Ok((commit(root, "HEAD")?, "HEAD".to_owned()))
}

fn commit(root: &Path, revision: &str) -> Result<String, String> {
    let commit = format!("{revision}^{{commit}}");
    git(root, &["rev-parse", "--verify", "--end-of-options", &commit]).map(|id| id.trim().to_owned())
}

fn git(root: &Path, words: &[&str]) -> Result<String, String> {
    let output = command(root).args(words).output().map_err(|error| format!("git could not be run: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(format!("`git {}` ended with {} ({})", words.join(" "), output.status, why.trim()))
}

fn command(root: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(root);
    for name in OF_HOOKS {
        command.env_remove(name);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::on_path;
    use std::io::Write;
    use std::path::PathBuf;

    /// A temporary folder outside every checkout; it is removed after the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("xtask-changes-{name}-{}", std::process::id()));
            std::fs::create_dir_all(folder.join("kept")).unwrap();
            Self(folder)
        }

        fn write(&self, path: &str, text: &str) {
            std::fs::write(self.0.join(path), text).unwrap();
        }

        fn git(&self, words: &[&str]) {
            let own = ["user.name=a", "user.email=a@b.example", "commit.gpgsign=false", "core.hooksPath=none"];
            let settings = own.iter().flat_map(|setting| ["-c", setting]);
            let output = command(&self.0).args(settings).args(words).output().unwrap();
            assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        }

        fn commit(&self) {
            self.git(&["add", "--all"]);
            self.git(&["commit", "--quiet", "--message", "a"]);
        }

        fn changed(&self, since: Option<&str>) -> Vec<String> {
            Changes::read(&self.0, since).unwrap().paths
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Whether git is installed; if not, this reports the test as not run, as CONTRIBUTING.md asks.
    fn has_git(test: &str) -> bool {
        let found = on_path("git").is_some();
        if !found {
            println!("NOT RUN: git is not on PATH");
            let log = std::env::var_os("TOBARI_NOT_RUN_LOG");
            if let Some(Ok(mut log)) = log.map(|log| std::fs::File::options().append(true).create(true).open(log)) {
                writeln!(log, "{test}: git is not on PATH").unwrap();
            }
        }
        found
    }

    #[test]
    fn commits_edits_and_new_files_are_changes_and_ignored_files_are_not() {
        if !has_git("commits_edits_and_new_files_are_changes_and_ignored_files_are_not") {
            return;
        }
        let folder = Folder::new("all");
        folder.git(&["init", "--quiet", "--initial-branch", "trunk"]);
        folder.write(".gitignore", "ignored\n");
        for path in ["edited", "removed", "moved", "kept/same"] {
            folder.write(path, &format!("{path}\n").repeat(9));
        }
        folder.commit();
        assert!(folder.changed(None).is_empty());
        folder.git(&["checkout", "--quiet", "--track", "-b", "work"]);
        folder.write("committed", "");
        folder.git(&["mv", "moved", "kept/moved"]);
        folder.commit();
        folder.write("edited", "otherwise\n");
        std::fs::remove_file(folder.0.join("removed")).unwrap();
        folder.write("kept/new and ü", "");
        folder.write("ignored", "");
        let uncommitted = ["edited", "kept/new and ü", "removed"];
        let all = ["committed", "edited", "kept/moved", "kept/new and ü", "moved", "removed"];
        assert_eq!(folder.changed(Some("HEAD")), uncommitted);
        assert_eq!(folder.changed(Some("trunk")), all);
        assert_eq!(folder.changed(None), all, "the upstream is trunk");
        folder.git(&["branch", "--unset-upstream"]);
        assert_eq!(folder.changed(None), uncommitted);
    }

    #[test]
    fn without_a_checkout_or_the_revision_the_error_says_so() {
        if !has_git("without_a_checkout_or_the_revision_the_error_says_so") {
            return;
        }
        let folder = Folder::new("none");
        let error = Changes::read(&folder.0, None).unwrap_err();
        assert!(error.contains("no checkout here"), "{error}");
        folder.git(&["init", "--quiet"]);
        for revision in ["nothing-such", "--all"] {
            let error = Changes::read(&folder.0, Some(revision)).unwrap_err();
            assert!(error.contains(&format!("--since, found `{revision}`")), "{error}");
        }
    }
}
