//! `tobari healthcheck`: asks a server whether it answers, for containers and service managers.
//!
//! The status is 0 for a healthy server and 1 for everything else, because these are the two that a
//! container's health check may have. A wrong command line stays at 2.

use clap::Args;
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;
use tobari_client::{HttpClient, HttpRequest};
use tobari_command::output::{self, Failure};
use tobari_command::reach::ReachArguments;
use tobari_command::replies::shown;

/// The address where `tobari serve` listens without options.
const DEFAULT_SERVER: &str = "http://127.0.0.1:7610";
/// The most bytes of a reply: the state of a few jobs.
const MOST: usize = 1 << 16;
/// Characters of a reply to show.
const MOST_SHOWN: usize = 300;
/// The longest time for `--timeout`, in seconds.
const LONGEST: u64 = 3600;

/// `tobari healthcheck`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari healthcheck --server http://127.0.0.1:7610
    tobari healthcheck --ready --server http://127.0.0.1:7610")]
pub(crate) struct HealthcheckArguments {
    /// Also require that every job is ready. Without this option, a server that answers is healthy,
    /// even if a disk is full.
    #[arg(long)]
    ready: bool,
    /// Wait this many seconds for the answer.
    #[arg(long, default_value_t = 5, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=LONGEST))]
    timeout: u64,
    /// Print one JSON object on standard output.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: ReachArguments,
}

/// Asks once.
pub(crate) fn run(arguments: &HealthcheckArguments) -> Result<ExitCode, Failure> {
    let server = arguments.reach.server.as_deref().unwrap_or(DEFAULT_SERVER);
    let reach = arguments.reach.reach()?;
    let path = if arguments.ready { "/readyz" } else { "/healthz" };
    let patience = Duration::from_secs(arguments.timeout);
    let request = HttpRequest {
        body: None,
        path: path.to_owned(),
        headers: reach.token.iter().map(|token| ("authorization", format!("Bearer {}", **token))).collect(),
        most: MOST,
        patience,
    };
    let mut connection = HttpClient::new(server, &reach.tls)?.connection();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let reply = runtime.block_on(connection.send(request));
    let reply =
        reply.map_err(|error| unhealthy(server, &format!("{error}. Is the server running, and at this URL?")))?;
    let text = shown(&String::from_utf8_lossy(&reply.body), MOST_SHOWN);
    let expected = if arguments.ready { "ready" } else { "ok" };
    match reply.status {
        200 if text == expected => healthy(arguments, server),
        200 => Err(unhealthy(
            server,
            &format!("{path} answered {text:?} instead of {expected:?}: this is no Tobari server"),
        )),
        503 if arguments.ready => {
            Err(unhealthy(server, &format!("not ready: {text}. The server's log has the reason")))
        }
        status => Err(unhealthy(server, &format!("{path} answered with status {status}: {text}"))),
    }
}

fn healthy(arguments: &HealthcheckArguments, server: &str) -> Result<ExitCode, Failure> {
    let state = if arguments.ready { "ready" } else { "alive" };
    if arguments.json {
        output::json(&json!({ "server": server, "healthy": true, "state": state }))?;
    } else {
        output::result(format!("{server} is {state}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn unhealthy(server: &str, why: &str) -> Failure {
    Failure::Work(format!("{server} is not healthy: {why}"))
}
