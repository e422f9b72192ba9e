//! The demonstration of calls: three voices, mixed by a server process without a key, and compared
//! with the plain sum; and attacks on calls.

mod attack;

pub use attack::attacks;

use crate::command::call_key::CallKey;
use crate::command::mixing::{self, Halfway, Outcome, Request};
use std::sync::Arc;
use std::time::Instant;
use tobari_call::program;
use tobari_call_files::wav;
use tobari_client::ClientTls;
use tobari_command::blind_server::BlindProcess;
use tobari_command::demo::Line;
use tobari_command::output::Failure;
use tobari_curve::elgamal::Mode;
use tobari_curve::params::{Parameters, SecurityFloor};
use tobari_curve::{Curve, PointEncoding};

/// Three spoken clips, 16 kHz mono 16-bit.
pub const CLIPS: [(&str, &[u8]); 3] = [
    ("alice", include_bytes!("../../assets/alice.wav")),
    ("bob", include_bytes!("../../assets/bob.wav")),
    ("carol", include_bytes!("../../assets/carol.wav")),
];

/// The paper's cost of one sample on secp256k1, in clock ticks of its client: table 4, four threads
/// at 1.4 GHz.
const PAPER_TICKS: PaperTicks = PaperTicks { encrypt: 12_557, add: 582, decrypt: 39_404, hertz: 1.4e9 };

struct PaperTicks {
    encrypt: u64,
    add: u64,
    decrypt: u64,
    hertz: f64,
}

/// The rows of the demonstration: a call in each mode.
///
/// # Errors
/// [`Failure`] if a server cannot be started, or the call ends early.
pub fn demo() -> Result<Vec<Line>, Failure> {
    Ok(vec![call(Mode::Elgamal)?, call(Mode::ElgamalShared)?])
}

/// A call of three in this mode: mixed by a blind process, compared sample by sample with the plain
/// sum.
fn call(mode: Mode) -> Result<Line, Failure> {
    let speakers = clips()?;
    let server = BlindProcess::start(false)?;
    let started = Instant::now();
    let outcome = mix(&server, fresh_key(mode)?, speakers.clone(), None)?;
    let seconds = started.elapsed().as_secs_f64();
    let plain = program::mix(&speakers.iter().map(AsRef::as_ref).collect::<Vec<_>>());
    let exact = outcome.samples == plain;
    let duration = plain.len() as f64 / f64::from(wav::SAMPLE_RATE_HZ);
    Ok(Line {
        job: "call",
        mode: mode.name(),
        right: exact,
        exact,
        seconds,
        server_saw_bytes: outcome.sent_bytes,
        paper_seconds: paper_seconds(&speakers),
        what: format!(
            "{} voices, {duration:.1} s, mixed by process {}; {} samples equal the plain sum",
            speakers.len(),
            server.pid(),
            outcome.samples.iter().zip(&plain).filter(|(ours, plain)| ours == plain).count()
        ),
    })
}

/// Seconds by the paper's figures to encrypt every sample, add, and decrypt the sum.
fn paper_seconds(speakers: &[Arc<[i16]>]) -> f64 {
    let encrypted: usize = speakers.iter().map(|speaker| speaker.len()).sum();
    let longest = speakers.iter().map(|speaker| speaker.len()).max().unwrap_or(0);
    let additions = encrypted - longest;
    let ticks = encrypted as u64 * PAPER_TICKS.encrypt
        + additions as u64 * PAPER_TICKS.add
        + longest as u64 * PAPER_TICKS.decrypt;
    ticks as f64 / PAPER_TICKS.hertz
}

fn clips() -> Result<Vec<Arc<[i16]>>, Failure> {
    let clips = CLIPS.iter().map(|(name, bytes)| Ok(wav::decode_speech(bytes, name)?.into()));
    clips.collect()
}

fn fresh_key(mode: Mode) -> Result<CallKey, Failure> {
    CallKey::generate(mode, Parameters::new(Curve::Secp256k1, SecurityFloor::Standard)?)
}

fn mix(
    server: &BlindProcess,
    key: CallKey,
    speakers: Vec<Arc<[i16]>>,
    halfway: Option<Halfway>,
) -> Result<Outcome, Failure> {
    let request = Request {
        speakers,
        key,
        server: server.url().to_owned(),
        tls: ClientTls::System,
        uplink: PointEncoding::Uncompressed,
        downlink: PointEncoding::Compressed,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(mixing::mix(request, halfway))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clips_are_16_khz_speech_that_overflows_16_bits_when_mixed() {
        let speakers = clips().unwrap();
        assert_eq!(speakers.len(), 3);
        let plain = program::mix(&speakers.iter().map(AsRef::as_ref).collect::<Vec<_>>());
        assert!(plain.len() >= 2 * 16_000);
        assert!(plain.iter().any(|sample| i16::try_from(*sample).is_err()), "the wide sum is exercised");
    }

    #[test]
    fn the_papers_seconds_follow_its_table() {
        let one_second: Arc<[i16]> = vec![0; 16_000].into();
        // 2 x 12557 + 582 + 39404 ticks a sample
        let expected = 16_000.0 * 65_100.0 / 1.4e9;
        assert!((paper_seconds(&[one_second.clone(), one_second]) - expected).abs() < 1e-9);
    }
}
