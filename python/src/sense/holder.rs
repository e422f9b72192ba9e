//! The key holder: devices' secrets, questions, and releases of results.

use crate::errors::{Withheld, failed, fault, malformed};
use crate::randomness::generator;
use crate::work::{Watch, long, short};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tobari_lattice::rlwe::SecretKey;
use tobari_lattice::wire;
use tobari_octets::{hex, sha256};
use tobari_sense::bundle::{Bundle, DeviceLine};
use tobari_sense::desk::ResultOpener;
use tobari_sense::enrol::Card;
use tobari_sense::holder::Holder;
use tobari_sense::program::Input;
use tobari_sense::question::{Question, Registered};
use tobari_sense::registry::{FLEET, Registry, Secret};
use tobari_sense::schema::Schema;
use tobari_sense::setting::{Setting, key_name};
use tobari_sense::with_profile;
use tobari_sense_files::calendar;
use zeroize::Zeroizing;

/// Parses a schema from JSON.
pub(super) fn schema(text: &str) -> PyResult<Schema> {
    let schema: Schema = serde_json::from_str(text).map_err(malformed)?;
    schema.check().map_err(failed)?;
    Ok(schema)
}

/// Objects by their SHA-256.
type Objects = BTreeMap<String, Vec<u8>>;

/// The data for a server; only changed parts are made again.
#[derive(Default)]
struct Published {
    keys: Option<(BTreeMap<String, String>, Objects)>,
    /// Numbers of the devices of each cohort, and the objects of their secrets.
    cohorts: Vec<(Vec<u32>, Vec<String>, Objects)>,
}

/// The mutable state.
struct State {
    registry: Registry,
    desk: ResultOpener,
    published: Published,
}

/// The key holder: it has the only key that decrypts results. Its secret is never printed or
/// pickled, and is wiped on release.
#[pyclass(frozen, module = "tobari.sense")]
pub(super) struct KeyHolder {
    holder: Arc<Holder>,
    secret: Arc<SecretKey>,
    setting: Setting,
    schema: Schema,
    card: Card,
    state: Mutex<State>,
}

impl KeyHolder {
    fn of(holder: Holder, registry: Registry, schema: Schema) -> PyResult<Self> {
        if holder.profile() != schema.profile {
            let (expected, found) = (schema.profile, holder.profile());
            return Err(failed(format!("expected a key holder of profile {expected}, found one of {found}")));
        }
        let setting = holder.setting().map_err(failed)?;
        let card = Card::new(&holder, schema.clone());
        let desk = ResultOpener::new(setting.clone(), schema.clone(), holder.secret(&setting));
        let state = State { registry, desk, published: Published::default() };
        let secret = Arc::new(holder.secret(&setting));
        Ok(Self { holder: Arc::new(holder), secret, setting, schema, card, state: Mutex::new(state) })
    }

    fn state(&self) -> PyResult<MutexGuard<'_, State>> {
        self.state.lock().map_err(|_| fault())
    }

    fn fleet_bytes(&self) -> PyResult<[u8; FLEET]> {
        self.card.check().map_err(failed)
    }
}

#[pymethods]
impl KeyHolder {
    /// A new key holder, for a fleet with this schema (JSON).
    #[new]
    fn new(py: Python<'_>, schema: &str) -> PyResult<Self> {
        let schema = self::schema(schema)?;
        short(py, || {
            let holder = Holder::generate(schema.profile, &mut generator()?);
            Self::of(holder, Registry::default(), schema)
        })
    }

    /// Reads the parts of a stored key holder: the files `holder.key`, `devices` and the schema in
    /// `fleet.json` of a folder of `tobari sense keygen`.
    #[staticmethod]
    fn from_parts(py: Python<'_>, holder: &[u8], registry: &[u8], schema: &str) -> PyResult<Self> {
        let schema = self::schema(schema)?;
        short(py, || {
            let holder = Holder::decode(holder).map_err(malformed)?;
            Self::of(holder, Registry::decode(registry).map_err(malformed)?, schema)
        })
    }

    /// The key, secret: Python's copy is not wiped.
    fn holder_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.holder.encode())
    }

    /// The devices with their secrets: Python's copy is not wiped.
    fn registry_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.state()?.registry.encode()))
    }

    /// Reads the stored devices again: another process may have changed them.
    fn take_up_registry(&self, data: &[u8]) -> PyResult<()> {
        self.state()?.registry = Registry::decode(data).map_err(malformed)?;
        Ok(())
    }

    /// The fleet's name.
    #[getter]
    fn fleet(&self) -> &str {
        &self.card.fleet
    }

    /// The fleet's card as JSON: public facts.
    fn card(&self) -> PyResult<String> {
        serde_json::to_string(&self.card).map_err(failed)
    }

    /// The schema as JSON.
    fn schema(&self) -> PyResult<String> {
        serde_json::to_string(&self.schema).map_err(failed)
    }

    /// Adds a device; returns its secret token.
    #[pyo3(signature = (name, tenant=""))]
    fn add(&self, name: &str, tenant: &str) -> PyResult<String> {
        let mut state = self.state()?;
        let entry = state.registry.add(name, tenant, None, Secret::random(&mut generator()?)).map_err(failed)?;
        Ok(entry.token(self.schema.profile, self.fleet_bytes()?).encode().to_string())
    }

    /// Makes a new key for a device; returns its new token.
    fn rotate(&self, name: &str) -> PyResult<String> {
        let mut state = self.state()?;
        let entry = state.registry.rotate(name, None, Secret::random(&mut generator()?)).map_err(failed)?;
        Ok(entry.token(self.schema.profile, self.fleet_bytes()?).encode().to_string())
    }

    /// Revokes a device; returns its number.
    fn revoke(&self, name: &str) -> PyResult<u32> {
        Ok(self.state()?.registry.revoke(name).map_err(failed)?.value())
    }

    /// Name, number, state and tenant of every device.
    fn devices(&self) -> PyResult<Vec<(String, u32, &'static str, String)>> {
        let state = self.state()?;
        let one = |entry: &tobari_sense::registry::Entry| {
            (entry.name.clone(), entry.number.value(), entry.state.name(), entry.tenant.clone())
        };
        Ok(state.registry.entries().iter().map(one).collect())
    }

    /// Registers a question (JSON), once for each sheet that it is about, of which there is one
    /// unless `several`. Returns for each its name between key holder and server, the order for the
    /// server, and the key holder's file, as JSON.
    fn register(&self, py: Python<'_>, question: &str, several: bool) -> PyResult<Vec<(String, String, String)>> {
        short(py, || {
            let question: Question = serde_json::from_str(question).map_err(malformed)?;
            let bounds = calendar::bounds(&question.window).map_err(failed)?;
            let (mut state, names) = (self.state()?, self.holder.question_names());
            let State { registry, desk, .. } = &mut *state;
            let all = question.register_between(&self.schema, &self.setting, registry, &names, &bounds);
            let all = all.map_err(failed)?;
            if all.len() > 1 && !several {
                return Err(failed(format!(
                    "the question is about {} frames of each row: register it with register_all, or ask about fewer \
                     channels",
                    all.len()
                )));
            }
            all.into_iter().map(|registered| taken_up(desk, registered)).collect()
        })
    }

    /// Loads a question that was registered before.
    fn take_up(&self, registered: &str) -> PyResult<(String, String, String)> {
        let registered: Registered = serde_json::from_str(registered).map_err(malformed)?;
        if !registered.is_named_by(&self.holder.question_names()) {
            return Err(failed(
                "expected a question that this key holder registered, found one that was changed, is another's, or is \
                 from a version whose names a server could guess: register it again",
            ));
        }
        taken_up(&mut self.state()?.desk, registered)
    }

    /// The data for a server: a bundle as JSON, and objects by their SHA-256. Only changed parts
    /// are made again.
    #[pyo3(signature = (progress=None))]
    fn bundle<'py>(
        &self,
        py: Python<'py>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyDict>)> {
        let (registry, before) = {
            let mut state = self.state()?;
            let registry = Registry::decode(&state.registry.encode()).map_err(failed)?;
            (registry, std::mem::take(&mut state.published))
        };
        let publisher = Publisher {
            holder: Arc::clone(&self.holder),
            secret: Arc::clone(&self.secret),
            setting: self.setting.clone(),
        };
        let fleet = self.card.fleet.clone();
        let (bundle, published) = long(py, progress.map(|progress| (progress, "keys")), move |watch| {
            publisher.publish(fleet, &registry, before, watch)
        })?;
        let objects = PyDict::new(py);
        let cohorts = published.cohorts.iter().map(|(.., objects)| objects);
        for (name, bytes) in published.keys.iter().map(|(_, objects)| objects).chain(cohorts).flatten() {
            objects.set_item(name, PyBytes::new(py, bytes))?;
        }
        self.state()?.published = published;
        let bundle = Zeroizing::new(serde_json::to_vec(&bundle).map_err(failed)?);
        Ok((PyBytes::new(py, &bundle), objects))
    }

    /// Decrypts the result of a question for the window that begins at `start_ms`; returns the
    /// release as JSON. Each window has one attempt, even if it fails.
    fn open(&self, py: Python<'_>, id: &str, start_ms: u64, result: &[u8]) -> PyResult<String> {
        let release = short(py, || {
            let mut state = self.state()?;
            let State { registry, desk, .. } = &mut *state;
            desk.open(id, start_ms, result, registry).map_err(|error| Withheld::new_err(error.to_string()))
        })?;
        serde_json::to_string(&release).map_err(failed)
    }

    /// Notes that a result was decrypted in an earlier run.
    fn note_opened(&self, id: &str, start_ms: u64) -> PyResult<()> {
        self.state()?.desk.note_opened(id, start_ms);
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("<sense.KeyHolder of the fleet {}, profile {}>", self.card.fleet, self.schema.profile)
    }
}

fn taken_up(desk: &mut ResultOpener, registered: Registered) -> PyResult<(String, String, String)> {
    let text = serde_json::to_string(&registered).map_err(failed)?;
    let order = serde_json::to_string(&registered.order).map_err(failed)?;
    let id = registered.id();
    desk.register(registered).map_err(failed)?;
    Ok((id, order, text))
}

/// Makes the data for a server.
struct Publisher {
    holder: Arc<Holder>,
    secret: Arc<SecretKey>,
    setting: Setting,
}

impl Publisher {
    fn publish(
        &self,
        fleet: String,
        registry: &Registry,
        mut before: Published,
        watch: &Watch,
    ) -> PyResult<(Bundle, Published)> {
        let inputs = self.setting.keys().map_err(failed)?;
        let blocks = self.setting.layout.blocks();
        watch.expect(inputs.len() + registry.entries().len().div_ceil(blocks));
        let keys = match before.keys.take() {
            Some(keys) => keys,
            None => self.keys(&inputs, watch)?,
        };
        let mut cohorts = Vec::new();
        for (cohort, entries) in registry.entries().chunks(blocks).enumerate() {
            let members: Vec<u32> = entries.iter().map(|entry| entry.number.value()).collect();
            let known = before.cohorts.get_mut(cohort).filter(|known| known.0 == members).map(std::mem::take);
            cohorts.push(match known {
                Some(known) => known,
                None => {
                    let (names, objects) = self.cohort(registry, cohort)?;
                    (members, names, objects)
                }
            });
            watch.step()?;
        }
        let devices = registry.entries().iter().zip(registry.seats()).map(|(entry, seat)| {
            let mac = Zeroizing::new(with_profile!(self.setting.profile, P => entry.root().mac_key::<P>()));
            DeviceLine { seat, mac: hex(&*mac) }
        });
        let bundle = Bundle {
            fleet,
            profile: self.setting.profile,
            devices: devices.collect(),
            cohorts: cohorts.iter().map(|(_, names, _)| names.clone()).collect(),
            keys: keys.0.clone(),
        };
        Ok((bundle, Published { keys: Some(keys), cohorts }))
    }

    fn keys(&self, inputs: &[Input], watch: &Watch) -> PyResult<(BTreeMap<String, String>, Objects)> {
        let (mut names, mut objects) = (BTreeMap::new(), Objects::new());
        for input in inputs {
            let key = self.holder.key(&self.secret, *input);
            if let (Some(name), Some(key)) = (key_name(*input), key) {
                let bytes = wire::encode_evaluation_keys(&key);
                let hash = hex(&sha256(&bytes));
                names.insert(name, hash.clone());
                objects.insert(hash, bytes);
            }
            watch.step()?;
        }
        Ok((names, objects))
    }

    fn cohort(&self, registry: &Registry, cohort: usize) -> PyResult<(Vec<String>, Objects)> {
        let all = self.holder.cohort(&self.setting, &self.secret, registry, cohort, &mut generator()?);
        let (mut names, mut objects) = (Vec::new(), Objects::new());
        for part in all.map_err(failed)? {
            let bytes = wire::encode_seeded_ciphertext(&part);
            let name = hex(&sha256(&bytes));
            names.push(name.clone());
            objects.insert(name, bytes);
        }
        Ok((names, objects))
    }
}
