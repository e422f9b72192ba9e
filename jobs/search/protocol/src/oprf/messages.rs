//! The messages before a question with labels, as bytes.
//!
//! | kind | message | after version (`01`) and kind |
//! |---|---|---|
//! | 27 | evaluation | table 32, client 16, how many elements (2), and these, blinded, 32 each |
//! | 28 | evaluated | the key's name 16, how many elements (2), and these, in the same order, 32 each |
//!
//! Integers are big-endian, and there is one byte string for each message. No message names the
//! evaluated input, nor the question.

use super::function::{ELEMENT_BYTES, Element};
use super::{REVISION_BYTES, Revision};
use crate::fields::{CLIENT_BYTES, Fields, MessageError, TABLE_BYTES};
use tobari_lattice::wire::VERSION;

/// The most elements of a message.
pub const MAX_ELEMENTS: usize = 1_024;

const EVALUATION: u8 = 0x27;
const EVALUATED: u8 = 0x28;

/// A request for an evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// The table's name.
    pub table: [u8; TABLE_BYTES],
    /// The client.
    pub client: [u8; CLIENT_BYTES],
    /// The blinded elements to evaluate: 1 to [`MAX_ELEMENTS`].
    pub elements: Vec<Element>,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluated {
    /// The name of the key, for the query to repeat.
    pub revision: Revision,
    /// The elements, evaluated.
    pub elements: Vec<Element>,
}

/// Encodes a request.
pub fn encode_evaluation(evaluation: &Evaluation) -> Vec<u8> {
    let Evaluation { table, client, elements } = evaluation;
    with_elements(&[&[VERSION, EVALUATION], table, client], elements)
}

/// Reads a request.
///
/// # Errors
/// [`MessageError`].
pub fn decode_evaluation(bytes: &[u8]) -> Result<Evaluation, MessageError> {
    let mut fields = Fields::open(bytes, EVALUATION)?;
    let (table, client) = (fields.array()?, fields.array()?);
    Ok(Evaluation { table, client, elements: elements(fields)? })
}

/// The table and the client of a request, without the rest.
///
/// # Errors
/// [`MessageError`].
pub fn evaluation_head(bytes: &[u8]) -> Result<([u8; TABLE_BYTES], [u8; CLIENT_BYTES]), MessageError> {
    let mut fields = Fields::open(bytes, EVALUATION)?;
    Ok((fields.array()?, fields.array()?))
}

/// Encodes an answer.
pub fn encode_evaluated(evaluated: &Evaluated) -> Vec<u8> {
    with_elements(&[&[VERSION, EVALUATED], &evaluated.revision], &evaluated.elements)
}

/// Reads an answer.
///
/// # Errors
/// [`MessageError`].
pub fn decode_evaluated(bytes: &[u8]) -> Result<Evaluated, MessageError> {
    let mut fields = Fields::open(bytes, EVALUATED)?;
    let revision: [u8; REVISION_BYTES] = fields.array()?;
    Ok(Evaluated { revision, elements: elements(fields)? })
}

fn with_elements(head: &[&[u8]], elements: &[Element]) -> Vec<u8> {
    let mut out = head.concat();
    out.extend_from_slice(&(elements.len() as u16).to_be_bytes());
    elements.iter().for_each(|element| out.extend_from_slice(&element.to_bytes()));
    out
}

fn elements(mut fields: Fields<'_>) -> Result<Vec<Element>, MessageError> {
    let count = usize::from(u16::from_be_bytes(fields.array()?));
    if !(1..=MAX_ELEMENTS).contains(&count) {
        return Err(MessageError::Malformed("number of elements"));
    }
    let bytes = fields.rest();
    if bytes.len() != count * ELEMENT_BYTES {
        return Err(MessageError::Malformed("length"));
    }
    // a point takes five times its bytes: allocate the exact size, because a growing list would
    // double
    let mut elements = Vec::with_capacity(count);
    for bytes in bytes.as_chunks::<ELEMENT_BYTES>().0 {
        elements.push(Element::from_bytes(*bytes).ok_or(MessageError::Malformed("element"))?);
    }
    Ok(elements)
}

/// Bytes that decode encode to the same bytes.
pub(crate) fn fuzz(data: &[u8]) {
    if let Ok(evaluation) = decode_evaluation(data) {
        assert_eq!(encode_evaluation(&evaluation), data);
        assert_eq!(evaluation_head(data), Ok((evaluation.table, evaluation.client)));
    }
    if let Ok(evaluated) = decode_evaluated(data) {
        assert_eq!(encode_evaluated(&evaluated), data);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use curve25519_dalek::constants::RISTRETTO_BASEPOINT_COMPRESSED;

    #[test]
    fn fault_32_elements_take_less_than_ten_times_the_bytes_of_their_message() {
        let element = Element::from_bytes(RISTRETTO_BASEPOINT_COMPRESSED.to_bytes()).unwrap();
        for count in [1, 5, 33, 520, MAX_ELEMENTS] {
            let (table, client) = ([1; TABLE_BYTES], [2; CLIENT_BYTES]);
            let bytes = encode_evaluation(&Evaluation { table, client, elements: vec![element; count] });
            let read = decode_evaluation(&bytes).unwrap().elements;
            let room = read.capacity() * size_of::<Element>();
            assert!(read.len() == count && room < 10 * bytes.len(), "{room} bytes for a message of {}", bytes.len());
            assert_eq!(read.capacity(), count);
        }
    }
}
