//! The job of sensors over real sockets.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

#[path = "../../../../../crates/node/tests/support/mod.rs"]
mod support;
mod tokens;
mod visitors;

use std::path::Path;
use support::Server;
use tobari_sense_edge::serve::SenseOptions;

/// A server with a folder of frames. One client may use all resources, because all tests come from
/// one address.
async fn served(folder: &Path, change: impl FnOnce(&mut SenseOptions)) -> Server {
    let (mut house, mut sense) = (support::on_any_port(), SenseOptions::new(folder.to_owned()));
    change(&mut sense);
    house.limits.client_share = 100;
    house.jobs.push(Box::new(sense));
    Server::of(house).await
}
