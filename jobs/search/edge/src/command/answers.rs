//! Answers for people and programs: text, JSON, tab-separated values, VCF. Answers on plaintext and
//! under encryption have the same form.

use super::question::OwnedQuestion;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tobari_command::output::{self, Failure};
use tobari_search::table::Sites;

/// How answers are shown.
#[derive(Args)]
pub(crate) struct FormatArguments {
    /// Print one JSON object for each question on standard output.
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Print answers in this format.
    #[arg(long, default_value = "text", value_name = "FORMAT")]
    format: Format,
}

/// A way to show answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One line for people.
    Text,
    /// One JSON object for each question.
    Json,
    /// Tab-separated values under a line of names.
    Tsv,
    /// VCF: one record for each question, at its first site.
    Vcf,
}

impl FormatArguments {
    /// The format of the options.
    pub(crate) fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }

    /// Whether standard output is for programs.
    pub(crate) fn is_json(&self) -> bool {
        self.format() == Format::Json
    }
}

/// The content of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerView {
    /// The number of alleles that match, counted from the first.
    Longest(usize),
    /// The number of occurrences.
    Count(u64),
    /// Whether the pattern or key occurs.
    Whether(bool),
}

/// A question and its answer.
pub(crate) struct Answer<'a> {
    pub(crate) name: &'a str,
    pub(crate) question: Option<&'a OwnedQuestion>,
    /// None if no server answered.
    pub(crate) told: Option<AnswerView>,
    /// The reasons why some or all servers did not answer.
    pub(crate) errors: &'a [String],
    /// With several servers, the number that answered.
    pub(crate) servers: Option<usize>,
    /// The number of places among which the servers cannot tell the true one; none if the place is
    /// public, or nobody was asked.
    pub(crate) among: Option<usize>,
}

impl Answer<'_> {
    fn length(&self) -> Option<usize> {
        match self.question {
            Some(OwnedQuestion::Window { length, .. }) => Some(*length),
            _ => None,
        }
    }

    /// Whether the whole pattern or key occurs.
    fn found(&self) -> Option<bool> {
        self.told.map(|told| match told {
            AnswerView::Longest(longest) => self.length() == Some(longest),
            AnswerView::Count(count) => count > 0,
            AnswerView::Whether(found) => found,
        })
    }

    fn json(&self) -> Value {
        let mut line = match (self.told, self.found()) {
            (Some(told), Some(found)) => {
                let mut line = json!({ "match": found });
                match told {
                    AnswerView::Longest(longest) => line["longest"] = longest.into(),
                    AnswerView::Count(count) => line["count"] = count.into(),
                    AnswerView::Whether(_) => {}
                }
                line
            }
            _ => json!({ "error": self.errors.join("; ") }),
        };
        if let Some(among) = self.among {
            line["hidden_among"] = among.into();
        }
        if let Some(servers) = self.servers {
            line["servers"] = servers.into();
            if self.told.is_some() && !self.errors.is_empty() {
                line["errors"] = json!(self.errors);
            }
        }
        line
    }

    fn text(&self) -> Option<String> {
        let name = self.name;
        Some(match (self.told?, self.found()?) {
            (AnswerView::Longest(longest), all) => {
                format!("{name}: {longest} alleles match{}", if all { ", which is all" } else { "" })
            }
            (_, false) => format!("{name}: no match"),
            (AnswerView::Count(count), true) => format!("{name}: match, count {count}"),
            (AnswerView::Whether(_), true) => format!("{name}: match"),
        })
    }

    fn tsv(&self) -> String {
        // unknown cells are empty
        let cell = |number: Option<String>| number.unwrap_or_default();
        let (count, longest) = match self.told {
            Some(AnswerView::Count(count)) => (Some(count.to_string()), None),
            Some(AnswerView::Longest(longest)) => (None, Some(longest.to_string())),
            _ => (None, None),
        };
        let errors = self.errors.join("; ").replace(['\t', '\n', '\r'], " ");
        let found = cell(self.found().map(|found| found.to_string()));
        // keys have no tabs, but names from the command line may
        let name = self.name.replace(['\t', '\n', '\r'], " ");
        format!("{name}\t{found}\t{}\t{}\t{errors}", cell(count), cell(longest))
    }

    fn vcf(&self, sites: &Sites) -> Option<String> {
        let OwnedQuestion::Window { start, length, pattern } = self.question? else { return None };
        let site = sites.get(*start)?;
        let alleles: String = (0..*length).map(|i| if pattern >> i & 1 == 1 { '1' } else { '0' }).collect();
        let mut info = format!("LENGTH={length};ALLELES={alleles}");
        // VCF has a field of its own for the extent of a structural variant
        let (alternate, reach) = match site.alternate.rfind('>').filter(|_| site.alternate.starts_with('<')) {
            Some(end) => site.alternate.split_at(end + 1),
            None => (site.alternate, ""),
        };
        let (end, inserted) = (reach.strip_prefix('@'), reach.strip_prefix('+'));
        match end.map(|end| end.rsplit_once('@').unwrap_or(("", end))) {
            Some(("", end)) => info += &format!(";END={end}"),
            Some((other, end)) => info += &format!(";CHR2={other};END={end}"),
            None => {}
        }
        info += &inserted.map(|length| format!(";SVLEN={length}")).unwrap_or_default();
        match self.told {
            Some(AnswerView::Count(count)) => info += &format!(";COUNT={count}"),
            Some(AnswerView::Longest(longest)) => info += &format!(";LONGEST={longest}"),
            _ => {}
        }
        if self.found() == Some(true) {
            info += ";MATCH";
        }
        let (id, filter) = (site.id.unwrap_or("."), if self.told.is_some() { "PASS" } else { "unanswered" });
        let (chromosome, position) = (site.chromosome, site.position);
        Some(format!("{chromosome}\t{position}\t{id}\t{}\t{alternate}\t.\t{filter}\t{info}", site.reference))
    }
}

const VCF_HEAD: &str = "##fileformat=VCFv4.3
##FILTER=<ID=unanswered,Description=\"No server answered\">
##INFO=<ID=LENGTH,Number=1,Type=Integer,Description=\"Sites that were asked for, from this one on in the table\">
##INFO=<ID=ALLELES,Number=1,Type=String,Description=\"Alleles that were asked for, 0 the reference and 1 the alternate one\">
##INFO=<ID=COUNT,Number=1,Type=Integer,Description=\"How often they occur\">
##INFO=<ID=LONGEST,Number=1,Type=Integer,Description=\"How many of them match from the first on\">
##INFO=<ID=END,Number=1,Type=Integer,Description=\"Up to where a structural variant reaches\">
##INFO=<ID=CHR2,Number=1,Type=String,Description=\"On which chromosome that is\">
##INFO=<ID=SVLEN,Number=A,Type=Integer,Description=\"Bases that are inserted\">
##INFO=<ID=MATCH,Number=0,Type=Flag,Description=\"All of them occur\">
#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO";

/// Prints the lines before the answers.
///
/// # Errors
/// [`Failure::Call`] for VCF of a table of keys.
pub(crate) fn begin(format: Format, sites: Option<&Sites>) -> Result<(), Failure> {
    match (format, sites) {
        (Format::Vcf, None) => Err(Failure::Call(
            "--format vcf needs a table of sites, and this is one of keys: use --format tsv".to_owned(),
        )),
        (Format::Vcf, Some(_)) => {
            output::result(VCF_HEAD);
            Ok(())
        }
        (Format::Tsv, _) => {
            output::result("question\tmatch\tcount\tlongest\terrors");
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Prints an answer.
pub(crate) fn show(format: Format, sites: Option<&Sites>, answer: &Answer<'_>) -> Result<(), Failure> {
    let line = match format {
        Format::Json => return output::json(&answer.json()),
        Format::Text => answer.text(),
        Format::Tsv => Some(answer.tsv()),
        Format::Vcf => sites.and_then(|sites| answer.vcf(sites)),
    };
    line.into_iter().for_each(output::result);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_reads_the_same_in_every_format() {
        let question = OwnedQuestion::Window { start: 0, length: 3, pattern: 0b110 };
        let answer = |told, errors| Answer {
            name: "a\tname",
            question: Some(&question),
            told,
            errors,
            servers: None,
            among: None,
        };
        let none: &[String] = &[];
        for (told, json, text, tsv) in [
            (AnswerView::Count(4), r#"{"count":4,"match":true}"#, "match, count 4", "true\t4\t\t"),
            (AnswerView::Count(0), r#"{"count":0,"match":false}"#, "no match", "false\t0\t\t"),
            (AnswerView::Whether(true), r#"{"match":true}"#, "match", "true\t\t\t"),
            (AnswerView::Longest(3), r#"{"longest":3,"match":true}"#, "3 alleles match, which is all", "true\t\t3\t"),
            (AnswerView::Longest(2), r#"{"longest":2,"match":false}"#, "2 alleles match", "false\t\t2\t"),
        ] {
            let answer = answer(Some(told), none);
            assert_eq!(answer.json().to_string(), json);
            assert_eq!(answer.text(), Some(format!("a\tname: {text}")));
            assert_eq!(answer.tsv(), format!("a name\t{tsv}"));
        }
        let errors = ["down\n".to_owned()];
        let silent = answer(None, &errors);
        assert_eq!(silent.json().to_string(), r#"{"error":"down\n"}"#);
        assert_eq!((silent.text(), silent.tsv()), (None, "a name\t\t\t\tdown ".to_owned()));
    }
}
