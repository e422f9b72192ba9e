//! The question in the address of a GET request, after `?`.
//!
//! Two positions are separated by a comma, or the parameter is repeated. Every other parameter may
//! come once.

use super::parameters::{Given, Parsed, Positions};
use super::request::{check_entity, names_variants};

/// The question of an address, or the reason why the request is rejected.
pub(super) fn parse(query: &str) -> Result<Parsed, String> {
    let mut given = Given::default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let value = value.into_owned();
        match &*name {
            "start" => add(&mut given.start, &value),
            "end" => add(&mut given.end, &value),
            "referenceName" => set(&mut given.reference_name, value, &name)?,
            "referenceBases" => set(&mut given.reference_bases, value, &name)?,
            "alternateBases" => set(&mut given.alternate_bases, value, &name)?,
            "assemblyId" => set(&mut given.assembly_id, value, &name)?,
            "requestedGranularity" => set(&mut given.granularity, value, &name)?,
            "includeResultsetResponses" => set(&mut given.include, value, &name)?,
            "skip" => set(&mut given.skip, number(&value, &name)?, &name)?,
            "limit" => set(&mut given.limit, number(&value, &name)?, &name)?,
            "testMode" => given.test_mode = flag(&value)?,
            "requestedSchema" | "requestedSchemas" if names_variants(&value) => {}
            "requestedSchema" | "requestedSchemas" => check_entity(&value)?,
            "filters" if value.is_empty() => {}
            "filters" => return Err(super::request::NO_FILTERS.to_owned()),
            _ => return Err(unknown(&name)),
        }
    }
    given.finish()
}

/// Checks the address of a request for information: it may name a schema and a page.
pub(super) fn check_informational(query: &str) -> Result<(), String> {
    let known = ["requestedSchema", "skip", "limit"];
    let other = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| !known.contains(&&**name));
    other.map_or(Ok(()), |(name, _)| Err(unknown(&name)))
}

fn unknown(name: &str) -> String {
    let shown: String = name.chars().take(40).collect();
    format!("the parameter {shown:?} is not supported here, and no parameter is ignored")
}

/// Adds positions: one number, or two with a comma between them.
fn add(to: &mut Option<Positions>, text: &str) {
    let mut found = *to;
    for part in text.split(',') {
        let number = Some(part).filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
        found = Some(match (found, number.and_then(|number| number.parse().ok())) {
            (None, Some(number)) => Positions::One(number),
            (Some(Positions::One(first)), Some(number)) => Positions::Two(first, number),
            _ => Positions::Wrong,
        });
    }
    *to = found;
}

fn set<T>(to: &mut Option<T>, value: T, name: &str) -> Result<(), String> {
    match to.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("expected {name} once, found it again")),
    }
}

fn number(text: &str, name: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("expected a number from 0 in {name}, found another text"))
}

fn flag(text: &str) -> Result<bool, String> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("expected true or false in testMode, found another text".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::super::{BeaconQuery, BeaconRegion, Granularity};
    use super::*;
    use serde_json::json;

    const PLAIN: &str = "referenceName=20&start=99&referenceBases=A&alternateBases=C";

    fn region(address: &str) -> BeaconRegion {
        parse(address).unwrap().query.region
    }

    #[test]
    fn the_three_kinds_of_questions_are_read_from_an_address() {
        let parsed = parse(&format!("{PLAIN}&assemblyId=GRCh38&requestedGranularity=count&skip=1&limit=5")).unwrap();
        let [chromosome, reference, alternate] = ["20", "A", "C"].map(str::to_owned);
        let (reference, alternate, assembly) = (Some(reference), Some(alternate), Some("GRCh38".to_owned()));
        let region_at = BeaconRegion::At(100);
        let query = BeaconQuery { chromosome, region: region_at, reference, alternate, assembly, count: true };
        assert_eq!((parsed.query, parsed.granularity), (query, Granularity::Count));
        assert_eq!(parsed.summary["pagination"], json!({ "skip": 1, "limit": 5 }));
        let told = json!({
            "referenceName": "20", "start": [99], "referenceBases": "A", "alternateBases": "C", "assemblyId": "GRCh38",
        });
        assert_eq!(parsed.summary["requestParameters"]["g_variant"], told);
        let range = BeaconRegion::Range { start: 5, end: 9 };
        assert_eq!(region("referenceName=refseq%3ANC_000020.11&start=5&end=9"), range);
        let bracket = BeaconRegion::Bracket { start: (5, 9), end: (7, 12) };
        for both in ["start=5,9&end=7,12", "start=5&start=9&end=7&end=12", "end=7%2C12&start=5,9"] {
            assert_eq!(region(&format!("referenceName=20&{both}")), bracket, "{both}");
        }
        // records are answered by counts, and the summary has the request
        let parsed = parse(&format!("{PLAIN}&requestedGranularity=record&testMode=true&filters=")).unwrap();
        assert_eq!((parsed.granularity, parsed.test_mode), (Granularity::Count, true));
        assert_eq!(parsed.summary["requestedGranularity"], "record");
    }

    #[test]
    fn no_parameter_of_an_address_is_passed_over() {
        for (more, says) in [
            ("&variantType=DEL", "\"variantType\" is not supported"),
            ("&variantMinLength=5", "\"variantMinLength\" is not supported"),
            ("&geneId=BRCA1", "\"geneId\" is not supported"),
            ("&aminoacidChange=V600E", "\"aminoacidChange\" is not supported"),
            ("&datasetIds=a", "\"datasetIds\" is not supported"),
            ("&Start=5", "\"Start\" is not supported"),
            ("&filters=HP:1", "expected no filters"),
            ("&referenceName=20", "expected referenceName once"),
            ("&start=5&start=6", "expected start of one number"),
            ("&end=5", "expected an end after the start"),
            ("&end=5,700", "expected one number in both"),
            ("&end=-5", "expected end of one number"),
            ("&end=", "expected end of one number"),
            ("&skip=x", "expected a number from 0 in skip"),
            ("&testMode=yes", "true or false in testMode"),
            ("&requestedGranularity=aggregated", "boolean, count or record"),
            ("&includeResultsetResponses=SOME", "ALL, HIT, MISS or NONE"),
            ("&requestedSchema=individual", "genomicVariant"),
            ("&assemblyId=", "the name of an assembly"),
        ] {
            let refused = parse(&format!("{PLAIN}{more}")).unwrap_err();
            assert!(refused.contains(says), "{more}: {refused}");
        }
        for (address, says) in [
            ("", "names no variant"),
            ("requestedGranularity=count", "names no variant"),
            ("start=5&end=7", "expected referenceName"),
            ("referenceName=20&end=7", "expected start"),
            ("referenceName=20&start=5", "expected alternateBases beside a start"),
            ("referenceName=20&start=5&alternateBases=", "expected alternateBases of the bases"),
            ("referenceName=20&start=5&alternateBases=R", "expected alternateBases of the bases"),
            ("referenceName=20&start=9,5&end=7,12", "two ascending numbers"),
            ("referenceName=20&start=18446744073709551615&alternateBases=A", "expected start"),
        ] {
            let refused = parse(address).unwrap_err();
            assert!(refused.contains(says), "{address}: {refused}");
        }
        assert_eq!(check_informational("skip=0&limit=5&requestedSchema=x"), Ok(()));
        assert!(check_informational("who=me").unwrap_err().contains("\"who\" is not supported"));
    }
}
