//! The Beacon's descriptions of itself, in the forms of the Beacon framework and of GA4GH's service
//! info. None of them depends on a server.

use super::{API_VERSION, BEACON_ID};
use serde_json::{Value, json};

/// The folder of the specification's schemas.
const SCHEMAS: &str = "https://raw.githubusercontent.com/ga4gh-beacon/beacon-v2/main";
const ENTITY: &str = "genomicVariant";
const NAME: &str = "Tobari search";
const DESCRIPTION: &str = "Variants of a table, asked for under encryption. The Beacon tells whether and how often a \
                           variant occurs. There are no records.";

/// The facts that descriptions state.
pub(super) struct About {
    /// The Beacon's own address, such as `http://127.0.0.1:7611`.
    pub(super) root: String,
    /// The assembly of all tables, if it is known.
    pub(super) assembly: Option<String>,
    /// The most questions that a request may take.
    pub(super) most_questions: usize,
}

/// The schemas of answers about variants.
pub(super) fn returned_schemas() -> Value {
    json!([{ "entityType": ENTITY, "schema": "ga4gh-beacon-variant-v2.0.0" }])
}

fn informational(response: &Value) -> Value {
    let meta = json!({ "beaconId": BEACON_ID, "apiVersion": API_VERSION, "returnedSchemas": [] });
    json!({ "meta": meta, "response": response })
}

pub(super) fn info(about: &About) -> Value {
    let mut info = json!({ "maxQuestions": about.most_questions });
    if let Some(assembly) = &about.assembly {
        info["assemblyId"] = assembly.as_str().into();
    }
    informational(&json!({
        "id": BEACON_ID, "name": NAME, "apiVersion": API_VERSION, "environment": "prod",
        "organization": { "id": "local", "name": "this machine" },
        "description": DESCRIPTION, "version": concat!("v", env!("CARGO_PKG_VERSION")), "info": info,
    }))
}

pub(super) fn service_info(about: &About) -> Value {
    json!({
        "id": BEACON_ID, "name": NAME, "description": DESCRIPTION,
        "type": { "group": "org.ga4gh", "artifact": "beacon", "version": API_VERSION.trim_start_matches('v') },
        "organization": { "name": "this machine", "url": about.root },
        "environment": "prod", "version": env!("CARGO_PKG_VERSION"),
    })
}

/// The entry types: variants alone. A query without a variant or a range is not answered.
fn entry_types() -> Value {
    let schema = json!({
        "id": "ga4gh-beacon-variant-v2.0.0", "name": "Default schema for a genomic variation",
        "referenceToSchemaDefinition":
            format!("{SCHEMAS}/models/json/beacon-v2-default-model/genomicVariations/defaultSchema.json"),
        "schemaVersion": "v2.0.0",
    });
    json!({ ENTITY: {
        "id": ENTITY, "name": "Genomic Variants", "partOfSpecification": "Beacon v2.0.0",
        "description": "Variants of two alleles, as in a VCF file.",
        "ontologyTermForThisType": { "id": "ENSGLOSSARY:0000092", "label": "Variant" },
        "defaultSchema": schema, "additionallySupportedSchemas": [], "nonFilteredQueriesAllowed": false,
    } })
}

pub(super) fn entry_types_response() -> Value {
    informational(&json!({ "entryTypes": entry_types() }))
}

pub(super) fn configuration() -> Value {
    informational(&json!({
        "$schema": format!("{SCHEMAS}/framework/json/configuration/beaconConfigurationSchema.json"),
        "maturityAttributes": { "productionStatus": "PROD" },
        "securityAttributes": { "defaultGranularity": "boolean", "securityLevels": ["CONTROLLED"] },
        "entryTypes": entry_types(),
    }))
}

pub(super) fn map(about: &About) -> Value {
    informational(&json!({
        "$schema": format!("{SCHEMAS}/framework/json/configuration/beaconMapSchema.json"),
        "endpointSets": { ENTITY: { "entryType": ENTITY, "rootUrl": format!("{}/g_variants", about.root) } },
    }))
}

/// The filters: none, because tables have nothing about people.
pub(super) fn filtering_terms() -> Value {
    informational(&json!({ "filteringTerms": [], "resources": [] }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    fn about() -> About {
        About { root: "http://127.0.0.1:7611".to_owned(), assembly: Some("GRCh38".to_owned()), most_questions: 128 }
    }

    /// The members that the schemas of Beacon v2.0.0 and of GA4GH's service info require.
    #[test]
    fn every_description_has_the_members_that_its_schema_requires() {
        let text = |value: &Value, path: &str| {
            let found = value.pointer(path).and_then(Value::as_str);
            assert!(found.is_some_and(|text| !text.is_empty()), "{path} in {value}");
        };
        let (configuration, types) = (configuration(), entry_types_response());
        for described in [&info(&about()), &configuration, &map(&about()), &types, &filtering_terms()] {
            text(described, "/meta/beaconId");
            assert_eq!(described["meta"]["apiVersion"], "v2.0.0");
            assert!(described["meta"]["returnedSchemas"].is_array() && described["response"].is_object());
        }
        for path in ["id", "name", "apiVersion", "environment", "organization/id", "organization/name"] {
            text(&info(&about()), &format!("/response/{path}"));
        }
        for path in ["id", "name", "type/group", "type/artifact", "type/version", "organization/url", "version"] {
            text(&service_info(&about()), &format!("/{path}"));
        }
        assert_eq!(service_info(&about())["type"]["artifact"], "beacon");
        for path in ["$schema", "maturityAttributes/productionStatus", "securityAttributes/defaultGranularity"] {
            text(&configuration, &format!("/response/{path}"));
        }
        for types in [&configuration, &types] {
            for path in ["id", "name", "partOfSpecification", "defaultSchema/id", "defaultSchema/name"] {
                text(types, &format!("/response/entryTypes/genomicVariant/{path}"));
            }
            text(types, "/response/entryTypes/genomicVariant/defaultSchema/referenceToSchemaDefinition");
            assert_eq!(types["response"]["entryTypes"]["genomicVariant"]["nonFilteredQueriesAllowed"], false);
        }
        let map = map(&about());
        text(&map, "/response/$schema");
        assert_eq!(map["response"]["endpointSets"]["genomicVariant"]["rootUrl"], "http://127.0.0.1:7611/g_variants");
        assert_eq!(map["response"]["endpointSets"]["genomicVariant"]["entryType"], "genomicVariant");
        assert_eq!(filtering_terms()["response"]["filteringTerms"], json!([]));
    }
}
