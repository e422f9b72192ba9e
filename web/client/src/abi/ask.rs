//! The client of an inference or of a search.
//!
//! | function | input | output |
//! |---|---|---|
//! | `infer_new` | a model's digest (32 bytes) and card | `KeyInfo` as JSON, or `{"error":…}` |
//! | `infer_take_up` | a stored key | the same |
//! | `infer_kept` | | the key's own bytes, which are secret |
//! | `infer_keys` | | the evaluation keys |
//! | `infer_question` | grey pixels | a question; none for an image of another size |
//! | `infer_answer` | an answer | [`ImageAnswer`](crate::infer::ImageAnswer), or `{"error":…}` |
//! | `infer_forget` | | |
//! | `search_name` | | 16 bytes: the client's name; the first call makes a secret |
//! | `search_table` | a table's description | `About` as JSON, or `{"error":…}` |
//! | `search_sites` | a [`Stretch`](crate::search::Stretch) | a list of [`Place`](crate::search::Place), or `{"error":…}` |
//! | `search_prepare` | a [`Wanted`](crate::search::Wanted) | [`ServerView`](crate::search::ServerView), or `{"error":…}` |
//! | `search_evaluation` | the client's name | the request for the evaluation of the question |
//! | `search_evaluated` | the reply | [`EvaluatedView`](crate::search::EvaluatedView), or `{"error":…}` |
//! | `search_layout` | the server's layout of the question | `{}`, or `{"error":…}` |
//! | `search_registration` | | the public key for the prepared question |
//! | `search_query` | the client's name | the question, encrypted |
//! | `search_answer` | an answer | [`AnswerView`](crate::search::AnswerView), or `{"error":…}` |
//! | `search_renew` | | |

use super::{error, wipe_stack, with, with_input};
use crate::{
    infer::{AskError, Asker},
    search::{SearchError, Searcher},
};
use chacha20::ChaCha20Rng;
use serde::Serialize;
use serde_json::json;
use std::cell::RefCell;

thread_local! {
    static ASKER: RefCell<Option<Asker>> = const { RefCell::new(None) };
}

fn asker<T>(otherwise: T, work: impl FnOnce(&mut Asker) -> T) -> T {
    ASKER.with_borrow_mut(|asker| asker.as_mut().map_or(otherwise, work))
}

/// Keeps the new key, and returns its [`KeyInfo`](crate::infer::KeyInfo).
fn begun(made: Result<Asker, AskError>) -> Vec<u8> {
    match made {
        Ok(asker) => {
            let told = serde_json::to_vec(&asker.told()).unwrap_or_default();
            ASKER.set(Some(asker));
            told
        }
        Err(why) => error(why),
    }
}

/// Makes a new key.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_infer_new(len: u32) -> i32 {
    with_input(len, |state, input| {
        let Some(mut rng) = state.draw() else { return -1 };
        let told = begun(Asker::new(input, &mut rng));
        state.put(&told)
    })
}

/// Loads a stored key.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_infer_take_up(len: u32) -> i32 {
    with_input(len, |state, input| {
        let told = begun(Asker::take_up(input));
        state.put(&told)
    })
}

/// The key's own bytes.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_infer_kept() -> i32 {
    asker(-1, |asker| with(|state| state.put(&asker.kept())))
}

/// The evaluation keys.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_infer_keys() -> i32 {
    asker(-1, |asker| match asker.keys() {
        Ok(keys) => with(|state| state.put(&keys)),
        Err(_) => -1,
    })
}

/// An image, encrypted.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_infer_question(len: u32) -> i32 {
    with_input(len, |state, input| {
        let Some(mut rng) = state.draw() else { return -1 };
        match asker(None, |asker| asker.question(input, &mut rng).ok()) {
            Some(question) => state.put(&question),
            None => -1,
        }
    })
}

/// Decrypts an answer.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_infer_answer(len: u32) -> i32 {
    with_input(len, |state, input| {
        let told = asker(None, |asker| Some(asker.answer(input)));
        let told = match told {
            Some(Ok(answer)) => serde_json::to_vec(&answer).unwrap_or_default(),
            Some(Err(why)) => error(why),
            None => error("expected a key first, found none"),
        };
        state.put(&told)
    })
}

/// Forgets the key and wipes it.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_infer_forget() {
    ASKER.set(None);
    with(|state| {
        state.fresh();
    });
    wipe_stack();
}

thread_local! {
    static SEARCHER: RefCell<Option<Searcher>> = const { RefCell::new(None) };
}

/// The output of a call to the searcher.
fn searching<T: Serialize>(
    len: u32,
    work: impl FnOnce(&mut Searcher, &[u8], &mut ChaCha20Rng) -> Result<T, SearchError>,
) -> i32 {
    with_input(len, |state, input| {
        let Some(mut rng) = state.draw() else { return -1 };
        let done = SEARCHER.with_borrow_mut(|place| {
            let searcher = place.get_or_insert_with(|| Searcher::new(&mut rng));
            work(searcher, input, &mut rng)
        });
        let told = match done {
            Ok(done) => serde_json::to_vec(&done).unwrap_or_default(),
            Err(why) => error(why),
        };
        state.put(&told)
    })
}

/// The client's name, for servers without tokens; the first call makes a secret.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_search_name() -> i32 {
    with(|state| {
        let Some(mut rng) = state.draw() else { return -1 };
        let name = SEARCHER.with_borrow_mut(|place| place.get_or_insert_with(|| Searcher::new(&mut rng)).name());
        state.put(&name)
    })
}

/// Reads the server's description of a table.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_search_table(len: u32) -> i32 {
    searching(len, |searcher, told, _| searcher.take(told))
}

/// Sites of the table.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_search_sites(len: u32) -> i32 {
    searching(len, |searcher, wanted, _| {
        let wanted = serde_json::from_slice(wanted).map_err(|_| SearchError::Order("a site and a number"))?;
        searcher.sites(&wanted)
    })
}

/// Prepares a question.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_search_prepare(len: u32) -> i32 {
    searching(len, |searcher, wanted, _| {
        let wanted = serde_json::from_slice(wanted).map_err(|_| SearchError::Order("a question with all its parts"))?;
        searcher.prepare(&wanted)
    })
}

/// The request for the evaluation of a question to a server with labels.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_search_evaluation(len: u32) -> i32 {
    with_input(len, |state, client| {
        let (Some(mut rng), Ok(client)) = (state.draw(), client.try_into()) else { return -1 };
        let request =
            SEARCHER.with_borrow_mut(|place| place.as_mut().and_then(|one| one.evaluation(client, &mut rng).ok()));
        request.map_or(-1, |request| state.put(&request))
    })
}

/// Takes the reply to the evaluation.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_search_evaluated(len: u32) -> i32 {
    searching(len, |searcher, reply, _| searcher.evaluated(reply))
}

/// Takes the server's layout for a question whose place hides.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_search_layout(len: u32) -> i32 {
    searching(len, |searcher, layout, _| searcher.layout(layout).map(|()| json!({})))
}

/// The public key for the prepared question.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_search_registration() -> i32 {
    let bytes = SEARCHER.with_borrow(|place| place.as_ref().and_then(|one| Some(one.registration().ok()?.to_vec())));
    bytes.map_or(-1, |bytes| with(|state| state.put(&bytes)))
}

/// The prepared question, encrypted.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_search_query(len: u32) -> i32 {
    with_input(len, |state, client| {
        let (Some(mut rng), Ok(client)) = (state.draw(), client.try_into()) else { return -1 };
        let query = SEARCHER.with_borrow(|place| place.as_ref().and_then(|one| one.query(client, &mut rng).ok()));
        query.map_or(-1, |query| state.put(&query))
    })
}

/// Decrypts an answer.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_search_answer(len: u32) -> i32 {
    searching(len, |searcher, answer, _| searcher.read(answer))
}

/// Replaces the key by a new one.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_search_renew() {
    with(|state| {
        if let Some(mut rng) = state.draw() {
            SEARCHER.with_borrow_mut(|place| place.iter_mut().for_each(|searcher| searcher.renew(&mut rng)));
        }
    });
}
