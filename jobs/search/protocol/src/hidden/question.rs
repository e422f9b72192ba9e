//! A question with its place hidden: the server's path to its layout, its query, and its answer.
//!
//! The server sees the path: the number of sites, and the cell if the place hides in one. A
//! question without meaning has the same path and another number; its answer is not used. It fills
//! lists up, and stands for variants that the table does not list.

use super::arrangement::DEPTH;
use super::cells::Coordinate;
use super::client::{Asker, ClientError};
use super::messages::{self, Query};
use super::numbers::{Kind, Numbers, Part};
use super::program::Layout;
use super::server::Form;
use crate::client::MatchResult;
use crate::messages::{CLIENT_BYTES, MessageError, TABLE_BYTES};
use crate::question::QuestionError;
use crate::server::Granularity;
use crate::table::{Catalogue, Question};
use rand_core::CryptoRng;
use tobari_lattice::bgv::EncodeError;
use tobari_lattice::params::LatticeParameters;

/// Why a question with its place hidden cannot be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HiddenError {
    /// The table has no such question.
    #[error(transparent)]
    Question(#[from] QuestionError),
    /// The table has no sites on the chromosome.
    #[error("expected a chromosome of the table, found {0}")]
    Chromosome(String),
    /// The bytes are not a layout, or no answer.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The layout does not fit.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// A layout for other questions.
    #[error("expected a layout for the numbers of the table and for keys of nine steps, found another")]
    Layout,
    /// The client's half failed.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// A question with its place hidden, ready for the server's layout.
#[derive(Clone, Debug)]
pub struct HiddenPrepared {
    numbers: Numbers,
    number: u128,
    meant: bool,
}

/// A server's arrangement for some questions.
pub struct Target {
    name: [u8; TABLE_BYTES],
    form: Form,
}

impl HiddenPrepared {
    /// Prepares a question of this kind to a table, in a cell or in the whole table. Without a
    /// question, prepares one without meaning.
    ///
    /// # Errors
    /// [`HiddenError`].
    pub fn new(
        catalogue: &Catalogue,
        kind: Kind,
        cell: Option<&Coordinate>,
        question: Option<&Question<'_>>,
    ) -> Result<Self, HiddenError> {
        let part = match cell {
            None => Part::Whole,
            Some(cell) => {
                let within = catalogue.sites().and_then(|sites| cell.within(sites));
                Part::Cell(within.ok_or_else(|| HiddenError::Chromosome(cell.chromosome.clone()))?)
            }
        };
        let numbers = Numbers::of_part(catalogue, kind, part)?;
        let number = question.map_or(Ok(0), |question| numbers.of(question))?;
        Ok(Self { numbers, number, meant: question.is_some() })
    }

    /// The kind and the part of the table, which the server sees.
    pub fn shown(&self) -> (Kind, Part) {
        (self.numbers.kind(), self.numbers.part())
    }

    /// The number of places of the part.
    pub fn places(&self) -> usize {
        self.numbers.places()
    }

    /// The numbers of such questions.
    pub fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// The path of the layout below that of the table's hidden questions: `6`, or `6/0/12` in a
    /// cell.
    pub fn path(&self) -> String {
        match self.numbers.part() {
            Part::Whole => self.numbers.kind().to_string(),
            Part::Cell(cell) => format!("{}/{}/{}", self.numbers.kind(), cell.chromosome, cell.number),
        }
    }

    /// The server's arrangement, from the bytes of its layout.
    ///
    /// # Errors
    /// [`HiddenError`] for a layout of other questions, or bytes that are none.
    pub fn target(&self, layout: &[u8], parameters: &LatticeParameters) -> Result<Target, HiddenError> {
        let layout = messages::decode_layout(layout, parameters)?;
        let form = Form::new(parameters, &layout)?;
        if layout.permutation().last() != self.numbers.last() || form.expansion().depth() > DEPTH {
            return Err(HiddenError::Layout);
        }
        Ok(Target { name: self.numbers.name(&layout), form })
    }

    /// Encodes the query, encrypted.
    ///
    /// # Errors
    /// [`HiddenError::Client`].
    pub fn query(
        &self,
        asker: &Asker<'_>,
        target: &Target,
        (client, granularity): ([u8; CLIENT_BYTES], Granularity),
        rng: &mut impl CryptoRng,
    ) -> Result<Vec<u8>, HiddenError> {
        let ciphertext = asker.query(&target.form, self.number, rng)?;
        Ok(messages::encode_query(&Query { table: target.name, client, granularity, ciphertext }))
    }

    /// Whether the question has a meaning.
    pub fn is_meant(&self) -> bool {
        self.meant
    }
}

impl Target {
    /// The layout.
    pub fn layout(&self) -> &Layout {
        self.form.layout()
    }

    /// Decodes and decrypts an answer.
    ///
    /// # Errors
    /// [`HiddenError`] for an answer that no honest server gives.
    pub fn read(&self, asker: &Asker<'_>, answer: &[u8]) -> Result<MatchResult, HiddenError> {
        Ok(asker.read(self.layout(), &messages::decode_answer(answer, asker.parameters())?)?)
    }
}
