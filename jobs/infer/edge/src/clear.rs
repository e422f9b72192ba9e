//! Networks of any depth in an enclave: all of it in the clear, or all but maps.
//!
//! An enclave that computes on plain numbers needs no levels, so it runs every network of
//! `tobari_infer_deep`, with its own activations in place of their approximations. The enclave is a
//! process of this executable, which reads the network from its setup ([`read`]).

use tobari_infer::guarded::{Combination, Foreign, PlainNetwork};
use tobari_infer_deep::DeepModel;
use tobari_infer_deep::mixed::InsideNetwork;
use zeroize::Zeroizing;

/// A network of any depth, and its digest.
struct Clear {
    model: DeepModel,
    digest: [u8; 32],
}

/// This network, to run in the clear.
pub(crate) fn of(model: DeepModel) -> Box<dyn PlainNetwork> {
    let digest = model.digest();
    Box::new(Clear { model, digest })
}

/// The network of a file for this combination; `None` for other bytes, and for a network that does
/// not run in it.
pub(crate) fn read(combination: Combination, bytes: &[u8]) -> Option<Foreign> {
    let model = DeepModel::decode(bytes).ok()?;
    match combination {
        Combination::EnclavePlain => Some(Foreign::Plain(of(model))),
        Combination::MixedPlainReset => Some(Foreign::Mixed(Box::new(InsideNetwork::new(&model).ok()??))),
        _ => None,
    }
}

impl PlainNetwork for Clear {
    fn digest(&self) -> [u8; 32] {
        self.digest
    }

    fn pixels(&self) -> usize {
        self.model.graph().input().len()
    }

    fn classes(&self) -> usize {
        self.model.graph().output().len()
    }

    /// `Graph::values` has no branch and no address that depends on a number. All values are wiped
    /// here, and the last one by the caller.
    fn logits(&self, pixels: &[u8]) -> Option<Zeroizing<Vec<f64>>> {
        let graph = self.model.graph();
        let mut values = Zeroizing::new(graph.values(graph.normalise(pixels).ok()?));
        values.pop().map(Zeroizing::new)
    }
}
