//! `tobari search check`: answers on plaintext.

use super::CheckArguments;
use super::answers::{self, Answer, AnswerView};
use super::question::{self, Asked};
use std::process::ExitCode;
use tobari_command::output::{self, Failure};
use tobari_search::table::{Content, Question, Table};

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
    for Asked { name, question } in &questions {
        let told = Some(answer(&table, name, &question.borrow(), arguments.longest)?);
        let answer = Answer { name, question: Some(question), told, errors: &[], servers: None };
        answers::show(format, sites, &answer)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn answer(table: &Table, name: &str, question: &Question<'_>, longest: bool) -> Result<AnswerView, Failure> {
    let refused = |error: tobari_search::table::TableError| Failure::Work(format!("{name}: {error}"));
    Ok(match longest {
        true => AnswerView::Longest(table.longest(question).map_err(refused)?),
        false => AnswerView::Count(table.count(question).map_err(refused)?),
    })
}
