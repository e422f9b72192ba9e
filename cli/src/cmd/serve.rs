//! `tobari serve`.

mod arguments;
mod trial;

pub(crate) use arguments::ServeArguments;

use crate::cmd::infer::{EnclaveWord, ServeInferArguments};
use crate::cmd::placement::Placed;
use crate::cmd::search::ServeSearchArguments;
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;
use tobari_apps::infer::guarded::Combination;
use tobari_command::output::{self, Failure};
use tobari_command::stop::stop_signal;
use tobari_host::memory;
use tobari_server::{
    BlindServer, EnclaveOptions, EnclaveTold, InferOptions, Reloader, SearchOptions, SenseOptions, ServerOptions, Tls,
};

/// What is said of an enclave without hardware.
const SIMULATED: &str = "warning: the enclave is SIMULATED: a process of this machine that no hardware protects; whoever runs this server can read the images, and clients take its evidence only with --accept-simulated";

/// Serves until it is told to stop.
pub(crate) fn run(arguments: &mut ServeArguments) -> Result<ExitCode, Failure> {
    let _made_up = trial::complete(arguments)?; // a folder that is there as long as the server
    let mut options = options(arguments)?;
    let placed = Placed::of(&arguments.infer)?;
    if let (Some(infer), Some(placed)) = (&mut options.infer, &placed) {
        infer.enclave = Some(enclave_options(&arguments.infer, placed.combination));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let hangups = Hangups::new(); // before the files are read: a signal that comes meanwhile ends nothing
        let server = tobari_server::bind(options).await?;
        announce(&server, arguments, placed.as_ref())?;
        tokio::spawn(give_memory_back());
        tokio::spawn(hangups.reload(server.reloader()));
        server.run(stop_signal(arguments.until_stdin_closes)).await;
        Ok(ExitCode::SUCCESS)
    })
}

/// The signal by which files are read again (SIGHUP), where there is one. It would end the process
/// otherwise.
struct Hangups {
    #[cfg(unix)]
    signal: std::io::Result<tokio::signal::unix::Signal>,
}

impl Hangups {
    fn new() -> Self {
        Self {
            #[cfg(unix)]
            signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()),
        }
    }

    #[cfg(unix)]
    async fn reload(self, reloader: Reloader) {
        let Ok(mut signal) = self.signal else { return };
        let reloader = std::sync::Arc::new(reloader);
        while signal.recv().await.is_some() {
            tracing::info!("told to read the files of tokens and certificates again");
            let reloader = std::sync::Arc::clone(&reloader);
            // live rooms do not wait for the disk
            let _ = tokio::task::spawn_blocking(move || reloader.reload()).await;
        }
    }

    #[cfg(not(unix))]
    async fn reload(self, _: Reloader) {}
}

/// What the last job used goes back to the system when the next one does not come soon.
async fn give_memory_back() {
    loop {
        tokio::time::sleep(memory::LINGER).await;
        // it may take a while, and live rooms do not wait
        let _ = tokio::task::spawn_blocking(memory::settle).await;
    }
}

/// What was asked for, as the server takes it; what `--infer-enclave auto` stands for is not looked for.
pub(super) fn options(arguments: &ServeArguments) -> Result<ServerOptions, Failure> {
    let search = &arguments.search;
    let more = search.tokens.is_some() || search.open || search.data.is_some();
    if more && search.tables.is_empty() && arguments.infer.models.is_empty() && arguments.sense.sense.is_none() {
        let text = "expected --search, --infer or --sense beside --tokens, --open or --data, found none";
        return Err(Failure::Call(text.to_owned()));
    }
    let mut options = ServerOptions::new(arguments.addr);
    options.floor = arguments.floor.floor()?;
    options.tls = match (&arguments.tls_cert, &arguments.tls_key) {
        (Some(cert), Some(key)) => Tls::Files { cert: cert.clone(), key: key.clone() },
        _ if arguments.tls_self_signed => Tls::SelfSigned,
        _ => Tls::None,
    };
    #[cfg(feature = "acme")]
    if let Some(acme) = arguments.acme.options() {
        options.tls = Tls::Acme(acme);
    }
    #[cfg(feature = "cascade")]
    {
        options.call_bus = arguments.bus.options()?;
    }
    options.behind_proxy = arguments.behind_proxy;
    let limits = &mut options.limits;
    limits.connections = arguments.max_connections.unwrap_or(limits.connections);
    limits.client_connections = arguments.max_client_connections.unwrap_or(limits.client_connections);
    limits.client_share = arguments.client_share.unwrap_or(limits.client_share);
    let (four, six) = limits.client_prefix;
    limits.client_prefix = (arguments.client_prefix_v4.unwrap_or(four), arguments.client_prefix_v6.unwrap_or(six));
    limits.body_bytes = arguments.max_body_memory.unwrap_or(limits.body_bytes);
    limits.rooms = arguments.max_rooms.unwrap_or(limits.rooms);
    limits.client_rooms = arguments.max_client_rooms.unwrap_or(limits.client_rooms);
    limits.live.members = arguments.max_members.map_or(limits.live.members, usize::from);
    limits.live.speakers = arguments.max_speakers.unwrap_or(limits.live.speakers);
    options.web.clone_from(&arguments.web);
    options.host_names.clone_from(&arguments.host_name);
    options.web_origins.clone_from(&arguments.web_origin);
    options.web_servers.clone_from(&arguments.web_server);
    options.limits.drain = Duration::from_secs(arguments.drain.into());
    options.search = search_options(search);
    let idle = arguments.client_idle.map(|seconds| Duration::from_secs(seconds.into()));
    if let (Some(search), Some(idle)) = (&mut options.search, idle) {
        search.idle = idle;
    }
    arguments.infer.is_placed()?;
    options.infer = infer_options(arguments);
    if let (Some(infer), Some(idle)) = (&mut options.infer, idle) {
        infer.idle = idle;
    }
    options.sense = sense_options(arguments)?;
    Ok(options)
}

/// What of devices was asked for.
fn sense_options(arguments: &ServeArguments) -> Result<Option<SenseOptions>, Failure> {
    let (sense, search) = (&arguments.sense, &arguments.search);
    let Some(folder) = sense.sense.clone() else { return Ok(None) };
    let mut options = SenseOptions::new(folder);
    (options.tokens, options.open) = (search.tokens.clone(), search.open);
    options.keep = sense.sense_days.map(|days| Duration::from_secs(86_400 * u64::from(days)));
    options.batch_bytes = sense.sense_batch.map_or(options.batch_bytes, |bytes| bytes as usize);
    (options.memory, options.visitors) = (sense.sense_memory, sense.sense_visitors);
    options.mqtt.clone_from(&sense.sense_mqtt);
    if let (Some(broker), Some(path)) = (&mut options.mqtt, &sense.sense_mqtt_login) {
        broker.login = Some(crate::cmd::sense::login(path)?);
    }
    Ok(Some(options))
}

/// What of the search was asked for.
fn search_options(arguments: &ServeSearchArguments) -> Option<SearchOptions> {
    if arguments.tables.is_empty() {
        return None;
    }
    let mut options = SearchOptions::new(arguments.tables.clone());
    (options.tokens, options.open) = (arguments.tokens.clone(), arguments.open);
    options.malicious = arguments.malicious;
    (options.data, options.audit) = (arguments.data.clone(), arguments.audit.clone());
    let limits = &mut options.limits;
    limits.clients = arguments.max_clients.map_or(limits.clients, |clients| clients as usize);
    limits.tests = arguments.budget.unwrap_or(limits.tests);
    limits.region = arguments.region_bases.unwrap_or(limits.region);
    limits.region_tests = arguments.region_budget.unwrap_or(limits.region_tests);
    limits.uses = arguments.key_uses.unwrap_or(limits.uses);
    limits.labels = arguments.max_labels.map_or(limits.labels, |labels| labels as usize);
    options.hidden.kinds.clone_from(&arguments.hidden);
    options.hidden.memory = arguments.hidden_memory.unwrap_or(options.hidden.memory);
    options.hidden.tier.clone_from(&arguments.hidden_tier);
    options.key_bytes = arguments.max_key_bytes.unwrap_or(options.key_bytes);
    options.queue = arguments.max_queries.map_or(options.queue, |queries| queries as usize);
    Some(options)
}

/// What of inference was asked for.
fn infer_options(arguments: &ServeArguments) -> Option<InferOptions> {
    let (infer, search) = (&arguments.infer, &arguments.search);
    if infer.models.is_empty() {
        return None;
    }
    let mut options = InferOptions::new(infer.models.clone());
    options.layout.clone_from(&infer.infer_layout);
    options.set = infer.infer_set.clone().unwrap_or(options.set);
    (options.tokens, options.open, options.data) = (search.tokens.clone(), search.open, search.data.clone());
    options.key_bytes = infer.infer_keys.unwrap_or(options.key_bytes);
    options.queue = infer.max_images.map_or(options.queue, |images| images as usize);
    options.enclave = match infer.infer_enclave {
        Some(EnclaveWord::Combination(combination)) => Some(enclave_options(infer, combination)),
        Some(EnclaveWord::Auto) | None => None,
    };
    Some(options)
}

/// An enclave in this combination, as it was asked for.
fn enclave_options(infer: &ServeInferArguments, combination: Combination) -> EnclaveOptions {
    let mut enclave = EnclaveOptions::new(combination);
    enclave.set.clone_from(&infer.infer_set);
    enclave.sessions = infer.enclave_sessions.unwrap_or(enclave.sessions);
    enclave.images = infer.enclave_images.unwrap_or(enclave.images);
    enclave.tells = infer.tells.unwrap_or(enclave.tells);
    enclave.launcher = infer.enclave_launcher.iter().flat_map(|line| line.split_whitespace()).map(Into::into).collect();
    enclave
}

fn announce(server: &BlindServer, arguments: &ServeArguments, placed: Option<&Placed>) -> Result<(), Failure> {
    let fingerprint = server.certificate_fingerprint().map(|fingerprint| fingerprint.to_string());
    let enclaves = server.enclaves();
    if arguments.trial {
        output::say(trial::TOLD);
    }
    if !enclaves.is_empty() {
        output::say(SIMULATED);
    }
    if arguments.json {
        // the first key is the one by which a parent process knows the line
        let page = server.page_digest().to_string();
        let mut line = json!({ "listening": server.url(), "page_sha256": page });
        if let Some(fingerprint) = fingerprint {
            line["tls_fingerprint"] = fingerprint.into();
        }
        if !enclaves.is_empty() {
            line["simulated_enclaves"] = json!(enclaves); // whose name comes after it
        }
        if let Some(placed) = placed {
            line["placement"] = placed.json();
        }
        return output::json(&line);
    }
    output::result(format!("listening on {}", server.url()));
    if let Some(fingerprint) = fingerprint {
        output::result(format!("certificate fingerprint (SHA-256): {fingerprint}"));
    }
    output::result(format!("pages of all jobs: {}/", server.url()));
    output::result(format!(
        "live calls: {}/call/ (SHA-256 of the page's files: {})",
        server.url(),
        server.page_digest()
    ));
    for line in placed.into_iter().flat_map(Placed::lines) {
        output::result(line);
    }
    for enclave in &enclaves {
        let EnclaveTold { model, combination, set, sessions, images, tells, measurement, .. } = enclave;
        let mebibytes = enclave.session_bytes.div_ceil(1 << 20);
        output::result(format!(
            "enclave of {model} (SIMULATED): {combination}, {set}, tells {tells}; {sessions} sessions of {images} images, {mebibytes} MiB each; measurement {measurement}"
        ));
    }
    if arguments.search.open {
        output::say("warning: anybody may ask who reaches this address, and budgets hold nobody");
    }
    if arguments.floor.insecure_paper {
        output::say("warning: curves below 112 bits of security are admitted: for measurements only");
    }
    Ok(())
}
