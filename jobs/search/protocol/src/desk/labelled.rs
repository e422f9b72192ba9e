//! Tables that are served with labels ([`crate::oprf`]): who may have how much evaluated, and which
//! questions fit a table.
//!
//! **What is counted.** An evaluation is a test for membership of one pattern or word, and its
//! client's budget pays it. A question costs nothing but the use of the client's key: what it may
//! ask was paid. As inputs are blinded nobody can say which region an evaluation is about:
//! **budgets of regions hold for tables without labels only**.

use super::served::Served;
use super::{Client, Refusal, SearchService};
use crate::messages::{CLIENT_BYTES, TABLE_BYTES};
use crate::oprf::Mode;
use crate::oprf::function::Secret;
use crate::oprf::labels::Labeller;
use crate::oprf::messages::{self, Evaluated, Evaluation};
use crate::panel::Panel;
use crate::program::Shape;
use crate::table::Table;
use std::sync::Arc;

/// An evaluation that was admitted and paid: what is left is to compute, anywhere and at any time.
pub struct AdmittedEvaluation {
    labeller: Arc<Labeller>,
    evaluation: Evaluation,
}

/// What was evaluated, for a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedEvaluation {
    /// For whom.
    pub client: [u8; CLIENT_BYTES],
    /// For which table.
    pub table: [u8; TABLE_BYTES],
    /// How many inputs: so many tests.
    pub elements: usize,
}

/// Any table with its labeller, ready to be served.
pub struct LabelledTable {
    served: Served,
    labeller: Labeller,
}

impl LabelledTable {
    /// A table under a key that no other state of it had, which keeps labels of windows of at most
    /// so many bytes. Keys are all evaluated here, which takes some 40 us for each; windows when
    /// they are first asked for.
    ///
    /// # Errors
    /// [`Refusal::Question`] for more keys than one answer compares, or keys that no question has
    /// room for.
    pub fn new(table: Table, secret: Secret, kept_bytes: usize) -> Result<Self, Refusal> {
        let labeller = Labeller::new(&table.name, secret, kept_bytes)?;
        let served = Served::of_table(table)?.with_labels(&labeller)?;
        Ok(Self { served, labeller })
    }
}

impl SearchService {
    /// Serves a panel with labels, under the name that its labeller has: questions without labels
    /// are refused. One of the same name is replaced, whose labels are of no more use; budgets
    /// stay.
    pub fn serve_labelled(&mut self, panel: Panel, least: u32, labeller: Labeller) {
        let served = Served::of_panel(panel, least).levelled();
        self.serve_table_labelled(LabelledTable { served, labeller });
    }

    /// Serves any table with labels: questions without are refused. One of the same name is
    /// replaced, whose labels are of no more use; budgets stay.
    pub fn serve_table_labelled(&mut self, table: LabelledTable) {
        let name = *table.labeller.table();
        self.tables.insert(name, Arc::new(table.served));
        self.labellers.insert(name, Arc::new(table.labeller));
    }

    /// How questions to a table are put, for its entry in a catalogue; none if there is no such
    /// table.
    pub fn mode(&self, table: &[u8; TABLE_BYTES]) -> Option<Mode> {
        let labelled = self.labellers.get(table).map_or(Mode::Plain, |labeller| labeller.mode());
        self.tables.contains_key(table).then_some(labelled)
    }

    /// Admits an evaluation, which its client's budget pays: a test for each input.
    ///
    /// # Errors
    /// [`Refusal`]; the budget is as it was.
    pub fn admit_evaluation(&mut self, bytes: &[u8]) -> Result<(AdmittedEvaluation, AskedEvaluation), Refusal> {
        let evaluation = messages::decode_evaluation(bytes)?;
        let Evaluation { table, client, elements } = &evaluation;
        let mode = self.mode(table).ok_or(Refusal::Table)?;
        let labeller = self.labellers.get(table).ok_or(Refusal::Mode("without labels"))?;
        let set = mode.set(Shape::Word { bits: 1 }, 1).map_or("", |set| set.name);
        let Client { tests, .. } = self.clients.get_mut(client).ok_or(Refusal::Key { set })?;
        let limit = self.limits.tests;
        let made = tests.checked_add(elements.len() as u64).filter(|made| *made <= limit);
        *tests = made.ok_or(Refusal::Budget { tests: limit })?;
        let asked = AskedEvaluation { client: *client, table: *table, elements: elements.len() };
        Ok((AdmittedEvaluation { labeller: Arc::clone(labeller), evaluation }, asked))
    }

    /// Admits and evaluates.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn evaluate(&mut self, bytes: &[u8]) -> Result<(Vec<u8>, AskedEvaluation), Refusal> {
        let (admitted, asked) = self.admit_evaluation(bytes)?;
        Ok((admitted.answer(), asked))
    }
}

impl AdmittedEvaluation {
    /// The answer's bytes. How long it takes depends on how many inputs there are.
    pub fn answer(&self) -> Vec<u8> {
        let secret = self.labeller.secret();
        let elements = self.evaluation.elements.iter().map(|element| secret.evaluate(element)).collect();
        messages::encode_evaluated(&Evaluated { revision: *self.labeller.revision(), elements })
    }
}

/// Whether a question fits a table's mode.
pub(super) fn check(table: Mode, question: Mode) -> Result<(), Refusal> {
    match (table, question) {
        (Mode::Plain, Mode::Plain) => Ok(()),
        (Mode::Labelled(table), Mode::Labelled(question)) if table == question => Ok(()),
        (Mode::Labelled(_), Mode::Labelled(_)) => Err(Refusal::Revision),
        (Mode::Plain, _) => Err(Refusal::Mode("without labels")),
        (Mode::Labelled(_), _) => Err(Refusal::Mode("with labels")),
    }
}
