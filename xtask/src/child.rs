//! Child processes: started from the root of the repository, echoed, and passed through to the
//! terminal.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// The cargo that runs this program (from the variable `CARGO`), or the one on `PATH`. Variables of
/// this program's own package are removed: build scripts that read them, and everything that
/// depends on these scripts, would run again after each direct call of cargo.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    let own = |name: &std::ffi::OsStr| {
        name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
    };
    std::env::vars_os().filter(|(name, _)| own(name)).for_each(|(name, _)| _ = command.env_remove(name));
    command
}

/// The folder cargo builds in: `CARGO_TARGET_DIR`, else `target` in the root.
pub(crate) fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}

/// Runs the command with its output passed through.
///
/// # Errors
/// The command's exit status, if it is not success.
pub(crate) fn pass(command: &mut Command) -> Result<(), String> {
    echo(command);
    status(command)
}

/// The same without a line about the command, for output that a program reads.
///
/// # Errors
/// The command's exit status, if it is not success.
pub(crate) fn status(command: &mut Command) -> Result<(), String> {
    let status = command.stdin(Stdio::null()).status();
    ended(command, status)
}

/// The same, and passes every line of standard output to `read`.
///
/// # Errors
/// The command's exit status, if it is not success.
pub(crate) fn pass_reading(command: &mut Command, mut read: impl FnMut(&str)) -> Result<(), String> {
    echo(command);
    let status = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().and_then(|mut child| {
        if let Some(output) = child.stdout.take() {
            tee(output, &mut io::stdout(), &mut read)?;
        }
        child.wait()
    });
    ended(command, status)
}

/// Runs the command without an echo, and returns its standard output.
///
/// # Errors
/// The command's exit status with its messages, or an output that is no text.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let done = command.stdin(Stdio::null()).output();
    let done = done.map_err(|error| format!("`{}` could not be run: {error}", shown(command)))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        return Err(format!("`{}` ended with {}: {said}", shown(command), done.status));
    }
    String::from_utf8(done.stdout).map_err(|_| format!("`{}` printed what is no text", shown(command)))
}

/// Copies `from` to `to` line by line, and passes every line to `read` without its end.
pub(crate) fn tee(from: impl Read, to: &mut impl Write, read: &mut impl FnMut(&str)) -> io::Result<()> {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        // A closed terminal is no reason to stop counting.
        let _ = to.write_all(&line).and_then(|()| to.flush());
        read(String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
    Ok(())
}

/// Prints the command in the form of a shell command.
pub(crate) fn echo(command: &Command) {
    println!("  $ {}", shown(command));
}

fn shown(command: &Command) -> String {
    let mut words = vec![short_name(command)];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}

fn short_name(command: &Command) -> String {
    Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn ended(command: &Command, status: io::Result<ExitStatus>) -> Result<(), String> {
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{}` ended with {status}", shown(command))),
        Err(error) => Err(format!("`{}` could not be run: {error}", shown(command))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_passes_through_and_is_read() {
        let (mut copied, mut lines) = (Vec::new(), Vec::new());
        tee(&b"one\ntwo\r\n\xFF\nlast"[..], &mut copied, &mut |line: &str| lines.push(line.to_owned())).unwrap();
        assert_eq!(copied, b"one\ntwo\r\n\xFF\nlast");
        assert_eq!(lines, ["one", "two", "\u{FFFD}", "last"]);
    }

    #[test]
    fn a_command_is_shown_without_the_folder_of_its_program() {
        let mut command = Command::new("somewhere/bin/cargo");
        assert_eq!(shown(command.args(["fmt", "--check"])), "cargo fmt --check");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = pass(&mut Command::new("no-such-program-of-tobari")).unwrap_err();
        assert!(error.starts_with("`no-such-program-of-tobari` could not be run"), "{error}");
    }
}
