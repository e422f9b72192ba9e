//! `tobari search check`: answers in the clear.

use super::CheckArguments;
use super::question::{self, Asked};
use crate::output::{self, Failure};
use serde_json::json;
use std::process::ExitCode;
use tobari_apps::search::table::{Content, Question, Table};

/// Answers every question in a line of its own.
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
    for Asked { name, question } in &questions {
        answer(&table, name, &question.borrow(), arguments)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn answer(table: &Table, name: &str, question: &Question<'_>, arguments: &CheckArguments) -> Result<(), Failure> {
    let refused = |error: tobari_apps::search::table::TableError| Failure::Work(format!("{name}: {error}"));
    if arguments.longest {
        let longest = table.longest(question).map_err(refused)?;
        let all = matches!(question, Question::Window { length, .. } if *length == longest);
        if arguments.json {
            return output::json(&json!({ "match": all, "longest": longest }));
        }
        output::result(format!("{name}: {longest} alleles match{}", if all { ", which is all" } else { "" }));
        return Ok(());
    }
    let count = table.count(question).map_err(refused)?;
    if arguments.json {
        return output::json(&json!({ "match": count > 0, "count": count }));
    }
    output::result(if count > 0 { format!("{name}: match, count {count}") } else { format!("{name}: no match") });
    Ok(())
}
