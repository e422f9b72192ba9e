//! The client of a search: one identity, the description of one table, and one question at a time.
//!
//! **Labels.** A server with labels first evaluates a question, blinded ([`Searcher::evaluation`],
//! [`Searcher::evaluated`]). The next steps are those of any other question.

use chacha20::{ChaCha20Rng, rand_core::Rng};
use serde::{Deserialize, Serialize};
use tobari_lattice::{params::LatticeError, ring::Modulus, rlwe::SecretKey};
use tobari_octets::{hex, sha256};
use tobari_search::client::{Asker, ClientError, MatchResult};
use tobari_search::fullness::{Fullness, FullnessError};
use tobari_search::hidden::arrangement;
use tobari_search::hidden::cells::{Coordinate, common_places};
use tobari_search::hidden::client::Asker as HiddenAsker;
use tobari_search::hidden::question::{AboutSite, HiddenError, HiddenEvaluation, HiddenPrepared, Target};
use tobari_search::identity::Identity;
use tobari_search::messages::CLIENT_BYTES;
use tobari_search::oprf::function::Blinding;
use tobari_search::question::labelled::{Labels, PreparedLabelled};
use tobari_search::question::{Prepared, QuestionError, Wish, pattern};
use tobari_search::server::Granularity;
use tobari_search::table::{Catalogue, CatalogueContent, Question, SiteError, Sites, TableBytesError};

/// The number of sites that are listed as examples.
const EXAMPLES: usize = 200;

/// The places of a cell that hide one of them well enough, by default.
const ENOUGH: usize = 100;

/// The reason why there is no question or answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// Bytes that do not describe a table.
    #[error("the server's description of the table is malformed")]
    Told,
    /// An invalid catalogue.
    #[error(transparent)]
    Catalogue(#[from] TableBytesError),
    /// An invalid fullness.
    #[error(transparent)]
    Fullness(#[from] FullnessError),
    /// A site that does not exist.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// An impossible question, or an invalid answer.
    #[error(transparent)]
    Question(#[from] QuestionError),
    /// Invalid parameters.
    #[error(transparent)]
    Lattice(#[from] LatticeError),
    /// An error of the client's half.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A question with its place hidden that cannot be asked, or an invalid answer.
    #[error(transparent)]
    Hidden(#[from] HiddenError),
    /// Too few places.
    #[error("{part} has {places} places for such a question, fewer than {least}: nothing was asked")]
    Few {
        /// The table or its cell.
        part: String,
        /// The number of places.
        places: usize,
        /// The fewest.
        least: usize,
    },
    /// A question that was asked without meaning.
    #[error("{0}")]
    Absent(String),
    /// A longest match with its place hidden.
    #[error("a longest match shows the place: every number of sites would be a question of its own")]
    Longest,
    /// A call out of order.
    #[error("expected {0} first, found none")]
    Order(&'static str),
}

/// What the server may see of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shown {
    /// The place.
    Place,
    /// Its cell.
    Cell,
    /// Nothing: the place hides in the whole table.
    Nothing,
}

/// A person's question.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// A site, as `chr20:1000000`; empty for a table of keys.
    pub at: String,
    /// Alleles at this site and the following ones, 0 and 1.
    pub alleles: String,
    /// A key, for a table of keys.
    pub key: String,
    /// What the server may see of the place.
    pub shown: Shown,
    /// The fewest places among which the place must hide.
    pub least: usize,
    /// Whether to ask how many of the alleles occur, from the first on.
    pub longest: bool,
    /// The most labels of a question, on a server with labels.
    pub labels: Option<u64>,
}

/// Neighbours of a table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stretch {
    /// The first, as `chr20:1000000`; the table's first one where it is empty.
    pub at: String,
    /// The largest number of sites.
    pub count: usize,
}

/// A site of a table.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The table's name of the chromosome.
    pub chromosome: String,
    /// The first base is 1.
    pub position: u64,
    /// Allele 0.
    pub reference: String,
    /// Allele 1.
    pub alternate: String,
}

/// The description of a table.
#[derive(Debug, Serialize)]
pub struct About {
    /// `panel`, `variants` or `keys`.
    pub kind: &'static str,
    /// The owner's name for the table.
    pub label: String,
    /// Haplotypes, alleles at each site, or keys.
    pub entries: u64,
    /// The number of sites.
    pub sites: usize,
    /// Names of some of them, in their order.
    pub examples: Vec<String>,
    /// A question; none for keys, which a server does not list.
    pub example: Option<Example>,
    /// Counts below this are not revealed.
    pub least: u32,
    /// Sites of a question, at most.
    pub longest: usize,
}

/// A question that makes sense for a table.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Example {
    /// The first site.
    pub at: String,
    /// Reference alleles.
    pub alleles: String,
    /// The places of the site's cell for this number of alleles.
    pub places: usize,
}

/// The facts about a question that the server will see.
#[derive(Debug, Serialize)]
pub struct ServerView {
    /// The set of parameters.
    pub set: &'static str,
    /// The registered key's SHA-256.
    pub key: String,
    /// The place of the question, if the server sees it.
    pub place: Option<String>,
    /// The cell of the place, if the server sees that.
    pub cell: Option<String>,
    /// The number of places among which the place hides.
    pub among: Option<usize>,
    /// The path of the layout that the question needs, if its place hides.
    pub path: Option<String>,
    /// `log2` of a bound on the probability of a false match.
    pub false_matches: Option<f64>,
}

/// The content of an answer.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct AnswerView {
    /// Whether the whole key, or all alleles, occur.
    pub found: bool,
    /// The number of occurrences, if the answer has it.
    pub count: Option<u64>,
    /// The number of alleles that occur, from the first on, if the question asked for it.
    pub longest: Option<usize>,
}

/// A prepared question.
enum Pending {
    Open {
        ready: Ready,
        secret: SecretKey,
        registration: Vec<u8>,
    },
    /// With the reason why the table has no answer, for a question without meaning.
    Hidden {
        prepared: HiddenPrepared,
        target: Option<Target>,
        round: Round,
        absent: Option<String>,
    },
}

/// A question whose place the server sees.
enum Ready {
    Plain(Prepared),
    /// With the blinding between the request for an evaluation and the reply, and labels after it.
    Labels(PreparedLabelled, Option<Blinding>, Option<Labels>),
}

/// The evaluation of a question whose place hides.
enum Round {
    /// None is needed: there are no labels, or the question has its label.
    Done,
    /// The question waits for its evaluation.
    Waits(Option<Question<'static>>),
    /// The request was made.
    Sent(Option<Question<'static>>, HiddenEvaluation),
}

/// The reply to an evaluation.
#[derive(Debug, Serialize)]
pub struct EvaluatedView {
    /// The name of the server's key of labels, for a question whose place hides: a layout is of one
    /// key.
    pub revision: Option<String>,
}

/// The client of one table. It is wiped on drop.
pub struct Searcher {
    identity: Identity,
    generation: u64,
    table: Option<(Catalogue, Fullness)>,
    pending: Option<Pending>,
    /// The key for questions whose place hides, and its registration of some 6 MB. It is made once.
    hidden: Option<(SecretKey, Vec<u8>)>,
}

/// A question in a cell with enough places, or else in the cell with the most of those looked at:
/// first in the middle of the table, and then on both sides.
fn example(sites: &Sites, every: usize, length: usize) -> Option<Example> {
    let of = |start: usize| {
        sites.check_window(start, length).ok()?;
        let places = common_places(&[sites], &Coordinate::of(sites, start)?, length);
        Some(Example { at: sites.get(start)?.to_string(), alleles: "0".repeat(length), places })
    };
    let middle = sites.len() / 2;
    let around = (0..EXAMPLES).flat_map(|step| [middle.checked_sub(step * every), Some(middle + step * every)]);
    let mut best: Option<Example> = None;
    for found in around.flatten().filter_map(of) {
        if found.places >= ENOUGH {
            return Some(found);
        }
        if best.as_ref().is_none_or(|best| best.places < found.places) {
            best = Some(found);
        }
    }
    best
}

impl Searcher {
    /// A client with a new secret.
    pub fn new(rng: &mut ChaCha20Rng) -> Self {
        let identity = Identity::generate(rng);
        Self { identity, generation: rng.next_u64(), table: None, pending: None, hidden: None }
    }

    /// The client's name, for servers without tokens.
    pub fn name(&self) -> [u8; CLIENT_BYTES] {
        self.identity.name()
    }

    /// Reads the server's description of a table: length of the catalogue (8 bytes, big-endian),
    /// catalogue, fullness.
    ///
    /// # Errors
    /// [`SearchError`] for other bytes.
    pub fn take(&mut self, told: &[u8]) -> Result<About, SearchError> {
        let (length, rest) = told.split_first_chunk().ok_or(SearchError::Told)?;
        let length = usize::try_from(u64::from_be_bytes(*length)).map_err(|_| SearchError::Told)?;
        let (catalogue, fullness) = rest.split_at_checked(length).ok_or(SearchError::Told)?;
        let (catalogue, fullness) = (Catalogue::decode(catalogue)?, Fullness::decode(fullness)?);
        let (kind, entries) = match &catalogue.content {
            CatalogueContent::Panel { haplotypes, .. } => ("panel", u64::from(*haplotypes)),
            CatalogueContent::Variants { alleles, .. } => ("variants", u64::from(*alleles)),
            CatalogueContent::Keys { entries, .. } => ("keys", *entries),
        };
        let sites = catalogue.sites().map_or(0, Sites::len);
        let every = sites.div_ceil(EXAMPLES).max(1);
        let named = (0..sites).step_by(every).filter_map(|index| catalogue.sites()?.get(index));
        let examples = named.map(|site| site.to_string()).collect();
        let (label, least, longest) = (catalogue.label.clone(), catalogue.least, catalogue.longest_pattern());
        let example = catalogue.sites().and_then(|sites| example(sites, every, longest.clamp(1, 4)));
        self.pending = None;
        self.table = Some((catalogue, fullness));
        Ok(About { kind, label, entries, sites, examples, example, least, longest })
    }

    /// Sites from a named one on, up to the end of its chromosome and the maximum of a question.
    ///
    /// # Errors
    /// [`SearchError`] for a site that does not exist, or a table without sites.
    pub fn sites(&self, wanted: &Stretch) -> Result<Vec<Place>, SearchError> {
        let (catalogue, _) = self.table.as_ref().ok_or(SearchError::Order("a table"))?;
        let sites = catalogue.sites().ok_or(SearchError::Order("a table with sites"))?;
        let start = if wanted.at.is_empty() { 0 } else { sites.named(&wanted.at)? };
        let most = wanted.count.min(catalogue.longest_pattern());
        let all = (start..sites.len()).take(most).filter_map(|index| sites.get(index));
        let first = sites.get(start).map(|site| site.chromosome);
        let near = all.take_while(|site| Some(site.chromosome) == first);
        Ok(near
            .map(|site| Place {
                chromosome: site.chromosome.to_string(),
                position: site.position,
                reference: site.reference.to_string(),
                alternate: site.alternate.to_string(),
            })
            .collect())
    }

    /// Prepares a question; it replaces the previous one.
    ///
    /// # Errors
    /// [`SearchError`] for a question that the table does not answer.
    pub fn prepare(&mut self, wanted: &Wanted) -> Result<ServerView, SearchError> {
        let (catalogue, fullness) = self.table.as_ref().ok_or(SearchError::Order("a table"))?;
        let wish = Wish { granularity: Granularity::Count, longest: wanted.longest };
        if catalogue.sites().is_some() && wanted.shown != Shown::Place {
            let AboutSite { prepared, cell, question } = hidden(catalogue, wanted)?;
            let (question, absent) = match question {
                Ok(question) => (Some(question), None),
                Err(why) => (None, Some(why)),
            };
            let round = wanted.labels.map_or(Round::Done, |_| Round::Waits(question));
            return self.prepare_hidden(prepared, cell, (round, absent));
        }
        let question = match catalogue.sites() {
            None => Question::Key(wanted.key.as_bytes()),
            Some(sites) => {
                let (start, (pattern, length)) = (sites.named(&wanted.at)?, pattern(&wanted.alleles)?);
                Question::Window { start, length, pattern }
            }
        };
        let of = (catalogue, fullness);
        let (ready, set, false_matches) = match wanted.labels {
            None => {
                let prepared = Prepared::new(of, &question, wish)?;
                let (set, false_matches) = (prepared.set(), prepared.false_matches());
                (Ready::Plain(prepared), set, false_matches)
            }
            Some(most) => {
                let prepared = PreparedLabelled::new(of, &question, wish)?;
                // before it is paid for
                prepared.check(most)?;
                let (set, false_matches) = (prepared.set(), prepared.false_matches());
                (Ready::Labels(prepared, None, None), set, false_matches)
            }
        };
        let (secret, registration) = self.identity.key(&set, self.generation)?;
        let place = match question {
            Question::Window { start, .. } => catalogue.sites().and_then(|sites| sites.get(start)),
            Question::Key(_) => None,
        };
        let seen = ServerView {
            set: set.name,
            key: hex(&sha256(&registration)),
            place: place.map(|site| site.to_string()),
            cell: None,
            among: None,
            path: None,
            false_matches,
        };
        self.pending = Some(Pending::Open { ready, secret, registration });
        Ok(seen)
    }

    /// Prepares a question whose place hides. It needs the server's layout next.
    fn prepare_hidden(
        &mut self,
        prepared: HiddenPrepared,
        cell: Option<Coordinate>,
        (round, absent): (Round, Option<String>),
    ) -> Result<ServerView, SearchError> {
        let set = arrangement::set().ok_or(SearchError::Order("a set of parameters"))?;
        let made = match self.hidden.take() {
            Some(made) => made,
            None => self.identity.hidden_key(&set, self.generation)?,
        };
        let seen = ServerView {
            set: set.name,
            key: hex(&sha256(&made.1)),
            place: None,
            cell: cell.map(|cell| cell.to_string()),
            among: Some(prepared.places()),
            path: Some(prepared.path()),
            false_matches: None,
        };
        self.hidden = Some(made);
        self.pending = Some(Pending::Hidden { prepared, target: None, round, absent });
        Ok(seen)
    }

    /// The request for the evaluation of the prepared question, in the name of this client.
    ///
    /// # Errors
    /// [`SearchError::Order`] for a question without labels, or one that is evaluated already.
    pub fn evaluation(&mut self, client: [u8; CLIENT_BYTES], rng: &mut ChaCha20Rng) -> Result<Vec<u8>, SearchError> {
        let needed = SearchError::Order("a question that needs an evaluation");
        match &mut self.pending {
            Some(Pending::Open { ready: Ready::Labels(prepared, kept, None), .. }) => {
                let (request, blinding) = prepared.evaluation(client, rng)?;
                *kept = Some(blinding);
                Ok(request)
            }
            Some(Pending::Hidden { prepared, round, .. }) => {
                let (Round::Waits(question) | Round::Sent(question, _)) = round else { return Err(needed) };
                let evaluation = prepared.evaluation(client, question.as_ref(), rng)?;
                let request = evaluation.request().to_vec();
                *round = Round::Sent(*question, evaluation);
                Ok(request)
            }
            _ => Err(needed),
        }
    }

    /// Takes the reply to the evaluation. It may be taken once.
    ///
    /// # Errors
    /// [`SearchError`] for a reply that does not fit the request.
    pub fn evaluated(&mut self, reply: &[u8]) -> Result<EvaluatedView, SearchError> {
        let needed = SearchError::Order("an evaluation");
        match &mut self.pending {
            Some(Pending::Open { ready: Ready::Labels(prepared, kept, labels), .. }) => {
                *labels = Some(prepared.labels(kept.take().ok_or(needed)?, reply)?);
                Ok(EvaluatedView { revision: None })
            }
            Some(Pending::Hidden { prepared, round, target, .. }) => {
                let (question, evaluation) = match std::mem::replace(round, Round::Done) {
                    Round::Sent(question, evaluation) => (question, evaluation),
                    other => {
                        *round = other;
                        return Err(needed);
                    }
                };
                *round = Round::Waits(question);
                let label = evaluation.finish(reply)?;
                let t = arrangement::set().and_then(|set| set.plaintext_modulus).and_then(Modulus::new);
                let t = t.ok_or(SearchError::Order("a set of parameters"))?;
                *prepared = prepared.clone().with_label(&label, &t);
                (*round, *target) = (Round::Done, None);
                Ok(EvaluatedView { revision: prepared.shown().2.map(|revision| hex(&revision)) })
            }
            _ => Err(needed),
        }
    }

    fn hidden(&self) -> Result<&(SecretKey, Vec<u8>), SearchError> {
        self.hidden.as_ref().ok_or(SearchError::Order("a question"))
    }

    /// Takes the server's layout for the prepared question.
    ///
    /// # Errors
    /// [`SearchError`] for a layout of other questions.
    pub fn layout(&mut self, layout: &[u8]) -> Result<(), SearchError> {
        let parameters = self.hidden()?.0.parameters().clone();
        let Some(Pending::Hidden { prepared, target, round, .. }) = &mut self.pending else {
            return Err(SearchError::Order("a question whose place hides"));
        };
        if !matches!(round, Round::Done) {
            return Err(SearchError::Order("an evaluation"));
        }
        *target = Some(prepared.target(layout, &parameters)?);
        Ok(())
    }

    fn pending(&self) -> Result<&Pending, SearchError> {
        self.pending.as_ref().ok_or(SearchError::Order("a question"))
    }

    /// The public key that the server needs for the prepared question.
    ///
    /// # Errors
    /// [`SearchError::Order`] without a question.
    pub fn registration(&self) -> Result<&[u8], SearchError> {
        match self.pending()? {
            Pending::Open { registration, .. } => Ok(registration),
            Pending::Hidden { .. } => Ok(&self.hidden()?.1),
        }
    }

    /// The prepared question, encrypted, in the name of this client.
    ///
    /// # Errors
    /// [`SearchError`].
    pub fn query(&self, client: [u8; CLIENT_BYTES], rng: &mut ChaCha20Rng) -> Result<Vec<u8>, SearchError> {
        match self.pending()? {
            Pending::Open { ready, secret, .. } => {
                let asker = Asker::new(secret)?;
                match ready {
                    Ready::Plain(prepared) => Ok(prepared.query(&asker, client, rng)?),
                    Ready::Labels(prepared, _, labels) => {
                        let labels = labels.as_ref().ok_or(SearchError::Order("an evaluation"))?;
                        Ok(prepared.query(&asker, client, labels, rng)?)
                    }
                }
            }
            Pending::Hidden { prepared, target, .. } => {
                let target = target.as_ref().ok_or(SearchError::Order("a layout"))?;
                let asker = HiddenAsker::new(&self.hidden()?.0).map_err(HiddenError::from)?;
                Ok(prepared.query(&asker, target, (client, Granularity::Count), rng)?)
            }
        }
    }

    /// Decrypts the answer to the prepared question.
    ///
    /// # Errors
    /// [`SearchError`] for an invalid answer.
    pub fn read(&self, answer: &[u8]) -> Result<AnswerView, SearchError> {
        let found = match self.pending()? {
            Pending::Open { ready, secret, .. } => {
                let asker = Asker::new(secret)?;
                match ready {
                    Ready::Plain(prepared) => prepared.read(&asker, answer)?,
                    Ready::Labels(prepared, _, labels) => {
                        prepared.read(&asker, labels.as_ref().ok_or(SearchError::Order("an evaluation"))?, answer)?
                    }
                }
            }
            Pending::Hidden { absent: Some(why), .. } => return Err(SearchError::Absent(why.clone())),
            Pending::Hidden { prepared, target, .. } => {
                let target = target.as_ref().ok_or(SearchError::Order("a layout"))?;
                let asker = HiddenAsker::new(&self.hidden()?.0).map_err(HiddenError::from)?;
                prepared.uncover(target.read(&asker, answer)?, target, asker.modulus())
            }
        };
        Ok(match found {
            MatchResult::Absent => AnswerView { found: false, count: Some(0), longest: None },
            MatchResult::Present(count) => AnswerView { found: true, count, longest: None },
            MatchResult::Longest(sites, count) => AnswerView { found: true, count, longest: Some(sites) },
        })
    }

    /// Replaces the key by a new one, after the server's limit of uses.
    pub fn renew(&mut self, rng: &mut ChaCha20Rng) {
        self.generation = rng.next_u64();
        (self.pending, self.hidden) = (None, None);
    }
}

/// A question whose place hides as wanted.
fn hidden(catalogue: &Catalogue, wanted: &Wanted) -> Result<AboutSite, SearchError> {
    if wanted.longest {
        return Err(SearchError::Longest);
    }
    let asked = AboutSite::new(catalogue, &wanted.at, &wanted.alleles, wanted.shown == Shown::Nothing)?;
    let (places, least) = (asked.prepared.places(), wanted.least);
    if places < least {
        let part = asked.cell.map_or_else(|| "the table".to_owned(), |cell| format!("the cell {cell}"));
        return Err(SearchError::Few { part, places, least });
    }
    Ok(asked)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use tobari_search::table::Site;

    fn sites(positions: impl Iterator<Item = u64>) -> Sites {
        let mut sites = Sites::new();
        for position in positions {
            let (reference, alternate) = ("A".into(), "C".into());
            sites.push(Site { chromosome: "20".into(), position, id: None, reference, alternate }).unwrap();
        }
        sites
    }

    #[test]
    fn an_example_is_in_a_cell_with_enough_places_or_in_the_fullest() {
        // the middle is sparse; the cells beside it have 150 sites
        let dense = |cell: u64| (0..150).map(move |i| cell * 1_000_000 + 1 + 6_000 * i);
        let sparse = (0..40).map(|i| 3_000_001 + 20_000 * i);
        let found = example(&sites(dense(1).chain(sparse.clone()).chain(dense(5))), 1, 4).unwrap();
        assert_eq!(
            (found.alleles.as_str(), found.places),
            ("0000", 147),
            "the last three of the chromosome have no room"
        );
        let few = example(&sites(sparse.chain((0..50).map(|i| 7_000_001 + 20_000 * i))), 1, 4).unwrap();
        assert_eq!((few.places, few.at.starts_with("20:7")), (47, true), "{few:?}");
        assert_eq!(example(&sites((0..3).map(|i| 1 + i)), 1, 4), None);
    }
}
