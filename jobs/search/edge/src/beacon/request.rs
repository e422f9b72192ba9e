//! The question in the body of a POST request.
//!
//! Two fields do not change a `boolean` or `count` answer: pages of records (`pagination`), and the
//! wanted sets of records (`includeResultsetResponses`). They are accepted and repeated in the
//! summary. Every other field is rejected by its name, and so is a duplicate field. Examples of the
//! specification have `requestedGranularity` and `pagination` beside `query`, so both places count.

use super::parameters::{Given, Parsed, Positions};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

type Any = serde::de::IgnoredAny;

/// The most schemas that a request may name. More have no meaning.
const MAX_SCHEMAS: usize = 16;
/// The names of the entry type: that of the specification, and others of its examples.
const ENTITIES: [&str; 3] = ["genomicVariant", "genomicVariation", "variant"];
/// The beginning of the names of its schema.
const SCHEMA: &str = "ga4gh-beacon-variant-";
pub(super) const NO_FILTERS: &str = "expected no filters, found some: tables have variants, and nothing about people";

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Body {
    #[serde(rename = "$schema")]
    _schema: Option<Any>,
    meta: Option<Meta>,
    query: Option<Query>,
    requested_granularity: Option<String>,
    pagination: Option<Pagination>,
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

/// A schema by its name, or by the entry type and the name.
enum Schema {
    Name(String),
    Of(SchemaOf),
}

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ReadsSchema)
    }
}

struct ReadsSchema;

impl<'de> Visitor<'de> for ReadsSchema {
    type Value = Schema;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a schema's name, or its entityType and schema")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Schema, E> {
        Ok(Schema::Name(name.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Schema, A::Error> {
        SchemaOf::deserialize(MapAccessDeserializer::new(map)).map(Schema::Of)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct SchemaOf {
    entity_type: Option<String>,
    #[serde(rename = "schema", alias = "schema:")]
    _schema: Option<Any>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Query {
    request_parameters: Option<Parameters>,
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

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Parameters {
    reference_name: Option<Name>,
    start: Option<Positions>,
    end: Option<Positions>,
    reference_bases: Option<String>,
    alternate_bases: Option<String>,
    assembly_id: Option<String>,
    /// The specification nests the parameters of a variant under this name; many programs do not.
    #[serde(rename = "g_variant")]
    variant: Option<Box<Parameters>>,
}

/// The name of a chromosome. Some programs write a number.
struct Name(String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ReadsName)
    }
}

struct ReadsName;

impl Visitor<'_> for ReadsName {
    type Value = Name;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a chromosome")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Name, E> {
        Ok(Name(name.to_owned()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Name, E> {
        Ok(Name(number.to_string()))
    }
}

impl<'de> Deserialize<'de> for Positions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ReadsPositions)
    }
}

/// Reads every JSON value. Some programs write numbers as text.
struct ReadsPositions;

impl<'de> Visitor<'de> for ReadsPositions {
    type Value = Positions;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one or two numbers from 0")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Positions, E> {
        Ok(Positions::One(number))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Positions, E> {
        // JSON reads all numbers from 0 on as unsigned
        Ok(Positions::Wrong)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Positions, E> {
        Ok(Positions::Wrong)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Positions, E> {
        Ok(Positions::Wrong)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Positions, E> {
        let number = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        Ok(number.and_then(|number| number.parse().ok()).map_or(Positions::Wrong, Positions::One))
    }

    fn visit_unit<E: Error>(self) -> Result<Positions, E> {
        Ok(Positions::Wrong)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Positions, A::Error> {
        let (first, second) = (list.next_element::<Positions>()?, list.next_element::<Positions>()?);
        let mut more = false;
        while list.next_element::<Any>()?.is_some() {
            more = true;
        }
        Ok(match (first, second) {
            (Some(Positions::One(one)), None) => Positions::One(one),
            (Some(Positions::One(one)), Some(Positions::One(two))) if !more => Positions::Two(one, two),
            _ => Positions::Wrong,
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Positions, A::Error> {
        while map.next_entry::<Any, Any>()?.is_some() {}
        Ok(Positions::Wrong)
    }
}

/// The question of a request's body, or the reason why the request is rejected.
pub(super) fn parse(bytes: &[u8]) -> Result<Parsed, String> {
    let body: Body = serde_json::from_slice(bytes).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => {
            format!("expected fields that are supported here, and none is ignored: {error}")
        }
        _ => "expected JSON".to_owned(),
    })?;
    if let Some(meta) = body.meta {
        check_meta(&meta)?;
    }
    let query = body.query.unwrap_or_default();
    if query.filters.is_some_and(|filters| !filters.is_empty()) {
        return Err(NO_FILTERS.to_owned());
    }
    let pagination = one_of(query.pagination, body.pagination, "pagination")?;
    let mut given = given(query.request_parameters.unwrap_or_default())?;
    given.granularity = one_of(query.requested_granularity, body.requested_granularity, "requestedGranularity")?;
    given.include = query.include_resultset_responses;
    (given.skip, given.limit) = pagination.map_or((None, None), |Pagination { skip, limit }| (skip, limit));
    given.test_mode = query.test_mode == Some(true);
    given.finish()
}

/// A field that stands within `query` or beside it.
fn one_of<T>(within: Option<T>, beside: Option<T>, what: &str) -> Result<Option<T>, String> {
    match (within, beside) {
        (Some(_), Some(_)) => Err(format!("expected {what} once, found it in query and beside it")),
        (within, beside) => Ok(within.or(beside)),
    }
}

fn check_meta(meta: &Meta) -> Result<(), String> {
    if let Some(version) = &meta.api_version {
        let number = version.strip_prefix('v').unwrap_or(version);
        if number != "2" && !number.starts_with("2.") {
            return Err("expected apiVersion v2.0.0, found another".to_owned());
        }
    }
    let schemas = meta.requested_schemas.iter().flat_map(|schemas| &schemas.0);
    for schema in schemas {
        match schema {
            Schema::Name(name) if names_variants(name) => {}
            Schema::Name(name) => check_entity(name)?,
            Schema::Of(SchemaOf { entity_type, .. }) => {
                entity_type.iter().try_for_each(|entity| check_entity(entity))?;
            }
        }
    }
    Ok(())
}

/// Whether this is the name of the schema of variants.
pub(super) fn names_variants(schema: &str) -> bool {
    schema.starts_with(SCHEMA)
}

/// Checks that an entry type is that of variants.
pub(super) fn check_entity(entity: &str) -> Result<(), String> {
    match ENTITIES.contains(&entity) {
        true => Ok(()),
        false => Err("expected the entry type genomicVariant in requestedSchemas, found another".to_owned()),
    }
}

/// The parameters of the variant, nested or not.
fn given(parameters: Parameters) -> Result<Given, String> {
    let Parameters { reference_name, start, end, reference_bases, alternate_bases, assembly_id, variant } = parameters;
    if let Some(inner) = variant {
        let others = [&reference_bases, &alternate_bases, &assembly_id];
        let beside = others.iter().any(|one| one.is_some()) || start.is_some() || end.is_some();
        if beside || reference_name.is_some() || inner.variant.is_some() {
            return Err("expected all parameters in g_variant, found others beside it".to_owned());
        }
        return given(*inner);
    }
    let reference_name = reference_name.map(|Name(name)| name);
    Ok(Given { reference_name, start, end, reference_bases, alternate_bases, assembly_id, ..Given::default() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::super::{BeaconQuery, BeaconRegion, Granularity};
    use super::*;
    use serde_json::json;

    fn question(parameters: &str, more: &str) -> String {
        format!(r#"{{"query":{{{more}"requestParameters":{{{parameters}}}}}}}"#)
    }

    const PLAIN: &str = r#""referenceName":"20","start":99,"referenceBases":"A","alternateBases":"C""#;

    fn plain(count: bool) -> BeaconQuery {
        let [chromosome, reference, alternate] = ["20", "A", "C"].map(str::to_owned);
        let (reference, alternate, region) = (Some(reference), Some(alternate), BeaconRegion::At(100));
        BeaconQuery { chromosome, region, reference, alternate, assembly: None, count }
    }

    /// The query that a body asks.
    fn asked(body: &str) -> Result<BeaconQuery, String> {
        parse(body.as_bytes()).map(|parsed| parsed.query)
    }

    #[test]
    fn positions_begin_at_zero_and_records_are_answered_by_counts() {
        let with = |granularity: &str, start: &str| {
            let parameters = PLAIN.replace("99", start);
            asked(&question(&parameters, &format!(r#""requestedGranularity":{granularity},"#)))
        };
        assert_eq!(with("\"count\"", "[99]").unwrap(), plain(true));
        assert_eq!(with("\"record\"", "\"99\"").unwrap(), plain(true));
        assert_eq!(with("null", "99").unwrap(), plain(false));
        for (granularity, start, says) in [
            ("\"aggregated\"", "99", "boolean, count or record"),
            ("7", "99", "invalid type"),
            ("null", "[1,2]", "one number in both start and end"),
            ("null", "-1", "expected start"),
            ("null", "null", "expected start"),
            ("null", "\"x\"", "expected start"),
            ("null", "18446744073709551615", "expected start"),
        ] {
            let refused = with(granularity, start).unwrap_err();
            assert!(refused.contains(says), "{granularity} {start}: {refused}");
        }
        for (wrong, says) in [
            ("", "expected JSON"),
            ("[]", "supported here"),
            ("{}", "names no variant"),
            ("{\"query\":7}", "invalid type"),
            ("{\"query\":{}}", "names no variant"),
            ("{\"query\":{\"requestParameters\":{}}}", "names no variant"),
        ] {
            let refused = asked(wrong).unwrap_err();
            assert!(refused.contains(says), "{wrong}: {refused}");
        }
    }

    #[test]
    fn ranges_and_brackets_are_read_in_the_forms_of_the_specification() {
        let range = BeaconRegion::Range { start: 7_572_837, end: 7_578_641 };
        let bracket = BeaconRegion::Bracket { start: (5, 9), end: (7, 12) };
        for (parameters, region) in [
            (r#""referenceName":"NC_000017.11","start":[7572837],"end":[7578641]"#, range),
            (r#""referenceName":17,"start":7572837,"end":"7578641""#, range),
            (r#""referenceName":"chr17","start":[5,9],"end":[7,12]"#, bracket),
        ] {
            for nested in [parameters.to_owned(), format!("\"g_variant\":{{{parameters}}}")] {
                assert_eq!(asked(&question(&nested, "")).unwrap().region, region, "{nested}");
            }
        }
        // the specification's own examples have these fields beside the query, and this misspelling
        let schema = r#"{"entityType":"genomicVariation","schema:":"x"}"#;
        let meta = format!(r#"{{"meta":{{"apiVersion":"2.0","requestedSchemas":[{schema}]}},"#);
        let beside = r#"{"requestedGranularity":"record","pagination":{"skip":0,"limit":5},"#;
        let body = question(PLAIN, "").replacen('{', &meta, 1).replacen('{', beside, 1);
        let parsed = parse(body.as_bytes()).unwrap();
        assert_eq!((parsed.query, parsed.granularity), (plain(true), Granularity::Count));
        assert_eq!(parsed.summary["pagination"], json!({ "skip": 0, "limit": 5 }));
        let twice = question(PLAIN, r#""requestedGranularity":"count","#).replacen('{', beside, 1);
        assert!(asked(&twice).unwrap_err().contains("requestedGranularity once"));
    }

    #[test]
    fn fault_32_nothing_of_a_request_takes_more_memory_than_its_bytes_call_for() {
        // at most two numbers are kept of a start, for every input
        assert!(size_of::<Option<Positions>>() <= 24);
        let with = |start: &str| asked(&question(&PLAIN.replace("99", start), ""));
        let many = format!("[{}0]", "0,".repeat(30_000));
        for other in ["[]", &many, "[[9,9]]", "[\"x\"]", "[-1]", "[null]", "{}", "true", "\"\"", "-1", "1.5", "null"] {
            assert!(with(other).unwrap_err().contains("expected start of one number"), "{other}");
        }
        assert_eq!((with("99").unwrap(), with("[99]").unwrap()), (plain(false), plain(false)));
        let named = |schemas: &str| {
            let meta = format!(r#"{{"meta":{{"requestedSchemas":{schemas}}},"#);
            asked(&question(PLAIN, "").replacen('{', &meta, 1))
        };
        let many = |count: usize| vec![r#"{"entityType":"genomicVariant","schema":"s"}"#; count].join(",");
        assert_eq!(named(&format!("[{}]", many(MAX_SCHEMAS))).unwrap(), plain(false));
        assert_eq!((named("[]").unwrap(), named("null").unwrap()), (plain(false), plain(false)));
        assert_eq!(named(r#"["ga4gh-beacon-variant-v2.0.0"]"#).unwrap(), plain(false));
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
            let what = asked(&body).unwrap_err();
            assert!(what.contains(says), "{body}: {what}");
        };
        for (field, says) in [
            (r#""variantMinLength":5"#, "unknown field `variantMinLength`"),
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
            (r#""datasets":["a"],"#, "unknown field `datasets`"),
            (r#""requestedGranularity":"count","requestedGranularity":"boolean","#, "duplicate field"),
        ] {
            refused(question(PLAIN, more), says);
        }
        for (meta, says) in [
            (r#"{"apiVersion":"v1.1"}"#, "apiVersion"),
            (r#"{"apiVersion":"20"}"#, "apiVersion"),
            (r#"{"requestedSchemas":[{"entityType":"individual"}]}"#, "genomicVariant"),
            (r#"{"requestedSchemas":["ga4gh-beacon-individual-v2.0.0"]}"#, "genomicVariant"),
            (r#"{"who":"me"}"#, "unknown field `who`"),
        ] {
            refused(question(PLAIN, "").replacen('{', &format!(r#"{{"meta":{meta},"#), 1), says);
        }
        refused(question(PLAIN, "").replacen('{', r#"{"filters":[],"#, 1), "unknown field `filters`");
        for bases in ["", "-", "R", "<DEL>", "A C"] {
            let with = |of: &str, old: &str| PLAIN.replace(&format!("{of}\":\"{old}"), &format!("{of}\":\"{bases}"));
            refused(question(&with("alternateBases", "C"), ""), "expected alternateBases");
            refused(question(&with("referenceBases", "A"), ""), "expected referenceBases");
        }
    }

    #[test]
    fn fault_19_whatever_changes_no_answer_is_told_back_and_an_assembly_is_passed_on() {
        let parameters = PLAIN.replace("\"A\"", "\"a\"") + r#","assemblyId":"GRCh38""#;
        let more = r#""requestedGranularity":"count","filters":[],"includeResultsetResponses":"ALL","testMode":true,
            "pagination":{"skip":5,"limit":10},"#;
        let body = question(&parameters, more).replacen('{', r#"{"$schema":"x","meta":{"apiVersion":"2.0"},"#, 1);
        let parsed = parse(body.as_bytes()).unwrap();
        assert_eq!(parsed.query, BeaconQuery { assembly: Some("GRCh38".to_owned()), ..plain(true) });
        let variant = json!({
            "referenceName": "20", "start": [99], "referenceBases": "a", "alternateBases": "C", "assemblyId": "GRCh38",
        });
        let expected = json!({
            "apiVersion": "v2.0.0", "requestedGranularity": "count", "requestedSchemas": [],
            "includeResultsetResponses": "ALL", "pagination": { "skip": 5, "limit": 10 }, "testMode": true,
            "requestParameters": { "g_variant": variant },
        });
        assert_eq!(parsed.summary, expected);
    }

    #[test]
    fn whatever_is_posted_is_a_whole_query_or_refused() {
        let good = question(&format!(r#""g_variant":{{{PLAIN}}}"#), r#""requestedGranularity":"count","#);
        let judge = |bytes: &[u8]| {
            let Ok(Parsed { query, .. }) = parse(bytes) else { return false };
            let bases = [&query.reference, &query.alternate].into_iter().flatten().all(|text| !text.is_empty());
            let place = match query.region {
                BeaconRegion::At(position) => position > 0 && query.alternate.is_some(),
                BeaconRegion::Range { start, end } => start < end,
                BeaconRegion::Bracket { start, end } => start.0 < start.1 && end.0 < end.1,
            };
            assert!(bases && place && !query.chromosome.is_empty(), "{query:?}");
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
