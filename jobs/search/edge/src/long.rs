//! Patterns of more than ten sites: the transform on refreshed bits.
//!
//! All values are in memory, and the steps run on one thread.

use crate::plan::window;
use serde_json::json;
use std::process::ExitCode;
use std::time::Instant;
use tobari_command::output::{self, Failure, Progress};
use tobari_host::memory;
use tobari_lattice::params::{LatticeParameters, NamedSet, Security};
use tobari_lattice::rlwe::SecretKey;
use tobari_plan::plan::bytes;
use tobari_reference::{RunArguments, generator};
use tobari_search::pbwt::Size;
use tobari_search::pbwt::bits::{Layout, SET, client, server::Server};

/// Bytes that the process needs besides keys and maps: ciphertexts, digits, and a site's diagonals.
const BESIDES: u64 = 768 << 20;

/// Bytes of a symbol.
const SYMBOL: u64 = 5 << 19;

/// A search of a made-up panel, prepared.
struct Search {
    parameters: LatticeParameters,
    layout: Layout,
    server: Server,
    /// Of the question at place 0, which some haplotype has.
    pattern: Vec<bool>,
    expected: u64,
}

impl Search {
    fn new(size: Size) -> Result<Self, Failure> {
        let set = NamedSet::from_name(SET).ok_or_else(|| Failure::Work(format!("there is no set {SET}")))?;
        let parameters = set.parameters()?;
        let layout = Layout::new(&parameters, size).map_err(|error| Failure::Call(error.to_string()))?;
        let windows: Vec<Vec<Vec<bool>>> = (0..size.places).map(|place| window(size, place)).collect();
        let pattern: Vec<bool> = windows[0].iter().map(|site| site[0]).collect();
        let has = |haplotype: &usize| windows[0].iter().zip(&pattern).all(|(site, a)| site[*haplotype] == *a);
        let expected = (0..size.haplotypes).filter(has).count() as u64;
        let server = Server::new(&parameters, &layout, &windows)?;
        Ok(Self { parameters, layout, server, pattern, expected })
    }

    fn keys(&self) -> u64 {
        (self.server.refresh().keys_memory() + self.layout.keys_memory(&self.parameters)) as u64
    }

    fn needed(&self) -> u64 {
        self.keys() + self.server.memory() as u64 + BESIDES + SYMBOL * self.pattern.len() as u64
    }

    /// The steps, for people.
    fn show(&self) {
        let Size { haplotypes, places, length } = self.layout.size();
        let places = if places == 1 { "one place".to_owned() } else { format!("{places} places") };
        output::result(format!(
            "{length} encrypted alleles through the transform of {haplotypes} haplotypes at {places}, on refreshed bits"
        ));
        let bits = self.parameters.security().map_or(0, Security::bits);
        output::result(format!(
            "  set {SET}: degree {}, {} bits of modulus, {bits} bits of security",
            self.parameters.degree(),
            self.parameters.log_qp()
        ));
        output::result(format!(
            "  {length} refreshes of {} slots, one before each symbol but the first, and one of the answer",
            self.layout.own_slots(),
        ));
        output::result("  a refresh squares errors: the answer is exact for every length, or refused by its bound");
        output::result(format!(
            "  keys {}, maps of the refresh {}, about {} in all; one thread, no tier",
            bytes(self.keys()),
            bytes(self.server.memory() as u64),
            bytes(self.needed())
        ));
    }
}

/// Prints what a search takes, and runs it if `run` is set.
pub(crate) fn explain(size: Size, common: &RunArguments, run: bool) -> Result<ExitCode, Failure> {
    let unused = !common.tiers.is_empty() || common.recalibrate || common.threads.is_some_and(|threads| threads > 1);
    if unused {
        return Err(Failure::Call(
            "expected no --tier, --recalibrate or --threads above 1 with pbwt-bits, found one: it runs in memory, on one \
             thread"
                .to_owned(),
        ));
    }
    let search = Search::new(size)?;
    if common.json {
        output::json(&json!({
            "job": "search", "method": "pbwt-he", "set": SET, "length": size.length, "haplotypes": size.haplotypes,
            "places": size.places, "refreshes": size.length, "key_bytes": search.keys(), "needed": search.needed(),
            "limit": common.memory,
        }))?;
    } else {
        search.show();
    }
    if search.needed() > common.memory {
        return Err(Failure::Work(format!(
            "expected --memory of at least {}, which keys and maps take in memory, found {}",
            bytes(search.needed()),
            bytes(common.memory)
        )));
    }
    if !run {
        return Ok(ExitCode::SUCCESS);
    }
    measure(&search, common)
}

/// Runs a search, and compares its count.
fn measure(search: &Search, common: &RunArguments) -> Result<ExitCode, Failure> {
    let length = search.pattern.len();
    let secret = SecretKey::generate(&search.parameters, &mut generator(11, 0));
    let rng = &mut generator(12, 0);
    let start = Instant::now();
    let keys = client::keys(&search.layout, search.server.refresh(), &secret, rng)?;
    let made = start.elapsed().as_secs_f64();
    let symbol = |(site, allele): (usize, &bool)| client::symbol(&search.layout, &secret, 0, site, *allele, rng);
    let symbols = search.pattern.iter().enumerate().map(symbol).collect::<Result<Vec<_>, _>>()?;
    let (progress, start) = (Progress::new("sites", length as u64), Instant::now());
    let shown = |site: usize| progress.show(site as u64 + 1);
    let answer = search.server.answer(&symbols, &keys, &mut generator(14, 0), shown)?;
    let seconds = start.elapsed().as_secs_f64();
    let found = client::count(&search.layout, &secret, 0, &answer.count)?;
    let right = found == search.expected;
    let peak = memory::resident().map(|[_, peak]| peak);
    let worst = answer.worst.map(|error| -error.log2());
    if common.json {
        output::json(&json!({
            "job": "search", "right": right, "count": found, "seconds": seconds, "key_seconds": made, "peak": peak,
            "worst_bits": worst, "flood_margin": answer.margin,
        }))?;
    } else {
        output::result(format!(
            "run: {seconds:.1} s, {:.2} s a site, and {made:.1} s for keys; {} of the process in memory at most",
            seconds / length as f64,
            peak.map_or_else(|| "an unknown part".to_owned(), bytes),
        ));
        output::result(format!(
            "  by the bounds every bit was right to {:.1} bits before a refresh and {:.1} after it; the answer is flooded \
             to a statistical distance of 2^-{}",
            worst[0], worst[1], answer.margin
        ));
        output::result(format!(
            "  {found} haplotypes have the pattern: {}",
            if right { "the count of the clear run" } else { "THE RESULT IS WRONG" }
        ));
    }
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
