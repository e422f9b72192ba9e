//! A device: it encrypts rows of readings to frames.

use crate::arrays;
use crate::errors::{failed, fault, malformed};
use crate::work::pieces;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use std::sync::Mutex;
use tobari_device::{self as sealing, P1, Profile, READINGS, U25};
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
        };
        Ok(Self { number: number.value(), schema, sealer: Mutex::new(sealer) })
    }

    /// The device's number on servers.
    #[getter]
    fn number(&self) -> u32 {
        self.number
    }

    /// Seals rows of readings to frames, with a column for each channel of the schema. A frame has
    /// as many rows as the schema says, and the last one may have fewer. If one reading is outside
    /// the schema's range, nothing is sealed.
    fn seal<'py>(&self, py: Python<'py>, readings: &Bound<'_, PyAny>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let rows = arrays::rows(readings)?;
        let all = FRAMES * self.schema.samples;
        let bytes = pieces(py, rows.chunks(all), |rows| {
            let bytes = rows.iter().map(|row| self.schema.bytes(row).map_err(failed));
            Ok(Zeroizing::new(bytes.collect::<PyResult<Vec<Vec<u8>>>>()?))
        })?;
        let frames = pieces(py, bytes.iter(), |bytes| {
            let mut sealer = self.sealer.lock().map_err(|_| fault())?;
            let of = |rows: &[Vec<u8>]| {
                let readings = Zeroizing::new(self.schema.frame(rows).map_err(failed)?);
                match &mut *sealer {
                    Sealer::P1(device) => sealed(device, &readings),
                    Sealer::U25(device) => sealed(device, &readings),
                }
            };
            bytes.chunks(self.schema.samples).map(of).collect::<PyResult<Vec<_>>>()
        })?;
        Ok(frames.iter().flatten().map(|frame| PyBytes::new(py, frame)).collect())
    }

    fn __repr__(&self) -> String {
        format!("<sense.Device {} of profile {}>", self.number, self.schema.profile)
    }
}

fn sealed<P: Profile>(device: &mut sealing::Device<P, CounterFile>, readings: &[u8; READINGS]) -> PyResult<Vec<u8>> {
    let mut frame = P::EMPTY;
    device.seal(readings, &mut frame).map_err(failed)?;
    Ok(frame.as_ref().to_vec())
}
