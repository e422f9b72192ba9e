//! `tobari serve --try`: every job on made-up data, for a first look and for testing clients. All
//! data disappear with the server.

use super::ServeArguments;
use tempfile::TempDir;
use tobari_command::output::Failure;

/// The message for people.
pub(super) const TOLD: &str = "made-up data (--try): a panel and a table of squares that are SIMULATED, the built-in digits, fleets of visitors; this server deletes all data when it ends";

/// Adds made-up data for each job that has none, and returns the folder of these data. The folder
/// is removed when this is dropped. None without `--try`.
pub(super) fn complete(arguments: &mut ServeArguments) -> Result<Option<TempDir>, Failure> {
    if !arguments.trial {
        return Ok(None);
    }
    let folder = tempfile::tempdir()?;
    arguments.make_up(folder.path())?;
    Ok(Some(folder))
}
