//! An enclave without any isolation: the same sessions, channel and evidence, in the host's
//! process.
//!
//! It is for tests, and as a baseline for the cost of an enclave with its own process. Its evidence
//! says that nothing protects it.

use crate::configuration::Configuration;
use crate::digest::Digest;
use crate::enclave::{Enclave, EnclaveError};
use crate::evidence::{Measurement, SimulatedPlatform};
use crate::inside::{Handler, Inside, Refused, Request, Status};
use crate::protection::Protections;
use rand_core::CryptoRng;

/// An enclave in the host's process; see the module's head.
pub struct InProcess<H: Handler, R> {
    inside: Option<Inside<H, R>>,
    measurement: Measurement,
    protections: Protections,
    buffer: Vec<u8>,
}

impl<H: Handler, R: CryptoRng> InProcess<H, R> {
    /// Builds the handler and starts. `executable` is used as the digest of the executable.
    ///
    /// # Errors
    ///
    /// [`EnclaveError::Start`] for an invalid configuration, for setup bytes that it does not name,
    /// or if the handler rejects them.
    pub fn start(
        configuration: &Configuration,
        setup: &[u8],
        executable: &Digest,
        build: impl FnOnce(&Configuration, &[u8], &mut R) -> Result<H, Refused>,
        mut rng: R,
    ) -> Result<Self, EnclaveError> {
        Inside::<H, R>::check(configuration, setup).map_err(|error| EnclaveError::Start(error.to_string()))?;
        let attester = Box::new(SimulatedPlatform::new(&mut rng));
        let handler = build(configuration, setup, &mut rng).map_err(|error| EnclaveError::Start(error.to_string()))?;
        let protections = Protections::none();
        let inside = Inside::new(configuration.clone(), executable, protections.clone(), attester, handler, rng);
        let measurement = *inside.measurement();
        Ok(Self { inside: Some(inside), measurement, protections, buffer: Vec::new() })
    }
}

impl<H: Handler, R: CryptoRng> Enclave for InProcess<H, R> {
    fn request(&mut self, request: Request, body: &[u8], reply: &mut Vec<u8>) -> Result<(), EnclaveError> {
        let inside = self.inside.as_mut().ok_or_else(|| EnclaveError::Gone("stopped".to_owned()))?;
        self.buffer.clear();
        self.buffer.extend_from_slice(body);
        match inside.request(request, &mut self.buffer, reply) {
            Status::Done => Ok(()),
            status => Err(EnclaveError::Refused(status)),
        }
    }

    fn measurement(&self) -> &Measurement {
        &self.measurement
    }

    fn protections(&self) -> &Protections {
        &self.protections
    }

    fn stop(&mut self) {
        self.inside = None;
    }
}
