//! A Beacon request's body: a complete question, or the reason why it is rejected.
//!
//! Two fields do not change a `boolean` or `count` answer: pages of records (`pagination`), and the
//! wanted sets of records (`includeResultsetResponses`). They are accepted and repeated in the
//! summary. Every other field is rejected by its name, and so is a duplicate field.

use super::{API_VERSION, BeaconQuery};
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Value, json};
use std::fmt;

type Any = serde::de::IgnoredAny;

/// The most schemas that a request may name. More have no meaning.
const MAX_SCHEMAS: usize = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Body {
    #[serde(rename = "$schema")]
    _schema: Option<Any>,
    meta: Option<Meta>,
    query: Query,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Meta {
    #[serde(rename = "$schema")]
    _schema: Option<Any>,
    api_version: Option<String>,
    requested_schemas: Option<Schemas>,
}

/// The schemas of the wanted records. The reader stops at the first schema too many.
struct Schemas(Vec<Schema>);

impl<'de> Deserialize<'de> for Schemas {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ReadsSchemas)
    }
}

struct ReadsSchemas;

impl<'de> Visitor<'de> for ReadsSchemas {
    type Value = Schemas;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {MAX_SCHEMAS} requestedSchemas")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Schemas, A::Error> {
        let mut schemas = Vec::new();
        while let Some(schema) = list.next_element()? {
            if schemas.len() == MAX_SCHEMAS {
                return Err(A::Error::invalid_length(MAX_SCHEMAS + 1, &self));
            }
            schemas.push(schema);
        }
        Ok(Schemas(schemas))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Schema {
    entity_type: Option<String>,
    #[serde(rename = "schema")]
    _schema: Option<Any>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Query {
    request_parameters: Parameters,
    requested_granularity: Option<String>,
    filters: Option<Vec<Any>>,
    include_resultset_responses: Option<String>,
    pagination: Option<Pagination>,
    test_mode: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pagination {
    skip: Option<u64>,
    limit: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Parameters {
    reference_name: Option<String>,
    start: Option<Start>,
    reference_bases: Option<String>,
    alternate_bases: Option<String>,
    assembly_id: Option<String>,
    /// Some programs nest the parameters of a variant under this name.
    #[serde(rename = "g_variant")]
    variant: Option<Box<Parameters>>,
}

/// The start of a variant. Every JSON value is read, but only a number is kept.
enum Start {
    /// A number from 0.
    At(u64),
    /// A list of one such number.
    ListOf(u64),
    /// A list of another length.
    List,
    /// Anything else.
    Other,
}

impl<'de> Deserialize<'de> for Start {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ReadsStart)
    }
}

struct ReadsStart;

impl<'de> Visitor<'de> for ReadsStart {
    type Value = Start;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("start, a number from 0")
    }

    fn visit_u64<E: Error>(self, start: u64) -> Result<Start, E> {
        Ok(Start::At(start))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Start, E> {
        // JSON reads all numbers from 0 on as unsigned
        Ok(Start::Other)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Start, E> {
        Ok(Start::Other)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Start, E> {
        Ok(Start::Other)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Start, E> {
        Ok(Start::Other)
    }

    fn visit_unit<E: Error>(self) -> Result<Start, E> {
        Ok(Start::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Start, A::Error> {
        let Some(first) = list.next_element::<Start>()? else { return Ok(Start::List) };
        let mut length = 1_usize;
        while list.next_element::<Any>()?.is_some() {
            length += 1;
        }
        Ok(match (length, first) {
            (1, Start::At(start)) => Start::ListOf(start),
            (1, _) => Start::Other,
            _ => Start::List,
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Start, A::Error> {
        while map.next_entry::<Any, Any>()?.is_some() {}
        Ok(Start::Other)
    }
}

/// The summary of a malformed request.
pub(super) fn summary() -> Value {
    json!({
        "apiVersion": API_VERSION, "requestedGranularity": "boolean", "requestedSchemas": [],
        "pagination": { "skip": 0, "limit": 0 },
    })
}

/// The question of a request's body, and the summary of the request; or the reason why the request
/// is rejected.
pub(super) fn parse(bytes: &[u8]) -> Result<(BeaconQuery, Value), String> {
    let body: Body = serde_json::from_slice(bytes).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => format!("every field has to be one that is answered here: {error}"),
        _ => "expected JSON".to_owned(),
    })?;
    let mut received = summary();
    if let Some(meta) = body.meta {
        check_meta(&meta)?;
    }
    let Query {
        request_parameters,
        requested_granularity,
        filters,
        include_resultset_responses,
        pagination,
        test_mode,
    } = body.query;
    let count = match requested_granularity.as_deref() {
        None | Some("boolean") => false,
        Some("count") => true,
        _ => return Err("expected granularity boolean or count: there are no records".to_owned()),
    };
    received["requestedGranularity"] = if count { "count" } else { "boolean" }.into();
    if filters.is_some_and(|filters| !filters.is_empty()) {
        return Err("expected no filters: tables have variants, and nothing about people".to_owned());
    }
    if let Some(which) = include_resultset_responses {
        if !["ALL", "HIT", "MISS", "NONE"].contains(&which.as_str()) {
            return Err("expected ALL, HIT, MISS or NONE in includeResultsetResponses".to_owned());
        }
        received["includeResultsetResponses"] = which.into();
    }
    if let Some(Pagination { skip, limit }) = pagination {
        received["pagination"] = json!({ "skip": skip.unwrap_or(0), "limit": limit.unwrap_or(0) });
    }
    if test_mode == Some(true) {
        return Err("expected a question in earnest, found testMode: answers are those of tables".to_owned());
    }
    Ok((variant(request_parameters, count)?, received))
}

fn check_meta(meta: &Meta) -> Result<(), String> {
    if let Some(version) = &meta.api_version {
        let number = version.strip_prefix('v').unwrap_or(version);
        if number != "2" && !number.starts_with("2.") {
            return Err("expected apiVersion v2.0.0, found another".to_owned());
        }
    }
    let schemas = meta.requested_schemas.iter().flat_map(|schemas| &schemas.0);
    let mut entities = schemas.filter_map(|schema| schema.entity_type.as_deref());
    match entities.all(|entity| entity == "genomicVariant") {
        true => Ok(()),
        false => Err("expected the entity type genomicVariant in requestedSchemas, found another".to_owned()),
    }
}

fn variant(parameters: Parameters, count: bool) -> Result<BeaconQuery, String> {
    let Parameters { reference_name, start, reference_bases, alternate_bases, assembly_id, variant } = parameters;
    if let Some(inner) = variant {
        let others = [&reference_name, &reference_bases, &alternate_bases, &assembly_id];
        if start.is_some() || others.iter().any(|one| one.is_some()) || inner.variant.is_some() {
            return Err("expected all parameters in g_variant, found others beside it".to_owned());
        }
        return self::variant(*inner, count);
    }
    let start = match start {
        Some(Start::At(start) | Start::ListOf(start)) => Some(start),
        Some(Start::List) => {
            return Err("expected one start: variants are asked for at their position".to_owned());
        }
        Some(Start::Other) | None => None,
    };
    let chromosome = reference_name.filter(|name| !name.is_empty()).ok_or("expected referenceName")?;
    Ok(BeaconQuery {
        chromosome,
        // 0-based in requests, 1-based in tables
        position: start.and_then(|start| start.checked_add(1)).ok_or("expected start, a number from 0")?,
        reference: bases(reference_bases, "referenceBases")?,
        alternate: bases(alternate_bases, "alternateBases")?,
        assembly: assembly_id,
        count,
    })
}

/// Known bases. N and similar letters stand for several bases, but a table needs one.
fn bases(text: Option<String>, what: &str) -> Result<String, String> {
    let text = text.unwrap_or_default().to_ascii_uppercase();
    let known = !text.is_empty() && text.bytes().all(|base| b"ACGT".contains(&base));
    if known { Ok(text) } else { Err(format!("expected {what} of the bases A, C, G and T")) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    fn question(parameters: &str, more: &str) -> String {
        format!(r#"{{"query":{{{more}"requestParameters":{{{parameters}}}}}}}"#)
    }

    const PLAIN: &str = r#""referenceName":"20","start":99,"referenceBases":"A","alternateBases":"C""#;

    fn plain(count: bool) -> BeaconQuery {
        let [chromosome, reference, alternate] = ["20", "A", "C"].map(str::to_owned);
        BeaconQuery { chromosome, position: 100, reference, alternate, assembly: None, count }
    }

    #[test]
    fn positions_begin_at_zero_and_records_are_refused() {
        let with = |granularity: &str, start: &str| {
            let parameters = PLAIN.replace("99", start);
            parse(question(&parameters, &format!(r#""requestedGranularity":{granularity},"#)).as_bytes())
        };
        assert_eq!(with("\"count\"", "[99]").unwrap().0, plain(true));
        assert_eq!(with("null", "99").unwrap().0, plain(false));
        for (granularity, start) in [
            ("\"record\"", "99"),
            ("\"aggregated\"", "99"),
            ("7", "99"),
            ("null", "[1,2]"),
            ("null", "-1"),
            ("null", "null"),
            ("null", "\"99\""),
            ("null", "18446744073709551615"),
        ] {
            assert!(with(granularity, start).is_err(), "{granularity} {start}");
        }
        for wrong in ["", "[]", "{}", "{\"query\":7}", "{\"query\":{}}"] {
            assert!(parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn fault_32_nothing_of_a_request_takes_more_memory_than_its_bytes_call_for() {
        // at most a number is kept of a start, for every input
        assert!(size_of::<Option<Start>>() <= 16);
        let with = |start: &str| parse(question(&PLAIN.replace("99", start), "").as_bytes());
        for list in ["[]".to_owned(), "[1,2]".to_owned(), format!("[{}0]", "0,".repeat(30_000))] {
            assert!(with(&list).unwrap_err().contains("expected one start"));
        }
        for other in ["[[99]]", "[\"99\"]", "[-1]", "[null]", "{}", "true", "\"99\"", "-1", "1.5", "null"] {
            assert!(with(other).unwrap_err().contains("expected start, a number from 0"), "{other}");
        }
        assert_eq!((with("99").unwrap().0, with("[99]").unwrap().0), (plain(false), plain(false)));
        let named = |schemas: &str| {
            let meta = format!(r#"{{"meta":{{"requestedSchemas":{schemas}}},"#);
            parse(question(PLAIN, "").replacen('{', &meta, 1).as_bytes())
        };
        let many = |count: usize| vec![r#"{"entityType":"genomicVariant","schema":"s"}"#; count].join(",");
        assert_eq!(named(&format!("[{}]", many(MAX_SCHEMAS))).unwrap().0, plain(false));
        assert_eq!((named("[]").unwrap().0, named("null").unwrap().0), (plain(false), plain(false)));
        // the text ends within the list: a reader that counts only at the end would find this end
        // first
        for list in [format!("[{},", many(MAX_SCHEMAS + 1)), format!("[{}", "{},".repeat(MAX_SCHEMAS + 1))] {
            let refused = serde_json::from_str::<Schemas>(&list).err().unwrap();
            assert!(refused.is_data() && refused.to_string().contains("at most 16"), "{refused}");
        }
        let refused = named(&format!("[{}]", many(MAX_SCHEMAS + 1))).unwrap_err();
        assert!(refused.contains("at most 16 requestedSchemas"), "{refused}");
    }

    #[test]
    fn fault_19_no_field_of_a_request_is_passed_over() {
        let refused = |body: String, says: &str| {
            let what = parse(body.as_bytes()).unwrap_err();
            assert!(what.contains(says), "{body}: {what}");
        };
        for (field, says) in [
            (r#""end":[100]"#, "unknown field `end`"),
            (r#""variantType":"DEL""#, "unknown field `variantType`"),
            (r#""geneId":"BRCA1""#, "unknown field `geneId`"),
            (r#""referencename":"20""#, "unknown field `referencename`"),
            (r#""start":98"#, "duplicate field `start`"),
            (r#""g_variant":{"referenceName":"20"}"#, "beside it"),
        ] {
            refused(question(&format!("{PLAIN},{field}"), ""), says);
        }
        for (more, says) in [
            (r#""filters":[{"id":"NCIT:C16576"}],"#, "expected no filters"),
            (r#""filters":["HP:1"],"#, "expected no filters"),
            (r#""filters":{"id":"x"},"#, "invalid type"),
            (r#""includeResultsetResponses":"SOME","#, "ALL, HIT, MISS or NONE"),
            (r#""pagination":{"currentPage":"x"},"#, "unknown field `currentPage`"),
            (r#""pagination":{"skip":-1},"#, "invalid value"),
            (r#""testMode":true,"#, "testMode"),
            (r#""datasets":["a"],"#, "unknown field `datasets`"),
            (r#""requestedGranularity":"count","requestedGranularity":"boolean","#, "duplicate field"),
        ] {
            refused(question(PLAIN, more), says);
        }
        for (meta, says) in [
            (r#"{"apiVersion":"v1.1"}"#, "apiVersion"),
            (r#"{"apiVersion":"20"}"#, "apiVersion"),
            (r#"{"requestedSchemas":[{"entityType":"individual"}]}"#, "genomicVariant"),
            (r#"{"who":"me"}"#, "unknown field `who`"),
        ] {
            refused(question(PLAIN, "").replacen('{', &format!(r#"{{"meta":{meta},"#), 1), says);
        }
        refused(question(PLAIN, "").replacen('{', r#"{"filters":[],"#, 1), "unknown field `filters`");
        for bases in ["N", "", "-", "R", "<DEL>", "A C"] {
            let with = |of: &str, old: &str| PLAIN.replace(&format!("{of}\":\"{old}"), &format!("{of}\":\"{bases}"));
            refused(question(&with("alternateBases", "C"), ""), "expected alternateBases");
            refused(question(&with("referenceBases", "A"), ""), "expected referenceBases");
        }
    }

    #[test]
    fn fault_19_whatever_changes_no_answer_is_told_back_and_an_assembly_is_passed_on() {
        let parameters = PLAIN.replace("\"A\"", "\"a\"") + r#","assemblyId":"GRCh38""#;
        let more = r#""requestedGranularity":"count","filters":[],"includeResultsetResponses":"ALL","testMode":false,
            "pagination":{"skip":5,"limit":10},"#;
        let body = question(&parameters, more).replacen('{', r#"{"$schema":"x","meta":{"apiVersion":"2.0"},"#, 1);
        let (query, received) = parse(body.as_bytes()).unwrap();
        assert_eq!(query, BeaconQuery { assembly: Some("GRCh38".to_owned()), ..plain(true) });
        let expected = json!({
            "apiVersion": "v2.0.0", "requestedGranularity": "count", "requestedSchemas": [],
            "includeResultsetResponses": "ALL", "pagination": { "skip": 5, "limit": 10 },
        });
        assert_eq!(received, expected);
    }

    #[test]
    fn whatever_is_posted_is_a_whole_query_or_refused() {
        let good = question(&format!(r#""g_variant":{{{PLAIN}}}"#), r#""requestedGranularity":"count","#);
        let judge = |bytes: &[u8]| {
            let Ok((query, _)) = parse(bytes) else { return false };
            let texts = [&query.chromosome, &query.reference, &query.alternate];
            assert!(query.position > 0 && texts.iter().all(|text| !text.is_empty()), "{query:?}");
            true
        };
        assert!(judge(good.as_bytes()));
        for place in 0..good.len() {
            assert!(!judge(&good.as_bytes()[..place]));
            for change in *b"\"[]{}:,9-e\\\0\xff" {
                let mut changed = good.as_bytes().to_vec();
                changed[place] = change;
                judge(&changed);
            }
        }
        assert!(!judge(&b"[".repeat(1 << 20)) && !judge(&b"{\"query\":".repeat(1 << 16)));
    }
}
