//! `tobari demo`: runs every finished job on built-in real inputs, with a server process that has
//! no key, and checks each result against the plain answer. Each job prints rows of its own.

use clap::Args;
use std::process::ExitCode;
use tobari_command::demo::{Attack, Line};
use tobari_command::output::{self, Failure};

/// `tobari demo`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari demo
    tobari demo --json")]
pub(crate) struct DemoArguments {
    /// Print one JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
    /// Attack the jobs instead, and print which attacks were caught.
    #[arg(long)]
    pub(crate) attack: bool,
}

/// Runs every job, or the attacks on them.
pub(crate) fn run(arguments: &DemoArguments) -> Result<ExitCode, Failure> {
    if arguments.attack {
        return attack(arguments.json);
    }
    let mut lines = tobari_call_edge::demo::demo()?;
    lines.extend(tobari_search_edge::demo::demo()?);
    lines.push(tobari_infer_edge::demo::demo()?);
    lines.push(tobari_sense_edge::demo::demo()?);
    #[cfg(linux_64)]
    lines.push(tobari_seal_edge::demo(&tobari_call_edge::demo::CLIPS)?);
    for line in &lines {
        if arguments.json {
            output::json(line)?;
        }
    }
    if !arguments.json {
        print_table(&lines);
    }
    let right = lines.iter().all(|line| line.right);
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs every attack; fails if one succeeds that should not, or the other way round.
fn attack(json: bool) -> Result<ExitCode, Failure> {
    let mut attacks = tobari_call_edge::demo::attacks()?;
    attacks.extend(tobari_infer_edge::demo::attacks()?);
    for attack in &attacks {
        match json {
            true => output::json(attack)?,
            false => output::result(attack.sentence()),
        }
    }
    let as_documented = attacks.iter().all(Attack::is_as_documented);
    Ok(if as_documented { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Explains the columns of seconds and bytes.
const LEGEND: [&str; 12] = [
    "",
    "seconds: the whole job, with tables, the network of this machine, and a server in another process.",
    "  search is for one question, infer for one image; sense includes all frames and the question;",
    "  seal seals and unseals, and its server is the storage.",
    "paper, seconds: figures from the papers, on their machines.",
    "  call: table 4, the same samples, the paper's only mode, arithmetic alone, four threads at 1.4 GHz.",
    "  search: table 6, one question of six alleles, with another algorithm; `tobari-bench search --paper`",
    "  runs this algorithm.",
    "  infer: table 6, one image of the paper's network, encrypted, outside the enclave, one thread.",
    "  sense: the paper has plots and ratios; `tobari-bench sense --paper` shows them beside ours.",
    "  seal: the paper shows its figures as pictures.",
    "exact: infer computes with approximate numbers, so its logits are not exact.",
];

fn print_table(lines: &[Line]) {
    output::result("job     mode               right  exact   seconds  paper, seconds  server saw, bytes  what");
    for line in lines {
        let paper = if line.paper_seconds.is_nan() { "-".to_owned() } else { format!("{:.2}", line.paper_seconds) };
        output::result(format!(
            "{:<6}  {:<17}  {:<5}  {:<5}  {:>8.3}  {paper:>14}  {:>17}  {}",
            line.job, line.mode, line.right, line.exact, line.seconds, line.server_saw_bytes, line.what
        ));
    }
    for line in LEGEND {
        output::result(line);
    }
}
