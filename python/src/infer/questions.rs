//! Questions and their answers as bytes, for services of either kind.

use crate::errors::{failed, malformed, refused};
use crate::work::Watch;
use pyo3::PyResult;
use tobari_infer::compile::Card;
use tobari_infer::holder::{NAME_BYTES, Sealed, SealedKind, short as beginning};
use tobari_infer::messages;
use tobari_lattice::ckks::{Ciphertext, SeededCiphertext};

/// Answers questions for this model under these keys, one after the other.
pub(super) fn answers(
    questions: &[Vec<u8>],
    [model, keys]: [&[u8; NAME_BYTES]; 2],
    card: &Card,
    watch: &Watch,
    mut run: impl FnMut(Vec<Ciphertext>) -> PyResult<Vec<Ciphertext>>,
) -> PyResult<Vec<Vec<u8>>> {
    let mut answers = Vec::with_capacity(questions.len());
    watch.expect(questions.len());
    for question in questions {
        let sealed = Sealed::decode(SealedKind::Question, question).map_err(malformed)?;
        for (what, expected, found) in [("model", model, &sealed.model), ("key", keys, &sealed.keys)] {
            if expected != found {
                let (expected, found) = (beginning(expected), beginning(found));
                return Err(refused(format!("expected a question for the {what} {expected}, found one for {found}")));
            }
        }
        let image = messages::decode_question(sealed.body, card).map_err(malformed)?;
        let logits = run(image.iter().map(SeededCiphertext::expand).collect())?;
        let body = messages::encode_answer(&logits).map_err(failed)?;
        answers.push(Sealed { kind: SealedKind::Answer, body: &body, ..sealed }.encode());
        watch.step()?;
    }
    Ok(answers)
}
