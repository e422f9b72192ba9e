//! The parameters of a question, from an address or from a body: a complete question, or the reason
//! why it is rejected.
//!
//! ```text
//!   start, alternateBases           a variant at its position (sequence query)
//!   start, end                      every variant that overlaps the range (range query)
//!   start, start, end, end          every variant that begins in the first range and ends in the
//!                                   second (bracket query); both are without their last number
//! ```
//!
//! Positions count from 0 in requests, and an end is not part of its range. `N` in bases stands for
//! any base.

use super::{API_VERSION, BeaconQuery, BeaconRegion, Granularity};
use serde_json::{Map, Value, json};

/// One or two positions. At most two numbers are kept of any input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Positions {
    One(u64),
    Two(u64, u64),
    /// Anything else.
    Wrong,
}

/// The parameters that a request gives. Names are those of the requests.
#[derive(Default)]
pub(super) struct Given {
    pub(super) reference_name: Option<String>,
    pub(super) start: Option<Positions>,
    pub(super) end: Option<Positions>,
    pub(super) reference_bases: Option<String>,
    pub(super) alternate_bases: Option<String>,
    pub(super) assembly_id: Option<String>,
    pub(super) granularity: Option<String>,
    pub(super) include: Option<String>,
    pub(super) skip: Option<u64>,
    pub(super) limit: Option<u64>,
    pub(super) test_mode: bool,
}

/// A complete question, and the request's summary for the reply.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) query: BeaconQuery,
    pub(super) granularity: Granularity,
    pub(super) test_mode: bool,
    pub(super) summary: Value,
}

/// The summary of a request that is not understood.
pub(super) fn summary() -> Value {
    json!({
        "apiVersion": API_VERSION, "requestedGranularity": "boolean", "requestedSchemas": [],
        "pagination": { "skip": 0, "limit": 0 },
    })
}

impl Given {
    /// Checks that the parameters are a question.
    pub(super) fn finish(self) -> Result<Parsed, String> {
        let mut summary = summary();
        let asked = self.granularity.as_deref().unwrap_or("boolean");
        // a Beacon may answer in less detail than requested, and says so in its reply
        let granularity = match asked {
            "boolean" => Granularity::Boolean,
            "count" | "record" => Granularity::Count,
            _ => return Err("expected the granularity boolean, count or record, found another".to_owned()),
        };
        summary["requestedGranularity"] = asked.into();
        if let Some(which) = &self.include {
            if !["ALL", "HIT", "MISS", "NONE"].contains(&which.as_str()) {
                return Err("expected ALL, HIT, MISS or NONE in includeResultsetResponses, found another".to_owned());
            }
            summary["includeResultsetResponses"] = which.as_str().into();
        }
        summary["pagination"] = json!({ "skip": self.skip.unwrap_or(0), "limit": self.limit.unwrap_or(0) });
        if self.test_mode {
            summary["testMode"] = true.into();
        }
        summary["requestParameters"] = json!({ "g_variant": self.told() });
        let test_mode = self.test_mode;
        Ok(Parsed { query: self.query(granularity)?, granularity, test_mode, summary })
    }

    /// The parameters of the variant, for the summary.
    fn told(&self) -> Map<String, Value> {
        let texts = [
            ("referenceName", &self.reference_name),
            ("referenceBases", &self.reference_bases),
            ("alternateBases", &self.alternate_bases),
            ("assemblyId", &self.assembly_id),
        ];
        let mut told: Map<String, Value> =
            texts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text.as_deref()?.into()))).collect();
        for (name, positions) in [("start", self.start), ("end", self.end)] {
            let list = match positions {
                Some(Positions::One(one)) => vec![one],
                Some(Positions::Two(one, two)) => vec![one, two],
                Some(Positions::Wrong) | None => continue,
            };
            told.insert(name.to_owned(), list.into());
        }
        told
    }

    fn query(self, granularity: Granularity) -> Result<BeaconQuery, String> {
        let nothing = self.reference_name.is_none() && self.start.is_none() && self.end.is_none();
        if nothing && self.reference_bases.is_none() && self.alternate_bases.is_none() {
            return Err("expected referenceName and start: a query that names no variant and no range would be about \
                        the whole table, and is not answered"
                .to_owned());
        }
        let chromosome = self.reference_name.filter(|name| !name.is_empty()).ok_or("expected referenceName")?;
        let region = region(self.start, self.end)?;
        let reference = self.reference_bases.map(|text| bases(&text, "referenceBases")).transpose()?;
        let alternate = self.alternate_bases.map(|text| bases(&text, "alternateBases")).transpose()?;
        if matches!(region, BeaconRegion::At(_)) && alternate.is_none() {
            return Err("expected alternateBases beside a start without end; a range has an end, too".to_owned());
        }
        let assembly = self.assembly_id;
        if assembly.as_deref().is_some_and(str::is_empty) {
            return Err("expected the name of an assembly in assemblyId, such as GRCh38, found none".to_owned());
        }
        let count = granularity == Granularity::Count;
        Ok(BeaconQuery { chromosome, region, reference, alternate, assembly, count })
    }
}

/// The positions of a question: 0-based in requests, 1-based for a single variant.
fn region(start: Option<Positions>, end: Option<Positions>) -> Result<BeaconRegion, String> {
    let wrong = |what: &str| format!("expected {what} of one number from 0, or of two for a bracket query");
    match (start, end) {
        (Some(Positions::Wrong) | None, _) => Err(wrong("start")),
        (_, Some(Positions::Wrong)) => Err(wrong("end")),
        (Some(Positions::One(start)), None) => start.checked_add(1).map(BeaconRegion::At).ok_or(wrong("start")),
        (Some(Positions::One(start)), Some(Positions::One(end))) if start < end => {
            Ok(BeaconRegion::Range { start, end })
        }
        (Some(Positions::One(start)), Some(Positions::One(end))) => {
            Err(format!("expected an end after the start (an end is not part of its range), found {start} and {end}"))
        }
        (Some(Positions::Two(a, b)), Some(Positions::Two(c, d))) if a < b && c < d => {
            Ok(BeaconRegion::Bracket { start: (a, b), end: (c, d) })
        }
        (Some(Positions::Two(..)), Some(Positions::Two(..))) => Err("expected two ascending numbers in start and in \
                                                                     end (the second is not part of its range), found \
                                                                     others"
            .to_owned()),
        _ => {
            Err("expected one number in both start and end (a range query), or two in both (a bracket query)"
                .to_owned())
        }
    }
}

/// Bases in upper case. Other letters stand for several bases, and an empty text for none: tables
/// write insertions and deletions with the base before.
fn bases(text: &str, what: &str) -> Result<String, String> {
    let text = text.to_ascii_uppercase();
    let known = !text.is_empty() && text.bytes().all(|base| b"ACGTN".contains(&base));
    if known {
        return Ok(text);
    }
    Err(format!(
        "expected {what} of the bases A, C, G, T and N (any base); insertions and deletions have the base before, as in \
         VCF"
    ))
}
