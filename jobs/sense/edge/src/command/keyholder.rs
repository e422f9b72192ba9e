//! `tobari sense keyholder`: fetches results, has each decrypted once, and publishes releases to
//! analysts.
//!
//! **The server does not learn whether a result is released, neither from bytes nor from timing.**
//! It gets the acknowledgement of a fetch before decryption, always in the same words. A separate
//! thread decrypts results ([`super::opener`]), and the thread that talks to the server never waits
//! for it. Releases go to files, to standard output, and to analysts, who connect to this process
//! and not to the server.
//!
//! **A fetched result is on the disk before the acknowledgement, and stays there until there is a
//! release.** A crash at any moment loses no figure. After a crash, no other bytes are decrypted in
//! place of those that may already have been decrypted.

use super::arguments::KeyholderArguments;
use super::folder::{KeyFolder, MAX_RELEASE, wrong};
use super::opener::{Opener, Work, keep};
use super::publish::publish;
use super::remote::{CloudConnection, WindowAnswer};
use crate::analyst::{Analysts, SharedFigures};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::process::ExitCode;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tobari_command::output::{self, Failure};
use tobari_command::stop::stop_signal;
use tobari_host::files::{check_bounded, read_bounded, write_atomically};
use tobari_lattice::rlwe::SecretKey;
use tobari_sense::desk::ResultOpener;
use tobari_sense::question::MAX_REGISTERED;
use tobari_sense::registry::Registry;
use tobari_sense::release::{Figure, Release};
use tobari_sense::setting::Setting;
use tokio::time::MissedTickBehavior;

/// Runs until a stop signal, or once.
pub(super) fn run(arguments: &KeyholderArguments) -> Result<ExitCode, Failure> {
    let folder = KeyFolder::open(&arguments.folder)?;
    let name = folder.join("keyholder.lock");
    let lock = File::create(&name).map_err(|error| wrong(&name, error))?;
    lock.try_lock().map_err(|_| wrong(&arguments.folder, "another key holder serves this folder: stop it first"))?;
    let (setting, figures) = (folder.holder.setting()?, SharedFigures::default());
    let desk = ResultOpener::new(setting.clone(), folder.card.schema.clone(), folder.holder.secret(&setting));
    let opener = Opener::start(desk, folder.join("releases"), Arc::clone(&figures), arguments)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // its connection is closed before the wait for the opener
    let served = runtime.block_on(serve(arguments, folder, setting, &opener, figures));
    let opened = opener.finish();
    if let (Err(_), Err(failure)) = (&served, &opened) {
        output::say(format!("tobari: {failure}"));
    }
    served.and(opened)?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(
    arguments: &KeyholderArguments,
    folder: KeyFolder,
    setting: Setting,
    opener: &Opener,
    figures: SharedFigures,
) -> Result<(), Failure> {
    let mut keyholder = Keyholder::open(arguments, folder, setting, opener, Arc::clone(&figures))?;
    if arguments.once {
        return keyholder.round().await;
    }
    let analysts = Analysts::bind(arguments.addr, arguments.analysts.as_deref(), figures).await?;
    let url = format!("http://{}", analysts.local_addr());
    if arguments.json {
        output::json(&json!({ "listening": url }))?;
    } else {
        output::result(format!("figures at {url}/ (a page), {url}/releases and {url}/metrics"));
    }
    tokio::spawn(analysts.run(std::future::pending()));
    tokio::select! {
        () = stop_signal(arguments.until_stdin_closes) => {}
        () = keyholder.rounds(Duration::from_secs(arguments.every.into())) => {}
    }
    Ok(())
}

/// One failure for several errors.
fn all_of(errors: &[String]) -> Result<(), Failure> {
    if errors.is_empty() { Ok(()) } else { Err(Failure::Work(errors.join("\n"))) }
}

/// The half that talks to the server.
struct Keyholder<'a> {
    folder: KeyFolder,
    setting: Setting,
    secret: SecretKey,
    server: CloudConnection,
    opener: &'a Opener,
    figures: SharedFigures,
    /// The server's orders, by question.
    orders: BTreeMap<String, Vec<u8>>,
    /// The name of each question, and the least number of devices of a result.
    names: BTreeMap<String, (String, u32)>,
    /// Questions in the folder that belong to another fleet, or that single out devices.
    refused: BTreeSet<String>,
    /// Questions that the server has.
    told: BTreeSet<String>,
    /// Windows whose results the opener has or had.
    came: BTreeSet<(String, u64)>,
}

impl<'a> Keyholder<'a> {
    fn open(
        arguments: &KeyholderArguments,
        folder: KeyFolder,
        setting: Setting,
        opener: &'a Opener,
        figures: SharedFigures,
    ) -> Result<Self, Failure> {
        let url = arguments.reach.server.as_deref();
        let url = url.ok_or_else(|| Failure::Call("add --server URL".to_owned()))?;
        let server = CloudConnection::reach(url, &arguments.reach.reach()?, &folder.card.fleet)?;
        let secret = folder.holder.secret(&setting);
        let (orders, names, refused, told, came) = Default::default();
        Ok(Self { folder, setting, secret, server, opener, figures, orders, names, refused, told, came })
    }

    /// Asks the server repeatedly. Errors are printed, and the next round tries again; the same
    /// errors are printed once.
    async fn rounds(&mut self, pause: Duration) {
        let mut ticks = tokio::time::interval(pause);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = String::new();
        loop {
            ticks.tick().await;
            let text = self.round().await.err().map(|failure| failure.to_string()).unwrap_or_default();
            if text != told && !text.is_empty() {
                output::say(format!("tobari: {text}"));
            }
            told = text;
        }
    }

    /// Gives the server missing keys and questions, and fetches its results.
    async fn round(&mut self) -> Result<(), Failure> {
        let registry = Arc::new(self.folder.registry()?);
        publish(&self.folder, &self.setting, &self.secret, &registry, &mut self.server, true).await?;
        self.renew_questions(&registry)?;
        self.take_up_questions(&registry)?;
        let known: Vec<(String, Vec<u8>)> = self.orders.iter().map(|(id, order)| (id.clone(), order.clone())).collect();
        let mut errors = Vec::new();
        for (id, order) in known {
            if let Err(failure) = self.question(&id, order, &registry).await {
                let name = self.names.get(&id).map_or("", |(name, _)| name);
                errors.push(format!("{name}: {failure}"));
                if !self.server.has_refused() {
                    break;
                }
            }
        }
        all_of(&errors)
    }

    /// Gives the server a question, and fetches its results. A window that the server refuses does
    /// not hold up those behind it.
    async fn question(&mut self, id: &str, order: Vec<u8>, registry: &Arc<Registry>) -> Result<(), Failure> {
        if !self.folder.question(id).exists() {
            if self.told.remove(id) {
                self.server.forget_order(id).await?;
            }
            return Ok(());
        }
        if !self.told.contains(id) {
            self.server.give_order(id, order).await?;
            self.told.insert(id.to_owned());
        }
        let windows: BTreeSet<u64> = self.server.windows(id).await?.into_iter().collect();
        let mut errors = Vec::new();
        for start_ms in windows {
            if let Err(failure) = self.window(id, start_ms, registry).await {
                errors.push(failure.to_string());
                if !self.server.has_refused() {
                    break;
                }
            }
        }
        // the same refusal of many windows is told once
        errors.dedup();
        all_of(&errors)
    }

    /// Carries new keys of devices into the questions about them. A server takes frames under a new
    /// key only after this round has told it about the key, so no window is computed without them.
    fn renew_questions(&self, registry: &Registry) -> Result<(), Failure> {
        let names = self.folder.holder.question_names();
        for registered in self.folder.questions()? {
            let Some(renewed) = registered.renewed(registry, &names) else { continue };
            let (path, written) = (self.folder.question(&registered.id()), serde_json::to_vec(&renewed)?);
            check_bounded(&path, &written, MAX_REGISTERED)?;
            // it keeps its mode; the command line may have removed the question meanwhile
            if path.exists() {
                write_atomically(&path, &written)?;
                let keys = renewed.order.renewed.len() - registered.order.renewed.len();
                output::say(format!("{}: {keys} new keys of its devices count from now on", registered.question.name));
            }
        }
        Ok(())
    }

    /// Adds questions that were registered or renewed since the last round, and the outcomes of
    /// their earlier windows.
    fn take_up_questions(&mut self, registry: &Arc<Registry>) -> Result<(), Failure> {
        for registered in self.folder.questions()? {
            let id = registered.id();
            if self.refused.contains(&id) {
                continue;
            }
            let order = serde_json::to_vec(&registered.order)?;
            let known = self.orders.get(&id);
            if known.is_some_and(|known| *known == order) {
                continue;
            }
            let is_new = known.is_none();
            let name = registered.question.name.clone();
            if let Err(error) = registered.check(&self.folder.card.schema) {
                // printed once; the other questions continue
                let remedy = format!(
                    "no result of this question is opened. Remove it: tobari sense query FOLDER --remove {name}"
                );
                output::say(format!("tobari: {}", wrong(&self.folder.question(&id), format!("{error}; {remedy}"))));
                self.refused.insert(id);
                continue;
            }
            // doing this twice is harmless: after an error the next round repeats it
            self.names.insert(id.clone(), (name, registered.order.least_devices));
            self.opener.give(Work::Question(Box::new(registered)));
            if is_new {
                self.take_up_releases(&id, registry)?;
            }
            self.told.remove(&id);
            self.orders.insert(id, order);
        }
        Ok(())
    }

    /// Adds the releases of a question. Results that were fetched before a crash are decrypted,
    /// whatever the server has now.
    fn take_up_releases(&mut self, id: &str, registry: &Arc<Registry>) -> Result<(), Failure> {
        let folder = self.folder.join("releases").join(id);
        super::folder::private(&folder)?;
        let (mut waiting, mut releases) = (BTreeSet::new(), Vec::new());
        for entry in fs::read_dir(&folder).map_err(|error| wrong(&folder, error))? {
            let path = entry.map_err(|error| wrong(&folder, error))?.path();
            let start = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
            let (Some(start_ms), Some(extension)) = (start, path.extension()) else { continue };
            let window = (id.to_owned(), start_ms);
            if extension == "json" {
                // even if the file is unreadable, nothing is decrypted in its place
                self.came.insert(window.clone());
                self.opener.give(Work::Opened(window));
                releases.push(path);
            } else if path == self.folder.fetched(id, start_ms) {
                waiting.insert(window);
            } else if path == self.folder.empty(id, start_ms) {
                self.came.insert(window.clone());
                self.opener.give(Work::Opened(window));
                self.count_empty(id);
            } else if path == self.folder.removed(id, start_ms) {
                self.came.insert(window.clone());
                self.opener.give(Work::Opened(window));
                self.count_removed(id);
            }
        }
        for window in waiting {
            if self.came.insert(window.clone()) {
                self.opener.give(Work::Fetched(window, Arc::clone(registry)));
            } else {
                // the program was killed after it wrote the release
                let path = self.folder.fetched(&window.0, window.1);
                fs::remove_file(&path).unwrap_or_else(|error| {
                    output::say(format!("tobari: {}", wrong(&path, error)));
                });
            }
        }
        for path in releases {
            match read_bounded(&path, MAX_RELEASE) {
                // the note of a withheld result is not a release
                Ok(bytes) => serde_json::from_slice::<Release>(&bytes).map_or((), |release| {
                    self.figures.write().unwrap_or_else(PoisonError::into_inner).add(release);
                }),
                Err(error) => output::say(format!("tobari: {error}: analysts are not shown this release")),
            }
        }
        Ok(())
    }

    /// Fetches the results of a window, acknowledges them, and has them decrypted.
    async fn window(&mut self, id: &str, start_ms: u64, registry: &Arc<Registry>) -> Result<(), Failure> {
        let window = (id.to_owned(), start_ms);
        if self.came.contains(&window) {
            return self.server.done(id, start_ms).await;
        }
        let fetched = self.folder.fetched(id, start_ms);
        // the file exists if an error followed its writing: nothing is decrypted in its place
        if !fetched.exists() {
            match self.server.answer(id, start_ms).await? {
                WindowAnswer::Results(results) => keep(&fetched, &results)?,
                WindowAnswer::Empty(devices) => {
                    self.note_empty(window, devices)?;
                    return self.server.done(id, start_ms).await;
                }
                WindowAnswer::Removed => {
                    self.note_removed(window)?;
                    return self.server.done(id, start_ms).await;
                }
            }
        }
        self.came.insert(window.clone());
        let done = self.server.done(id, start_ms).await;
        self.opener.give(Work::Fetched(window, Arc::clone(registry)));
        done
    }
}

impl Keyholder<'_> {
    /// Records and reports a window in which too few devices had frames. Nothing is decrypted for
    /// it later.
    fn note_empty(&mut self, window: (String, u64), devices: Option<u32>) -> Result<(), Failure> {
        let (id, start_ms) = &window;
        let (name, least) = self.names.get(id).cloned().unwrap_or_default();
        let note = json!({ "empty": true, "id": id, "start_ms": start_ms, "devices": devices, "least": least });
        keep(&self.folder.empty(id, *start_ms), &serde_json::to_vec(&note)?)?;
        let found = devices.map_or_else(|| "too few".to_owned(), |devices| devices.to_string());
        output::say(format!(
            "{name}: nothing is released for the window at {}: {found} of its devices had frames, and a result needs \
             {least}",
            *start_ms as f64 / 1e3
        ));
        self.count_empty(id);
        self.opener.give(Work::Opened(window.clone()));
        self.came.insert(window);
        Ok(())
    }

    /// Records and reports a window of which the server no longer has all frames. Nothing is
    /// decrypted for it later.
    fn note_removed(&mut self, window: (String, u64)) -> Result<(), Failure> {
        let (id, start_ms) = &window;
        let note = json!({ "removed": true, "id": id, "start_ms": start_ms });
        keep(&self.folder.removed(id, *start_ms), &serde_json::to_vec(&note)?)?;
        output::say(format!(
            "{}: nothing is released for the window at {}: the server removed frames of it before its result was \
             fetched. Keep frames longer there (--sense-days), or let the key holder run more often",
            self.names.get(id).map_or("", |(name, _)| name),
            *start_ms as f64 / 1e3
        ));
        self.count_removed(id);
        self.opener.give(Work::Opened(window.clone()));
        self.came.insert(window);
        Ok(())
    }

    fn count_removed(&self, id: &str) {
        if let Some((name, _)) = self.names.get(id) {
            self.figures.write().unwrap_or_else(PoisonError::into_inner).count_removed(name);
        }
    }

    fn count_empty(&self, id: &str) {
        if let Some((name, _)) = self.names.get(id) {
            self.figures.write().unwrap_or_else(PoisonError::into_inner).count_empty(name);
        }
    }
}

/// At most six digits after the point, because the exact number is beside it.
fn short(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A release as lines of text.
pub(super) fn lines(release: &Release) -> Vec<String> {
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
                    format!("  {statistic} of {channel}: {value} (in steps {exact})")
                }
                Figure::Vector { statistic, channel, first, values, .. } => {
                    let shown: Vec<String> =
                        values.iter().take(8).map(|value| value.map_or_else(|| "none".to_owned(), short)).collect();
                    let more = if values.len() > 8 { ", …" } else { "" };
                    let last = first + values.len().saturating_sub(1);
                    format!("  {statistic} of {channel}[{first}..={last}]: {}{more}", shown.join(", "))
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
