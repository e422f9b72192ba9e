//! `tobari sense query`: registered questions.

use super::arguments::QueryArguments;
use super::folder::{self, KeyFolder, wrong};
use serde_json::json;
use std::fs;
use tobari_command::output::{self, Failure};
use tobari_host::files::{check_bounded, write_secret};
use tobari_sense::question::{MAX_REGISTERED, Question, Registered};
use tobari_sense_files::calendar;

/// Registers, lists or removes questions.
pub(super) fn run(arguments: &QueryArguments) -> Result<(), Failure> {
    let folder = KeyFolder::open(&arguments.folder)?;
    if let Some(name) = &arguments.remove {
        let questions = folder.questions()?;
        let found: Vec<&Registered> = questions.iter().filter(|registered| registered.question.name == *name).collect();
        if found.is_empty() {
            return Err(Failure::Work(format!(
                "no question is registered as {name:?}: `tobari sense query HOLDER` lists them"
            )));
        }
        for registered in found {
            let path = folder.question(&registered.id());
            fs::remove_file(&path).map_err(|error| wrong(&path, error))?;
            told(registered, arguments.json, "removed", None)?;
        }
        return Ok(());
    }
    let Some(path) = &arguments.question else {
        for registered in folder.questions()? {
            let windows = folder.windows(&registered.id())?;
            told(&registered, arguments.json, "registered", Some(windows))?;
        }
        return Ok(());
    };
    let question: Question = folder::toml(path)?;
    let (setting, registry) = (folder.holder.setting()?, folder.registry()?);
    let bounds = calendar::bounds(&question.window).map_err(|error| wrong(path, error))?;
    let all = question
        .register_between(&folder.card.schema, &setting, &registry, &folder.holder.question_names(), &bounds)
        .map_err(|error| wrong(path, error))?;
    if arguments.check {
        return all.iter().try_for_each(|registered| told(registered, arguments.json, "can be registered", None));
    }
    if let Some(other) = folder.questions()?.iter().find(|known| known.question.name == question.name) {
        return Err(wrong(
            path,
            match all.iter().any(|registered| other.id() == registered.id()) {
                true => "the question is registered already",
                false => {
                    "another question has this name: remove that question first (--remove), or choose another name"
                }
            },
        ));
    }
    for registered in &all {
        let (path, written) = (folder.question(&registered.id()), serde_json::to_vec(registered)?);
        check_bounded(&path, &written, MAX_REGISTERED)?;
        write_secret(&path, &written)?;
        told(registered, arguments.json, "registered", None)?;
    }
    Ok(())
}

/// Prints a question, perhaps with the numbers of its windows with a result, with too few devices
/// and with removed frames.
fn told(registered: &Registered, as_json: bool, state: &str, windows: Option<(u64, u64, u64)>) -> Result<(), Failure> {
    let (question, order) = (&registered.question, &registered.order);
    let devices = order.device_count();
    if as_json {
        let mut line = json!({
            "question": question.name, "id": registered.id(), "state": state, "devices": devices, "groups": registered.groups,
            "window_ms": order.length_ms, "every_ms": order.every_ms, "statistics": question.statistics.len(),
        });
        if let Some((results, too_few, removed)) = windows {
            line["windows"] = json!({ "results": results, "too_few": too_few, "removed": removed });
        }
        return output::json(&line);
    }
    let windows = windows.map(|(results, too_few, removed)| {
        let lost = if removed > 0 { format!(", {removed} whose frames the server had removed") } else { String::new() };
        format!("; {results} windows with a result, {too_few} with too few devices{lost}")
    });
    let every = match order.bounds.is_empty() {
        true => format!("every {} s", order.every_ms as f64 / 1e3),
        false => format!("in {}, until {}", question.window.zone.as_deref().unwrap_or("UTC"), calendar::UNTIL),
    };
    output::result(format!(
        "{} {}: {state}; {devices} devices in {} groups, {} statistics, windows of {} {every}{}",
        registered.id(),
        question.name,
        registered.groups.len(),
        question.statistics.len(),
        question.window.length,
        windows.unwrap_or_default()
    ));
    Ok(())
}
