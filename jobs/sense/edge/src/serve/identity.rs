//! The name of a server at its broker.
//!
//! The broker keeps messages under this name, and disconnects another client of the same name. So
//! the server draws the name at random once, and keeps it in the data folder: `FOLDER/mqtt-client`.

use super::SenseError;
use std::path::Path;
use tobari_host::files::{FileError, read_bounded, write_secret};
use tobari_octets::{hex, unhex_lower};

/// The name of the file.
pub(super) const FILE: &str = "mqtt-client";

/// The name of the server with this data folder.
///
/// # Errors
/// [`SenseError`] for a file that cannot be written or has a wrong content.
pub(super) fn of(folder: &Path) -> Result<String, SenseError> {
    let path = folder.join(FILE);
    if std::fs::symlink_metadata(&path).is_err() {
        let mut name = [0; 8];
        getrandom::fill(&mut name).map_err(|error| SenseError::file(&path, error))?;
        match write_secret(&path, format!("{}\n", hex(&name)).as_bytes()) {
            // another start drew the name meanwhile: the folder has one of the two
            Ok(()) | Err(FileError::Exists { .. }) => {}
            Err(error) => return Err(SenseError::disk(&path, &error)),
        }
    }
    let bytes = read_bounded(&path, 64).map_err(|error| SenseError::file(&path, error))?;
    let name = std::str::from_utf8(&bytes).ok().and_then(|text| unhex_lower::<8>(text.trim_end()));
    let wrong = "expected 16 hexadecimal digits, the server's name at its broker, found another text. \
                 Remove the file for a new name: the broker's messages for the old one are lost then";
    name.map(|name| format!("tobari-{}", hex(&name))).ok_or_else(|| SenseError::file(&path, wrong))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use std::sync::Barrier;

    #[test]
    fn fault_11_a_servers_name_at_the_broker_is_its_folders_own_and_stays() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [one, other] = folders.each_ref().map(|folder| of(folder.path()).unwrap());
        assert_ne!(one, other);
        assert_eq!([&of(folders[0].path()).unwrap(), &of(folders[1].path()).unwrap()], [&one, &other]);
        // with the file moved, it is the same server
        let moved = folders[1].path().join("moved");
        std::fs::create_dir(&moved).unwrap();
        std::fs::rename(folders[0].path().join(FILE), moved.join(FILE)).unwrap();
        assert_eq!(of(&moved).unwrap(), one);
        // if many draw at once, they agree on one name
        let folder = tempfile::tempdir().unwrap();
        let barrier = Barrier::new(8);
        let names: Vec<String> = std::thread::scope(|scope| {
            let draw = || {
                barrier.wait();
                of(folder.path()).unwrap()
            };
            let all: Vec<_> = (0..8).map(|_| scope.spawn(draw)).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(names.iter().all(|name| *name == names[0]), "{names:?}");
        // an invalid text is reported, and kept
        std::fs::write(folder.path().join(FILE), "tobari").unwrap();
        let told = of(folder.path()).unwrap_err().to_string();
        assert!(told.contains("mqtt-client: expected 16 hexadecimal digits"), "{told}");
        assert_eq!(std::fs::read(folder.path().join(FILE)).unwrap(), b"tobari");
    }
}
