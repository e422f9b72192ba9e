//! A question to a table with labels, in two rounds: the server evaluates the inputs, and the query
//! asks for the labels that result.
//!
//! The evaluation shows the number of inputs: one, or the number of sites of a longest match. Each
//! input is a test that the client's budget pays for. The result ([`Labels`]) is valid as long as
//! the table has the same key, for any number of queries of the question. All questions use the set
//! of parameters and the limbs of labels ([`crate::oprf`]).

use super::{
    Asker, Prepared, QuestionError, Wish, compared, counted, different, fitting, key_number, placed, rule_false_matches,
};
use crate::client::MatchResult;
use crate::fullness::Fullness;
use crate::messages::CLIENT_BYTES;
use crate::oprf::function::Blinding;
use crate::oprf::labels::{Label, inputs, key_input, uncover};
use crate::oprf::messages::{Evaluation, decode_evaluated, encode_evaluation};
use crate::oprf::{LIMBS, Mode, REVISION_BYTES, Revision};
use crate::program::{Key, Shape};
use crate::table::{Catalogue, Question};
use rand_core::CryptoRng;
use tobari_lattice::params::NamedSet;
use tobari_lattice::ring::Modulus;
use zeroize::Zeroizing;

/// A question that is ready for evaluation.
pub struct PreparedLabelled {
    /// The question without numbers, which follow from labels.
    prepared: Prepared,
    inputs: Zeroizing<Vec<Vec<u8>>>,
    t: Modulus,
    fresh: usize,
}

/// The labels of a question's inputs. They are wiped on drop.
pub struct Labels {
    revision: Revision,
    labels: Vec<Label>,
}

impl PreparedLabelled {
    /// Prepares a question to a table with labels.
    ///
    /// # Errors
    /// [`QuestionError`].
    pub fn new(
        (catalogue, fullness): (&Catalogue, &Fullness),
        question: &Question<'_>,
        wish: Wish,
    ) -> Result<Self, QuestionError> {
        let (shape, starts) = placed(catalogue, question, wish)?;
        let inputs = match *question {
            Question::Window { start, pattern, .. } => inputs(&catalogue.name, shape, start as u32, pattern),
            Question::Key(key) => vec![key_input(&catalogue.name, key_number(catalogue, key)?)],
        };
        let set = Mode::Labelled([0; REVISION_BYTES]).set(shape, counted(catalogue));
        let set = set.ok_or(QuestionError::Kind("of fewer bits or sites"))?;
        let t = set.plaintext_modulus.and_then(Modulus::new).ok_or(QuestionError::Kind("with parameters"))?;
        let layout = fitting(fullness, shape, &starts, set.degree)?;
        let equal = (compared(&layout).max(1) as f64).log2() - 2.0 * (t.value() as f64).log2();
        let false_matches = Some(rule_false_matches(catalogue).map_or(equal, |rule| rule.max(equal) + 1.0));
        let (fresh, granularity) = (fullness.labels(shape, different(&starts)), wish.granularity);
        let (table, numbers, limbs) = (catalogue.name, Vec::new(), LIMBS);
        let prepared = Prepared { table, shape, set, granularity, starts, numbers, layout, limbs, false_matches };
        Ok(Self { prepared, inputs: Zeroizing::new(inputs), t, fresh })
    }

    /// The set of parameters of the key for this question.
    pub fn set(&self) -> NamedSet {
        self.prepared.set
    }

    /// The kind of the question, as the server sees it.
    pub fn shape(&self) -> Shape {
        self.prepared.shape
    }

    /// `log2` of a bound on the probability of a false match.
    pub fn false_matches(&self) -> Option<f64> {
        self.prepared.false_matches
    }

    /// Checks the number of labels that the server may have to make, at the fullest windows. A
    /// question that the server is known to reject is rejected here, before it is paid for.
    ///
    /// # Errors
    /// [`QuestionError::Labels`].
    pub fn check(&self, most: u64) -> Result<(), QuestionError> {
        let found = self.fresh as u64;
        if found > most { Err(QuestionError::Labels { most, found }) } else { Ok(()) }
    }

    /// The request for an evaluation, and the values to keep until the reply.
    ///
    /// # Errors
    /// [`QuestionError::Evaluation`].
    pub fn evaluation(
        &self,
        client: [u8; CLIENT_BYTES],
        rng: &mut impl CryptoRng,
    ) -> Result<(Vec<u8>, Blinding), QuestionError> {
        let blinding = Blinding::new(self.inputs.to_vec(), rng)?;
        let (table, elements) = (self.prepared.table, blinding.elements().to_vec());
        Ok((encode_evaluation(&Evaluation { table, client, elements }), blinding))
    }

    /// Takes the labels from the reply.
    ///
    /// # Errors
    /// [`QuestionError`] for a reply that does not fit the request.
    pub fn labels(&self, blinding: Blinding, reply: &[u8]) -> Result<Labels, QuestionError> {
        let evaluated = decode_evaluated(reply)?;
        let labels = blinding.finish(&evaluated.elements)?.into_iter().map(Label::new).collect();
        Ok(Labels { revision: evaluated.revision, labels })
    }

    /// Encodes the query, encrypted with a key of [`PreparedLabelled::set`].
    ///
    /// # Errors
    /// [`QuestionError::Client`], for example for labels of another question.
    pub fn query(
        &self,
        asker: &Asker<'_>,
        client: [u8; CLIENT_BYTES],
        labels: &Labels,
        rng: &mut impl CryptoRng,
    ) -> Result<Vec<u8>, QuestionError> {
        let numbers: Zeroizing<Vec<Key>> =
            Zeroizing::new(labels.labels.iter().map(|label| label.key(&self.t)).collect());
        self.prepared.encrypted(asker, client, (&numbers, Mode::Labelled(labels.revision)), rng)
    }

    /// Decodes and decrypts the answer, and removes the pads from its counts.
    ///
    /// # Errors
    /// [`QuestionError`] for an answer that does not fit this question.
    pub fn read(&self, asker: &Asker<'_>, labels: &Labels, bytes: &[u8]) -> Result<MatchResult, QuestionError> {
        Ok(uncover(self.prepared.read(asker, bytes)?, &labels.labels, &self.t))
    }
}
