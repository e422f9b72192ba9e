//! `tobari backup` and `tobari restore`: a server's data folder, sealed as by `tobari seal`.

use crate::{SealArguments, UnsealArguments};
use std::process::ExitCode;
use tobari_command::output::{self, Failure};
use tobari_host::data::{DataError, DataFolder};

/// Seals a data folder. The folder is locked against servers meanwhile, so that the backup shows
/// one moment. Verifying or listing a backup works as for any set.
pub fn backup(arguments: &SealArguments) -> Result<ExitCode, Failure> {
    if arguments.is_look() {
        return crate::run(arguments);
    }
    let Some(folder) = arguments.source() else {
        return Err(Failure::Call(
            "name the data folder of a server: `tobari backup DATA -o SET --key-file KEY`".to_owned(),
        ));
    };
    let _held = DataFolder::existing(folder)?;
    crate::run(arguments)
}

/// Opens a backup into a new or empty folder, and checks that this release can use it.
pub fn restore(arguments: &UnsealArguments) -> Result<ExitCode, Failure> {
    if arguments.is_part() {
        return Err(Failure::Call(
            "a backup is restored as a whole: remove --only, or use `tobari unseal --only`".to_owned(),
        ));
    }
    let target = arguments.output();
    let (name, full) = (target.display(), std::fs::read_dir(target).is_ok_and(|mut names| names.next().is_some()));
    if full && target.join(tobari_host::data::MARKER).exists() {
        let found = "this folder holds a server's data already. Choose a new or empty folder";
        return Err(Failure::Work(format!("{name}: {found}")));
    }
    // Only the files of a killed restore may be there; with --force nothing would check this.
    if full && arguments.replaces() {
        return Err(Failure::Work(format!("{name} is not empty: choose a new or an empty folder")));
    }
    let opened = crate::unseal(arguments)?;
    match DataFolder::existing(target) {
        Ok(_) => {}
        Err(error @ DataError::NotData(_)) => {
            output::say("tobari: the sealed files are restored, and they are no server's data");
            return Err(error.into());
        }
        Err(error) => return Err(error.into()),
    }
    Ok(opened)
}
