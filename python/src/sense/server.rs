//! The server's half, in memory: frames, orders, answers. `tobari serve --sense` is the variant
//! that keeps frames on the disk.

use super::parts::of_part;
use crate::errors::{failed, fault, malformed, refused};
use crate::randomness::generator;
use crate::work::{Watch, long, pieces};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use tobari_device::{DeviceNumber, MacKey, Profile, Stamp};
use tobari_engine::BgvValue;
use tobari_lattice::bgv::{EvaluationKeys, SeededCiphertext};
use tobari_lattice::wire;
use tobari_octets::{hex, sha256};
use tobari_plan::engine::Engine;
use tobari_sense::bundle::Bundle;
use tobari_sense::cloud::{Cloud, CloudError, Frames, Material, Prepared};
use tobari_sense::ingest::{FrameHistory, Gate, IngestCounts, Verdict};
use tobari_sense::order::{Order, OrderError, Seat};
use tobari_sense::program::Input;
use tobari_sense::setting::{Setting, key_name};
use tobari_sense::with_profile;

/// Frames that are processed between two checks for Ctrl-C.
const FRAMES: usize = 256;

/// The key holder's data, decoded.
struct Given {
    setting: Setting,
    seats: Vec<Seat>,
    macs: BTreeMap<DeviceNumber, [u8; 32]>,
    /// None for cohorts that other servers convert.
    cohorts: Vec<Option<Vec<SeededCiphertext>>>,
    keys: BTreeMap<String, Arc<EvaluationKeys>>,
}

/// A reference to [`Given`].
struct Loan<'a>(&'a Given);

impl Material for Loan<'_> {
    fn secret(&mut self, cohort: usize, i: usize) -> Option<SeededCiphertext> {
        self.0.cohorts.get(cohort)?.as_ref()?.get(i).cloned()
    }

    fn key(&mut self, input: Input) -> Option<Arc<EvaluationKeys>> {
        self.0.keys.get(&key_name(input)?).cloned()
    }
}

/// Accepted frames, and the orders.
#[derive(Default)]
struct State {
    seen: FrameHistory,
    counts: IngestCounts,
    /// For each frame its time, or its time of arrival if it has none, in milliseconds since 1970;
    /// its sheet, its device, and its bytes.
    frames: Vec<(u64, u16, DeviceNumber, Arc<[u8]>)>,
    orders: BTreeMap<String, Order>,
}

/// A fleet's server: it has frames, and keys that decrypt nothing.
#[pyclass(frozen, module = "tobari.sense")]
pub(super) struct Server {
    fleet: String,
    given: Arc<Given>,
    gate: Arc<Gate>,
    cloud: Arc<Cloud>,
    state: Mutex<State>,
}

impl Server {
    fn state(&self) -> PyResult<MutexGuard<'_, State>> {
        self.state.lock().map_err(|_| fault())
    }
}

fn object<'a>(objects: &'a BTreeMap<String, Vec<u8>>, name: &str) -> PyResult<&'a [u8]> {
    let bytes = objects.get(name).ok_or_else(|| refused(format!("expected the object {name}, found none")))?;
    if hex(&sha256(bytes)) == name {
        Ok(bytes)
    } else {
        Err(malformed("expected an object that its name is of, found another"))
    }
}

fn given(bundle: &Bundle, objects: &BTreeMap<String, Vec<u8>>, watch: &Watch) -> PyResult<Given> {
    let setting = Setting::of(bundle.profile).map_err(failed)?;
    let mut cohorts = Vec::with_capacity(bundle.cohorts.len());
    for names in &bundle.cohorts {
        let decode = |name: &String| {
            watch.wanted()?;
            let bytes = wire::without_identity(object(objects, name)?).map_err(malformed)?;
            wire::decode_seeded_ciphertext(bytes, &setting.parameters).map_err(malformed)
        };
        let here = names.iter().all(|name| objects.contains_key(name));
        cohorts.push(if here { Some(names.iter().map(decode).collect::<PyResult<Vec<_>>>()?) } else { None });
    }
    let mut keys = BTreeMap::new();
    for (name, hash) in &bundle.keys {
        watch.wanted()?;
        let bytes = wire::without_identity(object(objects, hash)?).map_err(malformed)?;
        let key = wire::decode_evaluation_keys(bytes, &setting.parameters).map_err(malformed)?;
        keys.insert(name.clone(), Arc::new(key));
    }
    let macs = bundle.keys_of_devices().into_iter().map(|(number, mac, _)| (number, mac)).collect();
    Ok(Given { setting, seats: bundle.seats(), macs, cohorts, keys })
}

#[pymethods]
impl Server {
    /// A server from the key holder's data: a bundle, and objects by their SHA-256. Encrypted
    /// secrets of cohorts whose frames go to other servers may be missing.
    #[new]
    fn new(py: Python<'_>, bundle: &[u8], objects: BTreeMap<String, Vec<u8>>) -> PyResult<Self> {
        let bundle = Bundle::decode(bundle).map_err(malformed)?;
        let fleet = bundle.fleet.clone();
        let devices = bundle.keys_of_devices();
        let gate = Gate::new(bundle.profile, devices.iter().map(|(number, mac, takes)| (*number, mac, *takes)));
        let (given, cloud) = long(py, None, move |watch| {
            let given = given(&bundle, &objects, watch)?;
            let cloud = Cloud::new(given.setting.clone(), &mut generator()?).map_err(failed)?;
            Ok((given, cloud))
        })?;
        Ok(Self {
            fleet,
            given: Arc::new(given),
            gate: Arc::new(gate),
            cloud: Arc::new(cloud),
            state: Mutex::default(),
        })
    }

    /// A new server with the same keys, without frames and orders.
    fn fresh(&self) -> Self {
        let (fleet, given, cloud) = (self.fleet.clone(), Arc::clone(&self.given), Arc::clone(&self.cloud));
        Self { fleet, given, gate: Arc::clone(&self.gate), cloud, state: Mutex::default() }
    }

    /// The fleet's name.
    #[getter]
    fn fleet(&self) -> &str {
        &self.fleet
    }

    /// Accepts frames that arrived at a time in milliseconds since 1970. Returns the number of new
    /// frames, and the number refused for each reason. After Ctrl-C the frames before it stay
    /// accepted.
    fn take(&self, py: Python<'_>, frames: &[u8], time_ms: u64) -> PyResult<BTreeMap<&'static str, u64>> {
        let bytes = self.gate.frame_bytes();
        let counted = pieces(py, frames.chunks(FRAMES * bytes), |some| {
            let mut state = self.state()?;
            let mut counts = IngestCounts::default();
            for frame in some.chunks(bytes) {
                let (verdict, head) = match self.gate.check(frame) {
                    Ok(checked) if !checked.is_timely(time_ms / 1000) => (Verdict::Untimely, None),
                    Ok(checked) => (state.seen.admit(&checked), Some(checked.head)),
                    Err(refused) => (refused, None),
                };
                counts.count(verdict);
                if let (Verdict::Taken, Some(head)) = (verdict, head) {
                    // frames of version 2 have their own time
                    let time = head.stamp.map_or(time_ms, |stamp| 1000 * stamp.seconds());
                    state.frames.push((time, head.stamp.map_or(0, Stamp::sheet), head.device, frame.into()));
                }
            }
            state.counts.add(&counts);
            Ok(counts)
        })?;
        let mut counts = IngestCounts::default();
        counted.iter().for_each(|some| counts.add(some));
        Ok(counts.named().into_iter().collect())
    }

    /// The counts for all frames so far.
    fn counts(&self) -> PyResult<BTreeMap<&'static str, u64>> {
        Ok(self.state()?.counts.named().into_iter().collect())
    }

    /// Accepts an order: the computation of a question.
    fn order(&self, id: &str, order: &str) -> PyResult<()> {
        let order: Order = serde_json::from_str(order).map_err(malformed)?;
        order.check().map_err(failed)?;
        self.state()?.orders.insert(id.to_owned(), order);
        Ok(())
    }

    /// The starts of a question's windows that have frames, in milliseconds since 1970.
    fn windows(&self, id: &str) -> PyResult<BTreeSet<u64>> {
        let state = self.state()?;
        let order =
            state.orders.get(id).ok_or_else(|| refused("expected a question that was ordered, found another"))?;
        let of_sheet = state.frames.iter().filter(|(_, sheet, ..)| *sheet == order.sheet);
        let windows = order.windows();
        Ok(of_sheet.flat_map(|(time, ..)| windows.of(*time)).collect())
    }

    /// The result of a question for a window; none if too few devices have frames in it. With
    /// `part` it is the result of a part, to be merged with others: one device is enough.
    #[pyo3(signature = (id, start_ms, progress=None, part=false))]
    fn answer<'py>(
        &self,
        py: Python<'py>,
        id: &str,
        start_ms: u64,
        progress: Option<&Bound<'_, PyAny>>,
        part: bool,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let state = self.state()?;
        let order =
            state.orders.get(id).ok_or_else(|| refused("expected a question that was ordered, found another"))?;
        let (order, window) = (order.clone(), start_ms..order.windows().end(start_ms));
        let inside = state.frames.iter().filter(|(time, sheet, ..)| window.contains(time) && *sheet == order.sheet);
        let frames: Vec<_> = inside.map(|(_, _, number, frame)| (*number, Arc::clone(frame))).collect();
        drop(state);
        let order = if part { of_part(order) } else { order };
        let (given, cloud) = (Arc::clone(&self.given), Arc::clone(&self.cloud));
        let progress = progress.map(|progress| (progress, "window"));
        let answer = long(
            py,
            progress,
            move |watch| with_profile!(order.profile, P => answer::<P>(&given, &cloud, &order, &frames, watch)),
        )?;
        Ok(answer.map(|answer| PyBytes::new(py, &answer)))
    }

    fn __repr__(&self) -> String {
        format!("<sense.Server of the fleet {}>", self.fleet)
    }
}

fn answer<P: Profile>(
    given: &Given,
    cloud: &Cloud,
    order: &Order,
    stored: &[(DeviceNumber, Arc<[u8]>)],
    watch: &Watch,
) -> PyResult<Option<Vec<u8>>> {
    let mut frames = Frames::<P>::new();
    for (number, frame) in stored {
        let mac = given.macs.get(number).ok_or_else(fault)?;
        let envelope = MacKey::<P>::from_bytes(mac).open(frame).map_err(|_| fault())?;
        frames.entry(*number).or_default().push(envelope);
    }
    frames.values_mut().for_each(|frames| frames.sort_by_key(|envelope| envelope.head().counter));
    let prepared = match cloud.prepare(order, &given.seats, &frames) {
        Ok(prepared) => prepared,
        Err(CloudError::Order(OrderError::Empty { .. })) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let outputs = computed(given, cloud, &prepared, watch)?;
    prepared.message(&outputs).map(Some).map_err(failed)
}

/// The outputs of a prepared computation. Each input and each step is a piece of work. A value is
/// dropped after the last step that uses it.
fn computed(given: &Given, cloud: &Cloud, prepared: &Prepared, watch: &Watch) -> PyResult<Vec<Arc<BgvValue>>> {
    let (program, engine) = (prepared.program(), cloud.engine_for_a_run(&mut generator()?));
    let steps = program.steps();
    // the number of remaining uses of each value; one more for outputs, so that they stay
    let mut wanted = vec![0usize; program.len()];
    let args = (0..steps.len()).flat_map(|step| program.args(step));
    args.chain(program.outputs()).for_each(|value| wanted[value.index()] += 1);
    let mut values: Vec<Option<Arc<BgvValue>>> = Vec::with_capacity(program.len());
    watch.expect(program.len());
    for value in program.values() {
        let made = match program.maker(value) {
            None => cloud.input(prepared, &mut Loan(given), value).map_err(failed)?,
            Some(step) => {
                let args = program.args(step).iter().map(|arg| values[arg.index()].as_deref().ok_or_else(fault));
                let made = engine.step(step, steps[step].op, &args.collect::<PyResult<Vec<_>>>()?).map_err(failed)?;
                for arg in program.args(step) {
                    wanted[arg.index()] -= 1;
                    if wanted[arg.index()] == 0 {
                        values[arg.index()] = None;
                    }
                }
                made
            }
        };
        values.push(Some(Arc::new(made)));
        watch.step()?;
    }
    program.outputs().iter().map(|output| values[output.index()].take().ok_or_else(fault)).collect()
}
