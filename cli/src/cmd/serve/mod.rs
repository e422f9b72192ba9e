//! `tobari serve`.

mod arguments;
mod trial;

pub(crate) use arguments::ServeArguments;

use serde_json::{Map, Value};
use std::process::ExitCode;
use std::time::Duration;
use tobari_command::output::{self, Failure};
use tobari_command::stop::stop_signal;
use tobari_host::memory;
use tobari_node::{Reloader, Server, ServerOptions, Tls};

/// Serves until a stop signal.
pub(crate) fn run(arguments: &mut ServeArguments) -> Result<ExitCode, Failure> {
    let _made_up = trial::complete(arguments)?; // the folder exists as long as the server
    let mut options = options(arguments)?;
    options.jobs = arguments.offers()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let hangups = Hangups::new(); // before files are read: an early SIGHUP must not end the process
        let server = tobari_node::bind(options).await?;
        announce(&server, arguments)?;
        tokio::spawn(give_memory_back());
        tokio::spawn(hangups.reload(server.reloader()));
        server.run(stop_signal(arguments.until_stdin_closes)).await;
        Ok(ExitCode::SUCCESS)
    })
}

/// The signal for reading the files again (SIGHUP), where the system has it. Without a handler, the
/// signal would end the process.
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

/// Returns the memory of the last job to the system when no other job follows soon.
async fn give_memory_back() {
    loop {
        tokio::time::sleep(memory::LINGER).await;
        // settling may take a while, and live rooms must not wait
        let _ = tokio::task::spawn_blocking(memory::settle).await;
    }
}

/// Checks the options of the jobs, and returns the server's options without the jobs.
pub(super) fn options(arguments: &ServeArguments) -> Result<ServerOptions, Failure> {
    if arguments.shared.are_given() && !arguments.wants_more_than_calls() {
        let text = "--tokens, --open and --data need a job: add --search, --infer or --sense";
        return Err(Failure::Call(text.to_owned()));
    }
    arguments.check_jobs()?;
    let mut options = ServerOptions::new(arguments.addr);
    (options.pages, options.bundle) = (arguments.pages(), crate::pages::bundle());
    options.tls = match (&arguments.tls_cert, &arguments.tls_key) {
        (Some(cert), Some(key)) => Tls::Files { cert: cert.clone(), key: key.clone() },
        _ if arguments.tls_self_signed => Tls::SelfSigned,
        _ => Tls::None,
    };
    #[cfg(feature = "acme")]
    if let Some(acme) = arguments.acme.options() {
        options.tls = Tls::Acme(acme);
    }
    options.behind_proxy = arguments.behind_proxy;
    let (limits, given) = (&mut options.limits, &arguments.limits);
    limits.connections = given.max_connections.unwrap_or(limits.connections);
    limits.client_connections = given.max_client_connections.unwrap_or(limits.client_connections);
    limits.client_share = given.client_share.unwrap_or(limits.client_share);
    let (four, six) = limits.client_prefix;
    limits.client_prefix = (given.client_prefix_v4.unwrap_or(four), given.client_prefix_v6.unwrap_or(six));
    limits.body_bytes = given.max_body_memory.unwrap_or(limits.body_bytes);
    limits.drain = Duration::from_secs(arguments.drain.into());
    options.web.clone_from(&arguments.web);
    options.host_names.clone_from(&arguments.host_name);
    options.web_origins.clone_from(&arguments.web_origin);
    options.web_servers.clone_from(&arguments.web_server);
    Ok(options)
}

/// Prints the address of the server and the messages of its jobs.
fn announce(server: &Server, arguments: &ServeArguments) -> Result<(), Failure> {
    let fingerprint = server.certificate_fingerprint().map(|fingerprint| fingerprint.to_string());
    let told = server.told();
    if arguments.trial {
        output::say(trial::TOLD);
    }
    told.warnings.iter().for_each(output::say);
    if arguments.json {
        // a parent process recognizes the line by its first key
        let mut line = Map::new();
        line.insert("listening".to_owned(), server.url().into());
        line.insert("page_sha256".to_owned(), server.page_digest().to_string().into());
        line.extend(fingerprint.map(|fingerprint| ("tls_fingerprint".to_owned(), fingerprint.into())));
        line.extend(told.members.into_iter().map(|(name, value)| (name.to_owned(), value)));
        return output::json(&Value::Object(line));
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
    told.lines.iter().for_each(output::result);
    if arguments.shared.open {
        output::say("warning: anybody may ask who reaches this address, and budgets hold nobody");
    }
    Ok(())
}
