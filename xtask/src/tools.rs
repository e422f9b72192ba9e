//! Programs beyond Rust and a C compiler: they are found on `PATH`, else installed, else named in
//! the failure.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that some steps need; `--without` leaves these steps out.
#[derive(Debug)]
pub(crate) struct Tool {
    /// Its name for `--without`.
    pub(crate) part: &'static str,
    /// The suitable programs, best first.
    pub(crate) programs: &'static [&'static str],
    /// The Debian package of the first program.
    pub(crate) package: &'static str,
}

/// Every tool of the steps, in the order of the summary.
pub(crate) static TOOLS: &[Tool] = &[
    Tool { part: "browser", programs: &["chromium", "chromium-browser", "google-chrome"], package: "chromium" },
    Tool { part: "python", programs: &["python3"], package: "python3" },
];

/// The names for `--without`.
pub(crate) fn parts() -> Vec<&'static str> {
    TOOLS.iter().map(|tool| tool.part).collect()
}

/// The first executable file named `program` in the folders of `path`, which has the form of
/// `PATH`.
pub(crate) fn find(program: &str, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path).map(|folder| folder.join(program)).find(|file| is_executable(file))
}

/// The same for this process's `PATH`.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    find(program, &std::env::var_os("PATH").unwrap_or_default())
}

/// Finds the tool; if it is missing, installs its package where that is possible.
///
/// # Errors
/// The programs that were searched, and the package to install.
pub(crate) fn provide(tool: &Tool) -> Result<PathBuf, String> {
    let look = || tool.programs.iter().find_map(|program| on_path(program));
    match decide(tool, look(), may_install()) {
        Decision::Use(program) => Ok(program),
        Decision::Fail(why) => Err(why),
        Decision::Install => {
            install(tool.package)?;
            look()
                .ok_or_else(|| format!("{} was installed, and still brought none of {:?}", tool.package, tool.programs))
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Decision {
    Use(PathBuf),
    Install,
    Fail(String),
}

fn decide(tool: &Tool, found: Option<PathBuf>, may_install: bool) -> Decision {
    match found {
        Some(program) => Decision::Use(program),
        None if may_install => Decision::Install,
        None => Decision::Fail(format!(
            "{} is missing: none of {} is on PATH (Debian: apt-get install {}); --without {} leaves it out",
            tool.part,
            tool.programs.join(", "),
            tool.package,
            tool.part
        )),
    }
}

/// True for root on Debian or a derived system. This calls `id -u`, because the standard library
/// has no function for the user.
pub(crate) fn may_install() -> bool {
    let root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0");
    root && Path::new("/etc/debian_version").exists() && on_path("apt-get").is_some()
}

/// Installs a Debian package that a step needs; returns whether an installation is allowed here.
///
/// # Errors
/// The installation failed.
pub(crate) fn bring(package: &str) -> Result<bool, String> {
    if may_install() { install(package).map(|()| true) } else { Ok(false) }
}

fn install(package: &str) -> Result<(), String> {
    for arguments in [&["update", "--quiet"][..], &["install", "--yes", "--quiet", "--no-install-recommends", package]]
    {
        println!("  $ apt-get {}", arguments.join(" "));
        let status = Command::new("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive").status();
        if !status.is_ok_and(|status| status.success()) {
            return Err(format!("apt-get could not install {package}"));
        }
    }
    Ok(())
}

#[cfg(unix)]
fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(file: &Path) -> bool {
    file.is_file() || file.with_extension("exe").is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_on_the_path_is_used() {
        let program = PathBuf::from("bin/chromium");
        assert_eq!(decide(&TOOLS[0], Some(program.clone()), false), Decision::Use(program.clone()));
        assert_eq!(decide(&TOOLS[0], Some(program.clone()), true), Decision::Use(program));
    }

    #[test]
    fn a_missing_program_is_installed_only_where_that_is_allowed() {
        assert_eq!(decide(&TOOLS[0], None, true), Decision::Install);
        let Decision::Fail(why) = decide(&TOOLS[0], None, false) else { panic!("expected a failure") };
        for word in ["browser", "chromium-browser", "apt-get install chromium", "--without browser"] {
            assert!(why.contains(word), "{word} in {why}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn only_executable_files_are_found_and_the_first_folder_wins() {
        use std::os::unix::fs::PermissionsExt;
        let root = std::env::temp_dir().join(format!("xtask-tools-{}", std::process::id()));
        let folders: Vec<PathBuf> = ["a", "b", "c"].iter().map(|name| root.join(name)).collect();
        for (folder, mode) in folders.iter().zip([0o644, 0o755, 0o755]) {
            std::fs::create_dir_all(folder).unwrap();
            std::fs::write(folder.join("tool"), "").unwrap();
            std::fs::set_permissions(folder.join("tool"), std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let path = std::env::join_paths(&folders).unwrap();
        let found = find("tool", &path);
        let absent = find("other", &path);
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!((found, absent), (Some(folders[1].join("tool")), None));
    }

    #[test]
    fn the_parts_are_the_ones_the_readme_names() {
        assert_eq!(parts(), ["browser", "python"]);
    }
}
