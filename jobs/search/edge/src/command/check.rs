//! `tobari search check`: answers on plaintext.

use super::CheckArguments;
use super::answers::{self, Answer, AnswerView};
use super::question::{self, Asked};
use std::process::ExitCode;
use tobari_command::output::{self, Failure};
use tobari_search::table::{Content, Question, Table, TableError};

/// Prints the answer of every question on its own line.
pub(crate) fn run(arguments: &CheckArguments) -> Result<ExitCode, Failure> {
    let table = super::read_table(&arguments.table)?;
    let questions = question::questions(&arguments.question, table.content.sites())?;
    if let Content::Keys(keys) = &table.content
        && let Some(bits) = keys.rule().false_positive_log2(keys.len() as u64)
    {
        output::say(format!(
            "keys are compared by fingerprints: a key that is absent is taken for one that is there with probability 2^{bits:.0}"
        ));
    }
    let (format, sites) = (arguments.format.format(), table.content.sites());
    answers::begin(format, sites)?;
    let mut failed = false;
    for Asked { name, question, .. } in &questions {
        let asked = match question {
            // the call of one question that the table does not have was wrong
            Err(what) if arguments.question.queries.is_none() => return Err(Failure::Call(what.clone())),
            Err(what) => Err(what.clone()),
            Ok(question) => answer(&table, &question.borrow(), arguments.longest).map_err(|error| error.to_string()),
        };
        if let Err(what) = &asked {
            failed = true;
            output::say(format!("tobari: {name}: {what}"));
        }
        let errors = asked.as_ref().err().cloned();
        let (question, told, errors) = (question.as_ref().ok(), asked.ok(), errors.as_slice());
        answers::show(format, sites, &Answer { name, question, told, errors, servers: None, among: None })?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn answer(table: &Table, question: &Question<'_>, longest: bool) -> Result<AnswerView, TableError> {
    Ok(match longest {
        true => AnswerView::Longest(table.longest(question)?),
        false => AnswerView::Count(table.count(question)?),
    })
}
