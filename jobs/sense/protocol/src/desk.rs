//! Decrypts the results of a server, each once, checks them, and releases or withholds them.
//!
//! **The key holder is a decryption oracle**, and this module is its only protection. A result is
//! withheld as a whole, without a reason, unless
//!
//! * it answers a registered question, for a window of that question, and no result of that
//!   question and window was decrypted before;
//! * the question allows its tally: every group has the least size, devices of weight 0 do not
//!   count, and each other weight belongs to as many devices as the least size;
//! * there are as many ciphertexts as the plan of that tally has, and they decrypt
//!   ([`decrypt`](tobari_lattice::bgv::Decryptor::decrypt));
//! * every sum is in the range of its plan, sums of places without a column are those of zeros,
//!   undeclared slots are zero, and a number that fills many slots is the same in all of them
//!   ([`super::client`]).
//!
//! Sums are exact integers: no noise is released, so noise flooding is not needed. **These checks
//! limit damage and prove nothing**: they do not detect a server that submits another ciphertext of
//! the right form. Decryption stops at the first error. So the server must not learn when
//! decryption ends: nothing sent to the server may wait for it.

use super::client::{self, Withheld};
use super::message::{self, WindowResults};
use super::order::{Answer, Job, JobPlan, Order, Taken};
use super::question::{QuestionError, Registered, Resolved};
use super::registry::Registry;
use super::release::{GroupSums, Release, figures};
use super::schema::{Schema, Sheet};
use super::setting::Setting;
use crate::with_profile;
use std::collections::{BTreeMap, BTreeSet};
use tobari_device::READINGS;
use tobari_lattice::bgv::Ciphertext;
use tobari_lattice::rlwe::SecretKey;

/// The number of results by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Released results.
    pub released: u64,
    /// Withheld results.
    pub withheld: u64,
    /// Results that were not decrypted: the question does not exist, or the window was decrypted
    /// before.
    pub refused: u64,
}

/// Decrypts and checks results.
pub struct ResultOpener {
    setting: Setting,
    schema: Schema,
    secret: SecretKey,
    questions: BTreeMap<String, (Registered, Vec<Resolved>)>,
    opened: BTreeSet<(String, u64)>,
    counts: Opened,
}

impl ResultOpener {
    /// An opener with the key holder's key.
    pub fn new(setting: Setting, schema: Schema, secret: SecretKey) -> Self {
        Self { setting, schema, secret, questions: BTreeMap::new(), opened: BTreeSet::new(), counts: Opened::default() }
    }

    /// Adds a registered question.
    ///
    /// # Errors
    /// [`QuestionError`] if the statistics do not fit the schema, or a weight singles out devices.
    /// An older version may have registered such a question.
    pub fn register(&mut self, registered: Registered) -> Result<(), QuestionError> {
        let statistics = registered.check(&self.schema)?;
        self.questions.insert(registered.id(), (registered, statistics));
        Ok(())
    }

    /// The questions, by their names between key holder and server.
    pub fn questions(&self) -> impl Iterator<Item = (&String, &Registered)> {
        self.questions.iter().map(|(id, question)| (id, &question.0))
    }

    /// Records that an earlier run decrypted a result.
    pub fn note_opened(&mut self, id: &str, start_ms: u64) {
        self.opened.insert((id.to_owned(), start_ms));
    }

    /// Whether a result was decrypted before.
    pub fn was_opened(&self, id: &str, start_ms: u64) -> bool {
        self.opened.contains(&(id.to_owned(), start_ms))
    }

    /// The number of results by outcome.
    pub fn counts(&self) -> Opened {
        self.counts
    }

    /// Decrypts a server's result of a question for the window that begins at `start_ms`. A second
    /// call for the same window is refused, whatever the outcome of the first.
    ///
    /// # Errors
    /// [`Withheld`], for every reason.
    pub fn open(&mut self, id: &str, start_ms: u64, bytes: &[u8], registry: &Registry) -> Result<Release, Withheld> {
        let known = self.questions.get(id);
        let fits = known.is_some_and(|(question, _)| question.order.windows().begins_at(start_ms));
        if !fits || !self.opened.insert((id.to_owned(), start_ms)) {
            self.counts.refused += 1;
            return Err(Withheld);
        }
        let released = self.release(id, start_ms, bytes, registry);
        match released {
            Ok(_) => self.counts.released += 1,
            Err(Withheld) => self.counts.withheld += 1,
        }
        released
    }

    fn release(&self, id: &str, start_ms: u64, bytes: &[u8], registry: &Registry) -> Result<Release, Withheld> {
        let (registered, statistics) = self.questions.get(id).ok_or(Withheld)?;
        let WindowResults { tally, results } =
            message::decode(bytes, &self.setting.parameters).map_err(|_| Withheld)?;
        let job = registered.order.job(&self.setting, &registry.seats(), &tally).map_err(|_| Withheld)?;
        if job.outputs() != results.len() {
            return Err(Withheld);
        }
        let sums = self.sums(&job, &results)?;
        let sheets = self.schema.sheets();
        let sheet = sheets.get(usize::from(registered.order.sheet)).ok_or(Withheld)?;
        let mut groups = Vec::with_capacity(job.answers.len());
        for answer in &job.answers {
            let sums = Self::group(&job, answer, &sums, sheet, &registered.order)?;
            let group = if registered.order.by_device {
                registry.numbered(answer.group as u32).map(|entry| entry.name.clone())
            } else {
                registered.groups.get(answer.group).cloned()
            };
            let group = group.ok_or(Withheld)?;
            let sums = GroupSums { group, devices: answer.devices, frames: answer.frames, sums };
            groups.push(figures(registered, statistics, &self.schema, &sums));
        }
        let too_few = job.too_few.iter().filter_map(|group| registered.groups.get(*group).cloned()).collect();
        let left_out = tally.iter().map(|tally| u64::from(tally.left_out)).sum();
        let (question, id, end_ms) =
            (registered.question.name.clone(), id.to_owned(), registered.order.windows().end(start_ms));
        let sheet = registered.order.sheet;
        Ok(Release { question, id, start_ms, end_ms, groups, sheet, too_few, left_out })
    }

    /// All sums of all results, each checked against its plan. The bound on a result's noise comes
    /// from the server, so no noise is compared with it: the answer would measure the noise.
    fn sums(&self, job: &Job, results: &[Ciphertext]) -> Result<Vec<client::Sums>, Withheld> {
        let mut all = Vec::with_capacity(results.len());
        for (output, result) in results.iter().enumerate() {
            if result.needs_relinearization() {
                return Err(Withheld);
            }
            all.push(match &job.plan {
                JobPlan::Linear(plan) => {
                    with_profile!(self.setting.profile, P => client::linear::<P>(plan, output, &self.secret, result)?)
                }
                JobPlan::Exact(plan) => client::exact(plan, output, &self.secret, result)?,
            });
        }
        Ok(all)
    }

    /// The sums of a group by measure. It checks that places without a column have the sums of
    /// zeros.
    fn group(
        job: &Job,
        answer: &Answer,
        sums: &[client::Sums],
        sheet: &Sheet,
        order: &Order,
    ) -> Result<Vec<[i64; READINGS]>, Withheld> {
        let mut all = Vec::with_capacity(answer.outputs.len());
        for outputs in &answer.outputs {
            let mut total = [0i64; READINGS];
            let mut zero = 0;
            for (output, block) in outputs {
                let of_block = sums.get(*output).and_then(|sums| sums.get(block.unwrap_or(0))).ok_or(Withheld)?;
                for (total, sum) in total.iter_mut().zip(of_block) {
                    *total = total.checked_add(*sum).ok_or(Withheld)?;
                }
                if let JobPlan::Exact(plan) = &job.plan {
                    zero = plan.outputs().get(*output).ok_or(Withheld)?.measure.table()[0];
                }
            }
            let expected = zero.checked_mul(answer.weight).ok_or(Withheld)?;
            if total[sheet.used().min(READINGS)..].iter().any(|sum| *sum != expected) {
                return Err(Withheld);
            }
            all.push(total);
        }
        let fits = !order.weights.is_empty() || ones_fit(&all, order, sheet, answer.frames as i64);
        if fits { Ok(all) } else { Err(Withheld) }
    }
}

/// Whether ones, zeros and counts have sums that so many frames can have. All sums straight from
/// frames share one range, and the range of these columns is smaller.
fn ones_fit(all: &[[i64; READINGS]], order: &Order, sheet: &Sheet, frames: i64) -> bool {
    all.iter().enumerate().all(|(measure, sums)| {
        let readings = order.measures.get(measure).is_none_or(|taken| *taken == Taken::Reading);
        let fits = |(place, sum): (usize, &i64)| {
            sheet.most(place, frames, readings).is_none_or(|most| (0..=most).contains(sum))
        };
        sums.iter().enumerate().all(fits)
    })
}
