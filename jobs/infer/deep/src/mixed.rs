//! A network whose maps a process computes and all else an enclave: both parts, as
//! [`tobari_infer::guarded`] wants them.

use crate::enclaved::{self, Enclaved};
use crate::encrypted::{Network, NetworkKeys, RunError};
use crate::lower;
use crate::machine::Circuit;
use crate::model::{DeepModel, Inside, ModelError};
use std::sync::Arc;
use tobari_infer::guarded::{HostError, MixedNetwork, Numbers, ProcessNetwork, ProcessSession, VisitEnclave};
use tobari_infer::program::Input;
use tobari_lattice::ckks::{Ciphertext, EvaluationKeys, Scale};
use tobari_lattice::params::LatticeParameters;
use zeroize::Zeroizing;

/// The part of a network inside an enclave.
pub struct InsideNetwork {
    digest: [u8; 32],
    pixels: usize,
    classes: usize,
    enclaved: Arc<Enclaved>,
    parameters: LatticeParameters,
    visits: Vec<[Vec<(usize, Scale)>; 2]>,
    keys: Vec<Input>,
    error: f64,
}

impl InsideNetwork {
    /// Of a model; `None` for one of another engine.
    ///
    /// # Errors
    /// As [`DeepModel::circuit`].
    pub fn new(model: &DeepModel) -> Result<Option<Self>, ModelError> {
        Self::of(model, &model.circuit()?)
    }

    /// The same with the model's circuit.
    ///
    /// # Errors
    /// As [`DeepModel::circuit`].
    pub fn of(model: &DeepModel, circuit: &Circuit) -> Result<Option<Self>, ModelError> {
        let Some(Inside { enclaved, parameters, visits, keys, error }) = model.inside(circuit)? else {
            return Ok(None);
        };
        let (digest, graph) = (model.digest(), model.graph());
        let (pixels, classes, enclaved) = (graph.input().len(), graph.output().len(), Arc::new(enclaved));
        Ok(Some(Self { digest, pixels, classes, enclaved, parameters, visits, keys, error }))
    }
}

impl MixedNetwork for InsideNetwork {
    fn digest(&self) -> [u8; 32] {
        self.digest
    }

    fn pixels(&self) -> usize {
        self.pixels
    }

    fn classes(&self) -> usize {
        self.classes
    }

    fn parameters(&self) -> &LatticeParameters {
        &self.parameters
    }

    fn keys(&self) -> &[Input] {
        &self.keys
    }

    fn visits(&self) -> &[[Vec<(usize, Scale)>; 2]] {
        &self.visits
    }

    fn error(&self) -> f64 {
        self.error
    }

    fn begin(&self, pixels: &[u8]) -> Option<Box<dyn Numbers>> {
        let picture = (pixels.len() == self.pixels).then(|| lower::numbers(pixels))?;
        let numbers = self.enclaved.begin(picture);
        Some(Box::new(Picture { enclaved: Arc::clone(&self.enclaved), numbers, next: 0 }))
    }
}

/// The numbers of a picture, and the next visit.
struct Picture {
    enclaved: Arc<Enclaved>,
    numbers: enclaved::Numbers,
    next: usize,
}

impl Numbers for Picture {
    fn visit(&mut self, number: usize, slots: &[Vec<f64>]) -> Option<Zeroizing<Vec<Vec<f64>>>> {
        if number != self.next {
            return None;
        }
        self.next += 1;
        self.enclaved.visit(&mut self.numbers, number, slots)
    }

    fn logits(&mut self) -> Option<Zeroizing<Vec<f64>>> {
        (self.next == self.enclaved.rounds().len()).then(|| self.enclaved.logits(&mut self.numbers))
    }
}

/// The part of a network in the process: its maps, with encoded weights.
pub struct Process {
    network: Arc<Network>,
}

impl Process {
    /// Of a network.
    pub fn new(network: Network) -> Self {
        Self { network: Arc::new(network) }
    }
}

impl ProcessNetwork for Process {
    fn parameters(&self) -> &LatticeParameters {
        self.network.parameters()
    }

    fn keys(&self) -> Vec<Input> {
        self.network.keys()
    }

    fn visits(&self) -> usize {
        self.network.visits().len()
    }

    fn keyring_memory(&self) -> u64 {
        self.network.keyring_memory()
    }

    fn session(&self, keys: Vec<(Input, EvaluationKeys)>) -> Result<Arc<dyn ProcessSession>, HostError> {
        let keys = self.network.keyring(keys).map_err(of_network)?;
        Ok(Arc::new(Session { network: Arc::clone(&self.network), keys }))
    }
}

struct Session {
    network: Arc<Network>,
    keys: NetworkKeys,
}

impl ProcessSession for Session {
    fn run(&self, visit: &mut VisitEnclave<'_>) -> Result<(), HostError> {
        let mut fault = None;
        let mut checked = |number: usize, sent: Vec<Ciphertext>| {
            visit(number, sent).map_err(|error| {
                let reason = error.to_string();
                fault = Some(error);
                RunError::Visit { number, reason }
            })
        };
        let ran = self.network.run_enclaved(&self.keys, &mut checked);
        match (ran, fault) {
            (_, Some(error)) => Err(error),
            (ran, None) => ran.map_err(of_network),
        }
    }
}

fn of_network(error: RunError) -> HostError {
    HostError::Network(Box::new(error))
}
