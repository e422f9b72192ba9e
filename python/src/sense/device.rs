//! A device: it encrypts rows of readings to frames.

use crate::arrays;
use crate::errors::{failed, fault, malformed};
use crate::work::pieces;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};
use tobari_device::{self as sealing, P1, P17, Profile, READINGS, Stamp, U25, U28};
use tobari_sense::registry::Token;
use tobari_sense::schema::{ProfileName, Schema};
use tobari_sense_files::CounterFile;
use zeroize::Zeroizing;

/// Frames that are sealed between two checks for Ctrl-C.
const FRAMES: usize = 64;

/// The sealing device, by profile.
enum Sealer {
    P1(Box<sealing::Device<P1, CounterFile>>),
    U25(Box<sealing::Device<U25, CounterFile>>),
    P17(Box<sealing::Device<P17, CounterFile>>),
    U28(Box<sealing::Device<U28, CounterFile>>),
}

/// Seals readings under its own key. Its counter is a file, because a repeated counter would reveal
/// readings. Its secret is never printed or pickled, and is wiped on release.
#[pyclass(frozen, module = "tobari.sense")]
pub(super) struct Device {
    number: u32,
    schema: Schema,
    sealer: Mutex<Sealer>,
}

#[pymethods]
impl Device {
    /// A device from its token, the schema as JSON, and the file of its counter. With `new` the
    /// file is made and must not exist; otherwise it must exist.
    #[new]
    #[pyo3(signature = (token, schema, counter, new=false))]
    fn open(token: &str, schema: &str, counter: PathBuf, new: bool) -> PyResult<Self> {
        let token = Token::decode(token.trim_end()).map_err(malformed)?;
        let schema = super::holder::schema(schema)?;
        if token.profile != schema.profile {
            return Err(failed(format!(
                "expected a device of profile {}, found one of {}",
                schema.profile, token.profile
            )));
        }
        if new {
            CounterFile::create(&counter).map_err(failed)?;
        }
        let counter = CounterFile::open(&counter).map_err(failed)?;
        let (root, number) = (token.root(), token.number);
        let sealer = match token.profile {
            ProfileName::P1 => Sealer::P1(Box::new(sealing::Device::open(&root, number, counter).map_err(failed)?)),
            ProfileName::U25 => Sealer::U25(Box::new(sealing::Device::open(&root, number, counter).map_err(failed)?)),
            ProfileName::P17 => Sealer::P17(Box::new(sealing::Device::open(&root, number, counter).map_err(failed)?)),
            ProfileName::U28 => Sealer::U28(Box::new(sealing::Device::open(&root, number, counter).map_err(failed)?)),
        };
        Ok(Self { number: number.value(), schema, sealer: Mutex::new(sealer) })
    }

    /// The device's number on servers.
    #[getter]
    fn number(&self) -> u32 {
        self.number
    }

    /// Seals rows of readings to frames, with a column for each reading of the schema. A frame has
    /// as many rows as the schema says, and the last one may have fewer. In profiles with a time,
    /// `times` are those of the rows in seconds since 1970, now by default, and a frame has rows of
    /// one slice. If one reading is outside the schema's range, nothing is sealed.
    #[pyo3(signature = (readings, times=None))]
    fn seal<'py>(
        &self,
        py: Python<'py>,
        readings: &Bound<'_, PyAny>,
        times: Option<Vec<f64>>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let rows = arrays::rows(readings)?;
        let length = self.schema.slice_seconds().map_err(failed)?;
        if length == 0 && times.is_some() {
            return Err(failed("expected no times, because frames of this profile have none: use profile u28 or p17"));
        }
        if times.as_ref().is_some_and(|times| times.len() != rows.len()) {
            return Err(failed(format!("expected a time for each of {} rows, found another number", rows.len())));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        let begin = |row: usize| {
            let time = times.as_ref().map_or(now, |times| times[row]);
            let is_time = (0.0..(1u64 << 40) as f64).contains(&time);
            let time = is_time.then_some(time as u64).ok_or_else(|| failed("expected times in seconds since 1970"))?;
            // frames of version 1 have no slices
            Ok::<u64, PyErr>(time.checked_div(length).map_or(0, |slices| slices * length))
        };
        let begins = (0..rows.len()).map(begin).collect::<PyResult<Vec<u64>>>()?;
        let numbers = pieces(py, rows.chunks(FRAMES * self.schema.samples), |rows| {
            let numbers = rows.iter().map(|row| self.schema.numbers(row).map_err(failed));
            Ok(Zeroizing::new(numbers.collect::<PyResult<Vec<Vec<u32>>>>()?))
        })?;
        let mut slices: BTreeMap<u64, Vec<&Vec<u32>>> = BTreeMap::new();
        for (begin, row) in begins.into_iter().zip(numbers.iter().flat_map(|rows| rows.iter())) {
            slices.entry(begin).or_default().push(row);
        }
        let groups =
            slices.iter().flat_map(|(begin, rows)| rows.chunks(self.schema.samples).map(|rows| (*begin, rows)));
        let groups: Vec<_> = groups.collect();
        let frames = pieces(py, groups.chunks(FRAMES), |groups| {
            let mut sealer = self.sealer.lock().map_err(|_| fault())?;
            let mut all = Vec::with_capacity(groups.len());
            for (begin, rows) in groups {
                let rows = Zeroizing::new(rows.iter().map(|row| (*row).clone()).collect::<Vec<_>>());
                let readings = Zeroizing::new(self.schema.frames(&rows).map_err(failed)?);
                for (sheet, readings) in (0..).zip(readings.iter()) {
                    let stamp = Stamp::new(*begin, sheet).ok_or_else(fault)?;
                    all.push(match &mut *sealer {
                        Sealer::P1(device) => sealed(device, stamp, readings),
                        Sealer::U25(device) => sealed(device, stamp, readings),
                        Sealer::P17(device) => sealed(device, stamp, readings),
                        Sealer::U28(device) => sealed(device, stamp, readings),
                    }?);
                }
            }
            Ok(all)
        })?;
        Ok(frames.iter().flatten().map(|frame| PyBytes::new(py, frame)).collect())
    }

    fn __repr__(&self) -> String {
        format!("<sense.Device {} of profile {}>", self.number, self.schema.profile)
    }
}

fn sealed<P: Profile>(
    device: &mut sealing::Device<P, CounterFile>,
    stamp: Stamp,
    readings: &[u8; READINGS],
) -> PyResult<Vec<u8>> {
    let mut frame = P::EMPTY;
    device.seal_at(stamp.into(), readings, &mut frame).map_err(failed)?;
    Ok(frame.as_ref().to_vec())
}
