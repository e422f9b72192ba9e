//! Tables that are served with labels ([`crate::oprf`]): budgets of evaluations, and the questions
//! that fit a table.
//!
//! **Budgets.** An evaluation is a test for membership of one pattern or word, and the client's
//! budget pays for it. A question costs only uses of the client's key, because its evaluations were
//! paid. Inputs are blinded, so nobody can tell the region of an evaluation: **budgets of regions
//! hold for tables without labels only**.

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

/// An evaluation that was admitted and paid. Only the computation is left; it may run anywhere, at
/// any time.
pub struct AdmittedEvaluation {
    labeller: Arc<Labeller>,
    evaluation: Evaluation,
}

/// An evaluation, for a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedEvaluation {
    /// The client.
    pub client: [u8; CLIENT_BYTES],
    /// The table.
    pub table: [u8; TABLE_BYTES],
    /// The number of inputs; each is a test.
    pub elements: usize,
}

/// A table with its labeller, ready to be served.
pub struct LabelledTable {
    served: Served,
    labeller: Labeller,
}

impl LabelledTable {
    /// A table under a key that no other state of the table had. Labels of windows take at most so
    /// many bytes of memory. All keys are evaluated now, in about 40 us each; windows are evaluated
    /// at their first question.
    ///
    /// # Errors
    /// [`Refusal::Question`] for keys that no question has room for.
    pub fn new(table: Table, secret: Secret, kept_bytes: usize) -> Result<Self, Refusal> {
        let labeller = Labeller::new(&table.name, secret, kept_bytes)?;
        Self::of(table, labeller)
    }

    /// A table with its labeller, which no other state of the table had.
    ///
    /// # Errors
    /// [`Self::new`].
    pub fn of(table: Table, labeller: Labeller) -> Result<Self, Refusal> {
        let served = Served::of_table(table)?.with_labels(&labeller)?;
        Ok(Self { served, labeller })
    }
}

impl SearchService {
    /// Serves a panel with labels, under its labeller's name. Questions without labels are
    /// rejected. A table of the same name is replaced, and its labels become useless; budgets stay.
    pub fn serve_labelled(&mut self, panel: Panel, least: u32, labeller: Labeller) {
        let served = Served::of_panel(panel, least).levelled();
        self.serve_table_labelled(LabelledTable { served, labeller });
    }

    /// Serves any table with labels. Questions without labels are rejected. A table of the same
    /// name is replaced, and its labels become useless; budgets stay.
    pub fn serve_table_labelled(&mut self, table: LabelledTable) {
        let name = *table.labeller.table();
        self.drop_cells(&name);
        // an arrangement without labels would answer without an evaluation
        self.serve_hidden(&name, Vec::new());
        self.tables.insert(name, Arc::new(table.served));
        self.labellers.insert(name, Arc::new(table.labeller));
    }

    /// The mode of questions to a table, for its entry in a catalogue; none if there is no such
    /// table.
    pub fn mode(&self, table: &[u8; TABLE_BYTES]) -> Option<Mode> {
        let labelled = self.labellers.get(table).map_or(Mode::Plain, |labeller| labeller.mode());
        self.tables.contains_key(table).then_some(labelled)
    }

    /// Admits an evaluation. The client's budget pays one test for each input.
    ///
    /// # Errors
    /// [`Refusal`]; then the budget is unchanged.
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

    /// Admits an evaluation, and evaluates.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn evaluate(&mut self, bytes: &[u8]) -> Result<(Vec<u8>, AskedEvaluation), Refusal> {
        let (admitted, asked) = self.admit_evaluation(bytes)?;
        Ok((admitted.answer(), asked))
    }
}

impl AdmittedEvaluation {
    /// The answer's bytes. The running time depends on the number of inputs.
    pub fn answer(&self) -> Vec<u8> {
        let secret = self.labeller.secret();
        let elements = self.evaluation.elements.iter().map(|element| secret.evaluate(element)).collect();
        messages::encode_evaluated(&Evaluated { revision: *self.labeller.revision(), elements })
    }
}

/// Checks that a question fits a table's mode.
pub(super) fn check(table: Mode, question: Mode) -> Result<(), Refusal> {
    match (table, question) {
        (Mode::Plain, Mode::Plain) => Ok(()),
        (Mode::Labelled(table), Mode::Labelled(question)) if table == question => Ok(()),
        (Mode::Labelled(_), Mode::Labelled(_)) => Err(Refusal::Revision),
        (Mode::Plain, _) => Err(Refusal::Mode("without labels")),
        (Mode::Labelled(_), _) => Err(Refusal::Mode("with labels")),
    }
}
