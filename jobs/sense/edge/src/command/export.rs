//! `tobari sense export`: frames and figures as Parquet files.
//!
//! The operator of a server exports frames from the server's disk; the file reveals no more than
//! that disk. The key holder exports figures; so does an analyst, from the answers of the key
//! holder's process.

use super::arguments::ExportArguments;
use super::folder::{KeyFolder, MAX_RELEASE, wrong};
use serde_json::json;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use tobari_command::output::{self, Failure};
use tobari_host::files::read_bounded;
use tobari_sense::bundle::{Bundle, MAX_BUNDLE};
use tobari_sense::release::Release;
use tobari_sense_files::FrameStore;
use tobari_sense_files::parquet::{export_frames, export_releases};
use zeroize::Zeroizing;

/// Writes one file.
pub(super) fn run(arguments: &ExportArguments) -> Result<(), Failure> {
    let (rows, what) = match (&arguments.what.frames, &arguments.what.figures, &arguments.what.releases) {
        (Some(server), ..) => (frames(arguments, server)?, "frames"),
        (_, Some(folder), _) => (figures(arguments, folder)?, "figures"),
        (.., Some(path)) => (released(arguments, path)?, "figures"),
        _ => return Err(Failure::Call("add --frames, --figures or --releases".to_owned())),
    };
    let path = arguments.output.display().to_string();
    if arguments.json {
        return output::json(&json!({ "file": path, "what": what, "rows": rows }));
    }
    output::result(format!("{path}: {rows} rows of {what}"));
    Ok(())
}

fn frames(arguments: &ExportArguments, server: &Path) -> Result<u64, Failure> {
    let fleet = fleet(arguments, server)?;
    let path = fleet.join("bundle.json");
    let bytes = Zeroizing::new(read_bounded(&path, MAX_BUNDLE as u64)?);
    let bundle = Bundle::decode(&bytes).map_err(|error| wrong(&path, error))?;
    let path = fleet.join("frames.redb");
    if !path.is_file() {
        return Err(wrong(&path, "there are no frames of a fleet here: name the folder of `tobari serve --sense`"));
    }
    let store = FrameStore::open(&path).map_err(|error| wrong(&path, error))?;
    let stretch = [arguments.from_ms, arguments.to_ms];
    Ok(export_frames(&arguments.output, &store, &bundle.fleet, bundle.profile, stretch)?)
}

/// The folder of the named fleet, or of the only fleet.
fn fleet(arguments: &ExportArguments, server: &Path) -> Result<PathBuf, Failure> {
    let mut found = Vec::new();
    for entry in fs::read_dir(server).map_err(|error| wrong(server, error))? {
        let entry = entry.map_err(|error| wrong(server, error))?;
        if entry.path().join("bundle.json").is_file() {
            found.push(entry);
        }
    }
    if let Some(name) = &arguments.fleet {
        let named = found.iter().find(|entry| entry.file_name() == name.as_str());
        return named
            .map(fs::DirEntry::path)
            .ok_or_else(|| wrong(server, format!("the folder has no fleet {name}, and {} others", found.len())));
    }
    match &found[..] {
        [only] => Ok(only.path()),
        [] => Err(wrong(server, "there are no fleets here: name the folder of `tobari serve --sense`")),
        _ => Err(wrong(server, format!("the folder has {} fleets: choose one with --fleet", found.len()))),
    }
}

fn figures(arguments: &ExportArguments, folder: &Path) -> Result<u64, Failure> {
    let folder = KeyFolder::open(folder)?;
    let releases = folder.join("releases");
    let mut all = Vec::new();
    for question in fs::read_dir(&releases).map_err(|error| wrong(&releases, error))? {
        let question = question.map_err(|error| wrong(&releases, error))?.path();
        for entry in fs::read_dir(&question).map_err(|error| wrong(&question, error))? {
            let path = entry.map_err(|error| wrong(&question, error))?.path();
            // the note of a withheld result is a file, too, but not a release
            if path.extension().is_some_and(|extension| extension == "json")
                && let Ok(release) = serde_json::from_slice::<Release>(&read_bounded(&path, MAX_RELEASE)?)
            {
                all.push(release);
            }
        }
    }
    all.sort_by(|a, b| (&a.question, a.start_ms, &a.id).cmp(&(&b.question, b.start_ms, &b.id)));
    write(arguments, &folder.card.fleet, all)
}

fn released(arguments: &ExportArguments, path: &Path) -> Result<u64, Failure> {
    let bytes = if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().lock().take(MAX_RELEASE).read_to_end(&mut bytes)?;
        bytes
    } else {
        read_bounded(path, MAX_RELEASE)?
    };
    let all: Vec<Release> = serde_json::from_slice(&bytes).map_err(|error| wrong(path, error))?;
    write(arguments, "", all)
}

fn write(arguments: &ExportArguments, fleet: &str, mut all: Vec<Release>) -> Result<u64, Failure> {
    all.retain(|release| (arguments.from_ms..arguments.to_ms).contains(&release.start_ms));
    Ok(export_releases(&arguments.output, fleet, &all)?)
}
