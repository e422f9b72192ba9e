//! `tobari seal ls`, and the search for one entry of a set.

use super::arguments::LookArguments;
use super::{input, is_folder, keys, pool};
use serde_json::json;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use tobari_command::output::{self, Failure};
use tobari_seal::{Kind, Suite};
use tobari_seal_files::{Reader, SetEntry};

pub(super) fn run(arguments: &LookArguments) -> Result<ExitCode, Failure> {
    let (keys, pool) = (keys::to_look(arguments)?, pool(&arguments.engines, Suite::Gcm)?);
    let (reader, place) = (Reader::new(&pool, &keys), &arguments.set);
    let mut lines = Ok(());
    if is_folder(place)? {
        reader.list(place, |found| {
            if lines.is_ok() {
                lines = line(arguments.json, found.kind, &found.path, Some(found.bytes), &found.name, found.stale);
            }
        })?;
    } else {
        let meta = reader.look(input(place)?, place)?;
        let bytes = Some(meta.bytes).filter(|_| meta.kind != Kind::Stream);
        lines = line(arguments.json, meta.kind, &meta.path, bytes, &place.display().to_string(), false);
    }
    lines.map(|()| ExitCode::SUCCESS)
}

/// Prints one line, with `bytes` if known.
fn line(json: bool, kind: Kind, path: &[u8], bytes: Option<u64>, sealed: &str, stale: bool) -> Result<(), Failure> {
    let kind = match kind {
        Kind::File => "file",
        Kind::Directory => "folder",
        Kind::Symlink => "link",
        Kind::Stream => "stream",
        Kind::Manifest => "list",
        Kind::Set => "mark",
    };
    if json {
        let path = String::from_utf8_lossy(path);
        let mut line = json!({ "path": path, "kind": kind, "bytes": bytes, "sealed": sealed });
        if stale {
            line["stale"] = true.into();
        }
        return output::json(&line);
    }
    let bytes = bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
    let stale = if stale { "  (stale)" } else { "" };
    output::result(format!("{kind:6} {bytes:>12}  {}  {}{stale}", sealed.escape_debug(), printed(path)));
    Ok(())
}

/// A path for people. A name may have control characters; they must not reach a terminal.
pub(super) fn printed(path: &[u8]) -> String {
    String::from_utf8_lossy(path).escape_debug().to_string()
}

/// The one entry of a set with this path, either exact or as `ls` prints it.
pub(super) fn find(reader: &Reader<'_>, set: &Path, path: &Path) -> Result<SetEntry, Failure> {
    let wanted = path.as_os_str().as_bytes();
    let (mut same, mut alike) = (None, Vec::new());
    reader.list(set, |found| {
        if found.path == wanted {
            same = Some(found);
        } else if printed(&found.path).as_bytes() == wanted || String::from_utf8_lossy(&found.path).as_bytes() == wanted
        {
            alike.push(found);
        }
    })?;
    let (name, more) = (path.display(), alike.len() > 1);
    match same.or_else(|| alike.pop()) {
        Some(found) if found.path == wanted || !more => Ok(found),
        Some(_) => {
            let expected = "several files have this printed path: unseal one by its sealed name, as `tobari unseal SET/SEALED-NAME`";
            Err(Failure::Work(format!("{name}: {expected}")))
        }
        None => Err(Failure::Work(format!("the set has no {name}: `tobari seal ls` prints its paths"))),
    }
}
