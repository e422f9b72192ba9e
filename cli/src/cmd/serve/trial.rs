//! `tobari serve --try`: every job on made-up data, to look at and to try clients with. Nothing of
//! it outlives the server.

use super::ServeArguments;
use tempfile::TempDir;
use tobari_command::output::Failure;

/// What is said of it to people.
pub(super) const TOLD: &str = "made-up data (--try): a panel and a table of squares that are SIMULATED, the built-in digits, fleets of visitors; what is sent is gone when this server ends";

/// Gives the server what it is not told to serve, and returns the folder where that lies, which
/// goes when this is dropped. None without `--try`.
pub(super) fn complete(arguments: &mut ServeArguments) -> Result<Option<TempDir>, Failure> {
    if !arguments.trial {
        return Ok(None);
    }
    let folder = tempfile::tempdir()?;
    arguments.make_up(folder.path())?;
    Ok(Some(folder))
}
