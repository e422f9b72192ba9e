//! The Beacon, with the server, the Beacon and its client in processes of their own.

use crate::support::tables::{Beacon, Place, SITES, position, post, raw, vcf};
use crate::support::{Server, stderr};
use serde_json::{Value, json};

/// A panel of chromosome 20 whose header tells GRCh38, and the alleles 1 of each site.
fn panel(place: &Place) -> (String, Vec<u64>) {
    let told = vcf(SITES, '|').replace("##contig=<ID=20>", "##contig=<ID=20,length=64444167>");
    let (vcf, table) = (place.write("panel.vcf", &told), place.path("panel"));
    place.good(&["search", "index", &vcf, "-o", &table, "--label", "panel"]);
    let single: String = (0..SITES).map(|site| format!("20:{}\t1\n", position(site))).collect();
    let clear = place.good(&["search", "check", &table, "--queries", &place.write("single", &single), "--json"]);
    let count = |line: &str| serde_json::from_str::<Value>(line).unwrap()["count"].as_u64().unwrap();
    (table, clear.lines().map(count).collect())
}

/// Checks the members that the schema of an answer requires, and their types.
fn check_answer(found: &Value, granularity: &str) {
    let meta = &found["meta"];
    assert!(meta["beaconId"].is_string() && meta["apiVersion"].is_string(), "{found}");
    assert!(meta["returnedSchemas"].is_array(), "{found}");
    assert_eq!(meta["returnedGranularity"], granularity, "{found}");
    let received = &meta["receivedRequestSummary"];
    assert!(received["apiVersion"].is_string() && received["requestedSchemas"].is_array(), "{found}");
    assert!(received["pagination"].is_object() && received["requestedGranularity"].is_string(), "{found}");
    if found["error"].is_null() {
        assert!(found["responseSummary"]["exists"].is_boolean(), "{found}");
        assert_eq!(found["responseSummary"]["numTotalResults"].is_u64(), granularity == "count", "{found}");
        assert!(found["info"].is_object(), "{found}");
    }
}

#[test]
fn fault_19_a_beacon_answers_variants_and_passes_nothing_of_a_request_over() {
    let place = Place::new();
    let (table, counts) = panel(&place);
    let server = Server::start(&["--search", &table]);
    let beacon = Beacon::start(&place, &server.url, &["--public"]);
    let one = |name: &str, start: usize, alternate: &str| {
        format!(r#""referenceName":"{name}","start":[{start}],"referenceBases":"A","alternateBases":"{alternate}""#)
    };
    assert!(counts[42..48].contains(&0) && counts[42] > 0, "both happen: {counts:?}");
    for (site, count) in counts.iter().enumerate().take(48).skip(42) {
        let name = ["20", "chr20", "NC_000020.11", "refseq:NC_000020.11"][site % 4];
        let variant = one(name, position(site) - 1, "C");
        for (asked, returned) in [("boolean", "boolean"), ("count", "count"), ("record", "count")] {
            let (status, found) = beacon.ask(asked, &variant);
            assert_eq!(status, 200, "{found}");
            check_answer(&found, returned);
            assert_eq!(found["meta"]["receivedRequestSummary"]["requestedGranularity"], asked);
            let summary = &found["responseSummary"];
            assert_eq!(summary["exists"], *count > 0);
            if returned == "count" {
                assert_eq!(
                    (&summary["numTotalResults"], &found["info"]["alleleCount"]),
                    (&u64::from(*count > 0).into(), &(*count).into())
                );
            }
            assert_eq!((&found["info"]["listedVariants"], &found["info"]["assemblyId"]), (&1.into(), &"GRCh38".into()));
        }
    }
    for (start, alternate) in [(position(0), "C"), (position(0) - 1, "G")] {
        let (status, found) = beacon.ask("count", &one("20", start, alternate));
        assert_eq!((status, &found["responseSummary"]["exists"]), (200, &false.into()));
    }
    let refused = |(found, body): (u16, Value), status: u16, says: &str| {
        assert_eq!((found, &body["error"]["errorCode"]), (status, &status.into()), "{body}");
        assert!(body["error"]["errorMessage"].as_str().unwrap().contains(says), "{body}");
        check_answer(&body, body["meta"]["returnedGranularity"].as_str().unwrap());
    };
    let variant = |more: &str| beacon.ask("count", &(one("20", position(0) - 1, "C") + more));
    refused(variant(r#","variantType":"DEL""#), 400, "unknown field `variantType`");
    refused(variant(r#","assemblyId":"GRCh37""#), 400, "the assembly GRCh38 of the tables, found \"GRCh37\"");
    refused(beacon.ask("count", &one("NC_000020.10", 5, "C")), 400, "a sequence of GRCh37");
    refused(beacon.ask("count", &one("20", position(0) - 1, "C").replace("\"A\"", "\"G\"")), 400, "another assembly");
    refused(beacon.ask("count", &one("21", 5, "C")), 400, "expected a chromosome of the tables");
    assert_eq!(variant(r#","assemblyId":"hg38""#).0, 200);
    let json = "Content-Type: application/json\r\n";
    refused(beacon.send(&post("/g_variants?assemblyId=x", json, b"{}")), 400, "in the body");
    refused(beacon.send(&post("/g_variants", "Content-Type: text/plain\r\n", b"{}")), 415, "application/json");
    refused(beacon.send(&post("/info", json, b"{}")), 405, "expected GET");
    refused(beacon.get("/individuals", ""), 404, "no other entry types");
    refused(beacon.get("/g_variants", ""), 400, "names no variant");
    // a request in test mode is answered without a server
    server.stop();
    let (status, found) =
        beacon.get(&format!("/g_variants?referenceName=20&start={}&alternateBases=C&testMode=true", position(1)), "");
    assert_eq!(
        (status, &found["meta"]["testMode"], &found["responseSummary"]),
        (200, &true.into(), &json!({ "exists": false }))
    );
    refused(variant(""), 502, "");
    let open =
        ["search", "beacon", "--listen", "0.0.0.0:0", "--server", "http://127.0.0.1:1", "--key", &place.path("key")];
    assert_eq!(place.run(&open).status.code(), Some(1), "only this machine");
}

#[test]
fn a_beacon_reads_questions_from_addresses_and_keeps_web_pages_out() {
    let place = Place::new();
    let (table, counts) = panel(&place);
    let server = Server::start(&["--search", &table]);
    let beacon = Beacon::start(&place, &server.url, &["--public", "--max-questions", "7"]);
    let ask = |address: &str| {
        beacon.get(&format!("/g_variants?referenceName=chr20&requestedGranularity=count&{address}"), "")
    };
    let alleles = |sites: &[usize]| sites.iter().map(|site| counts[*site]).sum::<u64>();
    let (first, third) = (position(0) - 1, position(2) - 1);
    for (address, sites) in [
        (format!("start={first}&referenceBases=A&alternateBases=C"), &[0][..]),
        (format!("start={first}&alternateBases=N&assemblyId=GRCh38.p14"), &[0]),
        (format!("start={first}&end={third}&assemblyId=hg38"), &[0, 1]),
        (format!("start={first}&end={}&assemblyId=hg38", third + 1), &[0, 1, 2]),
        (format!("start={first}&end={}&assemblyId=hg38&alternateBases=G", third + 1), &[]),
        (format!("start={first},{third}&end={},{}&assemblyId=hg38", first + 2, third + 1), &[1]),
    ] {
        let (status, found) = ask(&address);
        assert_eq!(status, 200, "{address}: {found}");
        check_answer(&found, "count");
        let occurring = sites.iter().filter(|site| counts[**site] > 0).count();
        assert_eq!(
            found["responseSummary"],
            json!({ "exists": occurring > 0, "numTotalResults": occurring }),
            "{address}"
        );
        assert_eq!(
            (&found["info"]["alleleCount"], &found["info"]["listedVariants"]),
            (&alleles(sites).into(), &sites.len().into())
        );
    }
    for (address, says) in [
        (format!("start={first}&end={third}"), "expected assemblyId"),
        (format!("start={first}&end={}&assemblyId=hg38", position(9)), "at most 7 questions, found 10 listed variants"),
        (format!("start={first}&alternateBases=C&assemblyId=hg38&geneId=X"), "\"geneId\" is not supported"),
    ] {
        let (status, found) = ask(&address);
        assert_eq!(status, 400, "{address}");
        assert!(found["error"]["errorMessage"].as_str().unwrap().contains(says), "{address}: {found}");
    }
    let good = format!("/g_variants?referenceName=20&start={first}&referenceBases=A&alternateBases=C");
    for header in ["Origin: http://evil.example", "Referer: http://evil.example/", "Sec-Fetch-Site: cross-site"] {
        let (status, found) = beacon.get(&good, &format!("{header}\r\n"));
        assert_eq!(status, 403, "{header}");
        assert!(found["error"]["errorMessage"].as_str().unwrap().contains("a web page"), "{found}");
    }
    assert_eq!(beacon.get(&good, "Sec-Fetch-Site: none\r\n").0, 200, "a person entered the address");
    for path in ["/", "/info", "/service-info", "/configuration", "/map", "/entry_types", "/filtering_terms"] {
        let (status, found) = beacon.get(path, "");
        assert!(status == 200 && found.is_object(), "{path}: {found}");
        let (status, found) = beacon.get(&format!("{path}?who=me"), "");
        assert!(status == 400 && found["error"]["errorMessage"].as_str().unwrap().contains("\"who\""), "{path}");
        let request = format!("GET {path} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
        assert_eq!(raw(beacon.address(), request.as_bytes()).0, 403, "{path}");
    }
    let url = beacon.get("/map", "").1["response"]["endpointSets"]["genomicVariant"]["rootUrl"].clone();
    assert_eq!(url, format!("http://{}/g_variants", beacon.address()));
}

#[test]
fn an_index_records_the_assembly_of_its_header_or_of_the_user() {
    let place = Place::new();
    let plain = vcf(4, '|');
    let told = plain.replace("##contig=<ID=20>", "##contig=<ID=20,length=64444167>");
    let both = told.replace("##contig", "##reference=/refs/hg19.fa\n##contig");
    let [plain, told, both] =
        [("plain.vcf", plain), ("told.vcf", told), ("both.vcf", both)].map(|(n, t)| place.write(n, &t));
    let index = |name: &str, vcf: &str, more: &[&str]| {
        let done = place.run(&[&["search", "index", vcf, "-o", &place.path(name), "--json"], more].concat());
        match done.status.success() {
            true => Ok(serde_json::from_slice::<Value>(&done.stdout).unwrap()["assembly"].clone()),
            false => Err(stderr(&done)),
        }
    };
    assert_eq!(index("plain", &plain, &[]), Ok(Value::Null));
    assert_eq!(index("told", &told, &[]), Ok("GRCh38".into()));
    assert_eq!(index("told", &told, &["--assembly", "hg38"]), Ok("hg38".into()));
    assert_eq!(index("named", &plain, &["--assembly", "GRCh37"]), Ok("GRCh37".into()));
    let refused = |found: Result<Value, String>, says: &str| {
        assert!(found.as_ref().is_err_and(|e| e.contains(says)), "{found:?}");
    };
    refused(index("x", &both, &[]), "expected a header of one assembly");
    refused(index("x", &told, &["--assembly", "GRCh37"]), "the header tells GRCh38 (length=64444167 of contig 20)");
    refused(index("x", &plain, &["--assembly", "GRCh 37"]), "without spaces");
    assert_eq!(index("both", &both, &["--assembly", "GRCh38"]), Ok("GRCh38".into()));
    // appended sites are of the same assembly, or the user says so
    let later = |text: &str| {
        text.lines()
            .filter(|line| line.starts_with('#') || !line.starts_with("20"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let append = |name: &str, from: &str, more: &[&str]| {
        let text = std::fs::read_to_string(from).unwrap();
        let records = text.lines().filter(|line| line.starts_with("20\t")).map(|line| line.replacen("20\t", "X\t", 1));
        let text: Vec<String> = later(&text).into_iter().chain(records).collect();
        index(name, &place.write("more.vcf", &(text.join("\n") + "\n")), &[&["--append"], more].concat())
    };
    refused(append("named", &told, &[]), "expected positions of GRCh37 as in the table, found positions of GRCh38");
    refused(append("named", &plain, &[]), "add --assembly GRCh37");
    refused(append("named", &plain, &["--assembly", "hg19"]), "add --assembly GRCh37 if both are the same");
    assert_eq!(append("named", &plain, &["--assembly", "b37"]), Ok("GRCh37".into()));
    // the header of new sites tells nothing of the sites before
    assert_eq!(append("plain", &told, &[]), Ok(Value::Null));
    // a Beacon does not add up the counts of two assemblies, nor takes another than it is told
    let server = Server::start(&["--search", &place.path("both")]);
    let other = Server::start(&["--search", &place.path("named")]);
    let key = place.path("key");
    let start = |more: &[&str]| {
        let done =
            place.run(&[&["search", "beacon", "--listen", "127.0.0.1:0", "--key", &key, "--public"], more].concat());
        assert_eq!(done.status.code(), Some(1));
        stderr(&done)
    };
    let both = start(&["--server", &server.url, "--server", &other.url]);
    assert!(both.contains("expected positions of GRCh38 as in the table before, found a table of GRCh37"), "{both}");
    let told = start(&["--server", &server.url, "--assembly", "GRCh37"]);
    assert!(told.contains("expected positions of GRCh37 as --assembly says, found a table of GRCh38"), "{told}");
}
