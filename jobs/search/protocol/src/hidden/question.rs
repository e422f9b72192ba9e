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
use crate::oprf::Revision;
use crate::oprf::function::Blinding;
use crate::oprf::labels::Label;
use crate::oprf::messages::{Evaluation, decode_evaluated, encode_evaluation};
use crate::question::{self, QuestionError};
use crate::server::Granularity;
use crate::table::{Catalogue, Question, Sites};
use rand_core::CryptoRng;
use tobari_lattice::bgv::EncodeError;
use tobari_lattice::params::LatticeParameters;
use tobari_lattice::ring::Modulus;

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
    /// The pads of the digits of the count, with labels.
    pads: [u64; 2],
    meant: bool,
}

/// A question about a named site whose place hides.
#[derive(Clone, Debug)]
pub struct AboutSite {
    /// What is sent: the question, or one without meaning.
    pub prepared: HiddenPrepared,
    /// The cell that the server sees; none in the whole table.
    pub cell: Option<Coordinate>,
    /// The question, or why this table has no answer to it.
    pub question: Result<Question<'static>, String>,
}

impl AboutSite {
    /// Prepares a question about alleles (as `0110`) from a named site on (as `chr20:1000000`), in
    /// its cell or in the `whole` table. A site that the table does not list is asked about without
    /// meaning: silence would tell the server that it is not listed.
    ///
    /// # Errors
    /// [`HiddenError`] for text that names no place and alleles, for a chromosome that the table
    /// does not have, and for a table of keys.
    pub fn new(catalogue: &Catalogue, site: &str, alleles: &str, whole: bool) -> Result<Self, HiddenError> {
        let (pattern, length) = question::pattern(alleles)?;
        let sites = catalogue.sites().ok_or(QuestionError::Kind("and a table of keys has no sites"))?;
        let named = sites.named(site).and_then(|start| sites.check_window(start, length).map(|()| start));
        let cell = match (&named, Sites::position_of(site)) {
            (Ok(start), _) => Coordinate::of(sites, *start),
            (Err(_), Some((chromosome, position))) => Some(Coordinate::new(chromosome, position)),
            (Err(error), None) => return Err(QuestionError::Site(error.clone()).into()),
        };
        let cell = cell.filter(|_| !whole);
        let asked = named.map(|start| Question::Window { start, length, pattern }).map_err(|error| error.to_string());
        let kind = Kind::Windows(length);
        let meant = asked.clone().and_then(|question| {
            let prepared = HiddenPrepared::new(catalogue, kind, cell.as_ref(), Some(&question));
            prepared.map(|prepared| (prepared, question)).map_err(|error| error.to_string())
        });
        match meant {
            Ok((prepared, question)) => Ok(Self { prepared, cell, question: Ok(question) }),
            Err(why) => {
                let prepared = HiddenPrepared::new(catalogue, kind, cell.as_ref(), None)?;
                Ok(Self { prepared, cell, question: Err(why) })
            }
        }
    }
}

/// The label of a question's input. It is wiped on drop.
pub struct HiddenLabel {
    revision: Revision,
    label: Label,
}

/// A question to a table with labels: its input is evaluated first.
///
/// The evaluation shows that the client evaluates one input, and pays for one test. A question
/// without meaning has some input evaluated, so that it looks the same.
pub struct HiddenEvaluation {
    blinding: Blinding,
    request: Vec<u8>,
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
        Ok(Self { numbers, number, pads: [0; 2], meant: question.is_some() })
    }

    /// The evaluation of the question's input, for a table with labels.
    ///
    /// # Errors
    /// [`HiddenError::Question`] for a question that the table does not have.
    pub fn evaluation(
        &self,
        client: [u8; CLIENT_BYTES],
        question: Option<&Question<'_>>,
        rng: &mut impl CryptoRng,
    ) -> Result<HiddenEvaluation, HiddenError> {
        let input = match question {
            Some(question) => self.numbers.input(question)?,
            None => self.numbers.some_input(),
        };
        let blinding = Blinding::new(vec![input], rng).map_err(QuestionError::from)?;
        let elements = blinding.elements().to_vec();
        let request = encode_evaluation(&Evaluation { table: *self.numbers.table(), client, elements });
        Ok(HiddenEvaluation { blinding, request })
    }

    /// The same question, asked by its label. `t` is the plaintext modulus of the query.
    #[must_use]
    pub fn with_label(self, label: &HiddenLabel, t: &Modulus) -> Self {
        let (number, pads) = label.label.hidden(t);
        Self { numbers: self.numbers.with_labels(label.revision), number, pads, meant: self.meant }
    }

    /// Removes the pads from the count of an answer.
    pub fn uncover(&self, found: MatchResult, target: &Target, t: &Modulus) -> MatchResult {
        let MatchResult::Present(Some(count)) = found else { return found };
        let digits = target.layout().digits_of(t, count).zip(self.pads).map(|(digit, pad)| t.sub(digit, pad));
        let digits: Vec<u64> = digits.collect();
        MatchResult::Present(Some(digits.iter().rev().fold(0, |count, digit| count * t.value() + digit)))
    }

    /// The kind and the part of the table, which the server sees, and the name of the key of
    /// labels.
    pub fn shown(&self) -> (Kind, Part, Option<Revision>) {
        (self.numbers.kind(), self.numbers.part(), self.numbers.labels().copied())
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

impl HiddenEvaluation {
    /// The bytes of the request.
    pub fn request(&self) -> &[u8] {
        &self.request
    }

    /// Takes the label from the reply.
    ///
    /// # Errors
    /// [`HiddenError`] for a reply that does not fit the request.
    pub fn finish(self, reply: &[u8]) -> Result<HiddenLabel, HiddenError> {
        let evaluated = decode_evaluated(reply)?;
        let mut outputs = self.blinding.finish(&evaluated.elements).map_err(QuestionError::from)?;
        let label = outputs.pop().map(Label::new).ok_or(MessageError::Malformed("number of elements"))?;
        Ok(HiddenLabel { revision: evaluated.revision, label })
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
