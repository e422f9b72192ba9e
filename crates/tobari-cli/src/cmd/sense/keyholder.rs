//! `tobari sense keyholder`: fetches results, opens each once, and shows analysts what may be released.
//!
//! **The server hears nothing of what becomes of a result**: it is told that it was fetched before it is opened, in the same words always. What is released goes to files, to standard output, and to analysts, who come to this process and not to the server.
//!
//! **What was fetched is on the disk before that, until there is a release**: a crash at any moment loses no figure, and after it nothing is opened in place of the bytes that may have been opened already.

use super::arguments::KeyholderArguments;
use super::folder::{KeyFolder, MAX_RELEASE, wrong};
use super::publish::publish;
use super::remote::CloudConnection;
use crate::cmd::serve::stop_signal;
use crate::output::{self, Failure};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::process::ExitCode;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tobari_apps::sense::desk::Desk;
use tobari_apps::sense::message::MAX_MESSAGE;
use tobari_apps::sense::registry::Registry;
use tobari_apps::sense::release::{Figure, Release};
use tobari_apps::sense::setting::Setting;
use tobari_core::rlwe::SecretKey;
use tobari_host::files::{check_bounded, read_bounded, write_secret};
use tobari_server::analyst::{Analysts, SharedFigures};

/// Runs until it is told to stop, or once.
pub(super) fn run(arguments: &KeyholderArguments) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut keyholder = Keyholder::open(arguments)?;
        if arguments.once {
            keyholder.round().await?;
            return Ok(ExitCode::SUCCESS);
        }
        let analysts =
            Analysts::bind(arguments.addr, arguments.analysts.as_deref(), Arc::clone(&keyholder.figures)).await?;
        let url = format!("http://{}", analysts.local_addr());
        if arguments.json {
            output::json(&json!({ "listening": url }))?;
        } else {
            output::result(format!("figures at {url}/releases and {url}/metrics"));
        }
        tokio::spawn(analysts.run(std::future::pending()));
        tokio::select! {
            () = stop_signal(arguments.until_stdin_closes) => {}
            () = keyholder.rounds(Duration::from_secs(arguments.every.into())) => {}
        }
        Ok(ExitCode::SUCCESS)
    })
}

struct Keyholder<'a> {
    arguments: &'a KeyholderArguments,
    folder: KeyFolder,
    setting: Setting,
    secret: SecretKey,
    desk: Desk,
    server: CloudConnection,
    figures: SharedFigures,
    /// Questions in the folder that are none of this fleet's, or single devices out.
    refused: BTreeSet<String>,
    /// Questions that the server was told of.
    told: BTreeSet<String>,
    /// Windows whose results are on the disk, and not released yet.
    fetched: BTreeSet<(String, u64)>,
    /// Locked while it is open.
    _lock: File,
}

impl<'a> Keyholder<'a> {
    fn open(arguments: &'a KeyholderArguments) -> Result<Self, Failure> {
        let folder = KeyFolder::open(&arguments.folder)?;
        let name = folder.join("keyholder.lock");
        let lock = File::create(&name).map_err(|error| wrong(&name, error))?;
        lock.try_lock().map_err(|_| {
            wrong(&arguments.folder, "expected a folder that no other key holder serves, found one that is served")
        })?;
        let url = arguments.reach.server.as_deref();
        let url = url.ok_or_else(|| Failure::Call("expected --server URL, found none".to_owned()))?;
        let server = CloudConnection::reach(url, &arguments.reach.reach()?, &folder.card.fleet)?;
        let setting = folder.holder.setting()?;
        let secret = folder.holder.secret(&setting);
        let desk = Desk::new(setting.clone(), folder.card.schema.clone(), folder.holder.secret(&setting));
        let (figures, refused, told, fetched) = Default::default();
        Ok(Self { arguments, folder, setting, secret, desk, server, figures, refused, told, fetched, _lock: lock })
    }

    /// Looks at the server again and again; what goes wrong is said, and tried again.
    async fn rounds(&mut self, pause: Duration) {
        loop {
            if let Err(failure) = self.round().await {
                output::say(format!("tobari: {failure}"));
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Gives the server what it lacks, and releases what it has.
    async fn round(&mut self) -> Result<(), Failure> {
        let registry = self.folder.registry()?;
        publish(&self.folder, &self.setting, &self.secret, &registry, &mut self.server, true).await?;
        self.take_up_questions()?;
        let known: Vec<(String, Vec<u8>)> = self
            .desk
            .questions()
            .map(|(id, registered)| Ok((id.clone(), serde_json::to_vec(&registered.order)?)))
            .collect::<Result<_, Failure>>()?;
        for (id, order) in known {
            if !self.folder.question(&id).exists() {
                if self.told.remove(&id) {
                    self.server.forget_order(&id).await?;
                }
                continue;
            }
            if !self.told.contains(&id) {
                self.server.give_order(&id, order).await?;
                self.told.insert(id.clone());
            }
            let left = self.fetched.iter().filter(|window| window.0 == id).map(|window| window.1);
            let mut windows: BTreeSet<u64> = left.collect();
            windows.extend(self.server.windows(&id).await?);
            for start_ms in windows {
                self.window(&id, start_ms, &registry).await?;
            }
        }
        Ok(())
    }

    /// Takes up what was registered since, and what became of it before.
    fn take_up_questions(&mut self) -> Result<(), Failure> {
        for registered in self.folder.questions()? {
            let id = registered.id();
            if self.desk.questions().any(|(known, _)| *known == id) || self.refused.contains(&id) {
                continue;
            }
            let name = registered.question.name.clone();
            if let Err(error) = self.desk.register(registered) {
                // said once; the other questions are answered all the same
                let remedy = format!(
                    "no result of this question is opened. Remove it: tobari sense query FOLDER --remove {name}"
                );
                output::say(format!("tobari: {}", wrong(&self.folder.question(&id), format!("{error}; {remedy}"))));
                self.refused.insert(id);
                continue;
            }
            self.take_up_releases(&id)?;
        }
        Ok(())
    }

    /// Takes up what became of a question's windows.
    fn take_up_releases(&mut self, id: &str) -> Result<(), Failure> {
        let folder = self.folder.join("releases").join(id);
        super::folder::private(&folder)?;
        for entry in fs::read_dir(&folder).map_err(|error| wrong(&folder, error))? {
            let path = entry.map_err(|error| wrong(&folder, error))?.path();
            let start = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
            let (Some(start_ms), Some(extension)) = (start, path.extension()) else { continue };
            let fetched = self.folder.fetched(id, start_ms);
            if extension == "json" {
                self.desk.note_opened(id, start_ms);
                if let Ok(release) = serde_json::from_slice::<Release>(&read_bounded(&path, MAX_RELEASE)?) {
                    self.figures.write().unwrap_or_else(PoisonError::into_inner).add(release);
                }
            } else if path == fetched && self.folder.release(id, start_ms).exists() {
                fs::remove_file(&path).map_err(|error| wrong(&path, error))?;
            } else if path == fetched {
                self.fetched.insert((id.to_owned(), start_ms));
            }
        }
        Ok(())
    }

    /// Fetches the results of a window, says so, and opens them.
    async fn window(&mut self, id: &str, start_ms: u64, registry: &Registry) -> Result<(), Failure> {
        if self.desk.was_opened(id, start_ms) {
            return self.server.done(id, start_ms).await;
        }
        let results = self.results(id, start_ms).await?;
        self.server.done(id, start_ms).await?;
        let Some(results) = results else { return Ok(()) };
        let opened = tokio::task::block_in_place(|| self.desk.open(id, start_ms, &results, registry));
        let path = self.folder.release(id, start_ms);
        self.figures.write().unwrap_or_else(PoisonError::into_inner).count(self.desk.counts());
        match opened {
            Ok(release) => {
                let written = serde_json::to_vec(&release)?;
                check_bounded(&path, &written, MAX_RELEASE)?;
                write_secret(&path, &written)?;
                if self.arguments.json {
                    output::json(&release)?;
                } else {
                    lines(&release).into_iter().for_each(output::result);
                }
                self.figures.write().unwrap_or_else(PoisonError::into_inner).add(release);
            }
            Err(_) => {
                // a file of its own for what is withheld, too: whoever opens it again finds it
                write_secret(
                    &path,
                    &serde_json::to_vec(&json!({ "withheld": true, "id": id, "start_ms": start_ms }))?,
                )?;
                output::say(format!("a result of {id} for the window at {start_ms} is withheld"));
            }
        }
        self.fetched.remove(&(id.to_owned(), start_ms));
        let fetched = self.folder.fetched(id, start_ms);
        fs::remove_file(&fetched).map_err(|error| wrong(&fetched, error))
    }

    /// The results of a window, on the disk: those of before a crash, whatever the server has now; none where too few devices have frames.
    async fn results(&mut self, id: &str, start_ms: u64) -> Result<Option<Vec<u8>>, Failure> {
        let path = self.folder.fetched(id, start_ms);
        if self.fetched.contains(&(id.to_owned(), start_ms)) {
            return Ok(Some(read_bounded(&path, MAX_MESSAGE as u64)?));
        }
        let results = self.server.answer(id, start_ms).await?;
        if let Some(results) = &results {
            write_secret(&path, results)?;
            self.fetched.insert((id.to_owned(), start_ms));
        }
        Ok(results)
    }
}

/// Six digits behind the point at most: beside it stands the exact number.
fn short(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A release for people.
fn lines(release: &Release) -> Vec<String> {
    let mut lines = Vec::new();
    for group in &release.groups {
        let seconds = (release.end_ms - release.start_ms) as f64 / 1e3;
        lines.push(format!(
            "{}, {}: {} devices, {} frames, {seconds} s from {}",
            release.question,
            group.group,
            group.devices,
            group.frames,
            release.start_ms as f64 / 1e3
        ));
        for figure in &group.figures {
            lines.push(match figure {
                Figure::Count { value } => format!("  count: {value}"),
                Figure::Number { statistic, channel, value, exact } => {
                    let value = value.map_or_else(|| "none".to_owned(), short);
                    format!("  {statistic} of {channel}: {value} (in bytes {exact})")
                }
                Figure::Histogram { channel, edges, counts } => {
                    let edge =
                        |bin: usize| edges.get(bin).map_or_else(|| "above".to_owned(), |edge| format!("below {edge}"));
                    let bins: Vec<String> =
                        counts.iter().enumerate().map(|(bin, count)| format!("{}: {count}", edge(bin))).collect();
                    format!("  histogram of {channel}: {}", bins.join(", "))
                }
                Figure::Above { channel, threshold, count, alarm } => {
                    let alarm = match alarm {
                        Some(true) => ": ALARM",
                        Some(false) => ": no alarm",
                        None => "",
                    };
                    format!("  {channel} above {threshold}: {count}{alarm}")
                }
            });
        }
    }
    if !release.too_few.is_empty() {
        lines.push(format!("  too few devices: {}", release.too_few.join(", ")));
    }
    if release.left_out > 0 {
        lines.push(format!("  frames beyond what the question takes of a device: {}", release.left_out));
    }
    lines
}
