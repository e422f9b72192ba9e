//! `tobari call open`: decrypts a recording of sums with the link of its call.

use super::arguments::OpenArguments;
use serde_json::json;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::process::ExitCode;
use tobari_call::PACKET_SAMPLES;
use tobari_call::live::audio::Limiter;
use tobari_call::live::recording::{self, HEAD_BYTES, Playback, RECORD_HEAD_BYTES, RecordKind};
use tobari_call::live::{OpenedTick, RoomLink};
use tobari_call_files::wav;
use tobari_command::output::{self, Failure};

/// The longest silence written for missing ticks: ten minutes.
const MOST_MISSING: u32 = 30_000;

/// What was found in the file.
#[derive(Default)]
struct OpenedRecording {
    samples: Vec<i16>,
    limiter: Limiter,
    last: Option<u32>,
    ticks: u32,
    missing: u32,
    refused: u32,
    speakers: usize,
}

impl OpenedRecording {
    fn take(&mut self, heard: &OpenedTick) {
        if let Some(last) = self.last {
            let gap = heard.tick.saturating_sub(last + 1).min(MOST_MISSING);
            self.missing += gap;
            (0..gap).for_each(|_| self.samples.extend(self.limiter.limit(&[0; PACKET_SAMPLES])));
        }
        let mut frame = [0; PACKET_SAMPLES];
        frame.iter_mut().zip(heard.samples.iter()).for_each(|(place, sample)| *place = *sample);
        self.samples.extend(self.limiter.limit(&frame));
        (self.last, self.ticks) = (Some(heard.tick), self.ticks + 1);
        self.speakers = self.speakers.max(heard.speakers.len());
    }
}

/// Decrypts a recording.
pub(super) fn open(arguments: &OpenArguments) -> Result<ExitCode, Failure> {
    let link: RoomLink = arguments.link.parse().map_err(|error| Failure::Call(format!("{error}")))?;
    let name = arguments.recording.display().to_string();
    let damaged = |error: &dyn std::fmt::Display| Failure::Work(format!("{name}: {error}"));
    let mut file = BufReader::new(File::open(&arguments.recording).map_err(|error| damaged(&error))?);
    let mut head = [0; HEAD_BYTES];
    file.read_exact(&mut head).map_err(|_| damaged(&recording::RecordingError::NotARecording))?;
    let room = recording::read_head(&head).map_err(|error| damaged(&error))?;
    let mut playback = Playback::new(&link, room).map_err(|error| damaged(&error))?;
    let (mut found, mut content, mut cut) = (OpenedRecording::default(), Vec::new(), false);
    loop {
        let mut head = [0; RECORD_HEAD_BYTES];
        match read_whole(&mut file, &mut head).map_err(|error| damaged(&error))? {
            0 => break,
            RECORD_HEAD_BYTES => {}
            _ => cut = true,
        }
        if cut {
            break;
        }
        let (kind, length) = recording::read_record_head(&head).map_err(|error| damaged(&error))?;
        content.resize(length, 0);
        if read_whole(&mut file, &mut content).map_err(|error| damaged(&error))? < length {
            cut = true;
            break;
        }
        match kind {
            RecordKind::Roster => playback.roster(&content).map_err(|error| damaged(&error))?,
            RecordKind::Sum => match playback.sum(&content) {
                Ok(heard) => heard.iter().for_each(|heard| found.take(heard)),
                Err(_) => found.refused += 1,
            },
        }
    }
    report(arguments, &found, cut)
}

/// Fills the buffer, or reads to the end of the file.
fn read_whole(file: &mut impl Read, bytes: &mut [u8]) -> std::io::Result<usize> {
    let mut read = 0;
    while read < bytes.len() {
        match file.read(&mut bytes[read..]) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

fn report(arguments: &OpenArguments, found: &OpenedRecording, cut: bool) -> Result<ExitCode, Failure> {
    wav::write_pcm16(&arguments.output, &found.samples)?;
    let seconds = found.samples.len() as f64 / f64::from(wav::SAMPLE_RATE_HZ);
    if arguments.json {
        output::json(&json!({
            "output": arguments.output.display().to_string(), "seconds": seconds, "ticks": found.ticks, "missing": found.missing,
            "refused": found.refused, "speakers": found.speakers, "cut_short": cut,
        }))?;
    } else {
        output::say(format!("{seconds:.2} s opened, at most {} speakers at once", found.speakers));
        if found.missing > 0 {
            output::say(format!("{} ticks are missing and are silent", found.missing));
        }
        if cut {
            output::say("the recording ends in the middle of a record");
        }
    }
    if found.refused > 0 {
        let text = format!("{} sums were not what those in their lists had sent, and are left out", found.refused);
        return Err(Failure::Work(text));
    }
    Ok(ExitCode::SUCCESS)
}
