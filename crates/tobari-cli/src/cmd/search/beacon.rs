//! `tobari search beacon`: a Beacon on this machine, whose every question becomes a query under encryption.
//!
//! A variant that no table lists is answered here: the list of sites is public, and the server is not asked.

use super::arguments::BeaconArguments;
use super::remote::{self, Remote};
use crate::cmd::serve::stop_signal;
use crate::output::{self, Failure};
use serde_json::json;
use std::process::ExitCode;
use std::sync::Arc;
use tobari_apps::search::client::Found;
use tobari_apps::search::question::Wish;
use tobari_apps::search::server::Granularity;
use tobari_apps::search::table::Question;
use tobari_server::beacon::{Beacon, BeaconQuery, BeaconSource};

/// Serves until it is told to stop.
pub(crate) fn run(arguments: &BeaconArguments) -> Result<ExitCode, Failure> {
    if arguments.remote.decoys > 1 {
        let text = "expected --hidden, which hides each place among all places, found --decoys: a beacon is asked \
                    about many variants, and decoys hide one";
        return Err(Failure::Call(text.to_owned()));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let remotes: Vec<Remote> = remote::all(&arguments.remote).await?.into_iter().collect::<Result<_, _>>()?;
        if let Some(remote) = remotes.iter().find(|remote| remote.told().catalogue.sites().is_none()) {
            return Err(Failure::Work(format!("{}: expected a table of sites, found one of keys", remote.url)));
        }
        let (remotes, hidden) = (Arc::new(remotes), arguments.hidden);
        let source: BeaconSource = Arc::new(move |query| {
            let remotes = Arc::clone(&remotes);
            Box::pin(async move { count(&remotes, &query, hidden).await.map_err(|failure| failure.to_string()) })
        });
        let beacon = Beacon::bind(arguments.listen, source).await?;
        let url = format!("http://{}", beacon.local_addr());
        if arguments.json {
            output::json(&json!({ "listening": url }))?;
        } else {
            output::result(format!("listening on {url}"));
        }
        beacon.run(stop_signal(false)).await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// How often a variant occurs at all servers together.
async fn count(remotes: &[Remote], query: &BeaconQuery, hidden: bool) -> Result<u64, Failure> {
    let mut count = 0;
    for remote in remotes {
        let Some(start) = site(remote, query) else { continue };
        let granularity = if query.count { Granularity::Count } else { Granularity::Boolean };
        let question = Question::Window { start, length: 1, pattern: 1 };
        let connection = &mut remote.connection();
        let found = match hidden {
            true => remote.ask_hidden(connection, &question, granularity).await?,
            false => remote.ask(connection, &question, Wish { granularity, longest: false, places: 1 }).await?,
        };
        if let Found::Present(found) = found {
            count += found.unwrap_or(1);
        }
    }
    Ok(count)
}

/// The site of a variant; its chromosome may have `chr` before it or not.
fn site(remote: &Remote, query: &BeaconQuery) -> Option<usize> {
    let told = remote.told();
    let sites = told.catalogue.sites()?;
    let alleles = Some((&*query.reference, &*query.alternate));
    let bare = query.chromosome.strip_prefix("chr").unwrap_or(&query.chromosome);
    let names = [query.chromosome.clone(), bare.to_owned(), format!("chr{bare}")];
    names.iter().find_map(|name| sites.site_at(name, query.position, alleles).ok())
}
