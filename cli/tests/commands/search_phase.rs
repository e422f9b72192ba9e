//! Commands never join alleles of two phase sets. They find bases in either case, and structural
//! variants.

use crate::support::tables::Place;
use crate::support::{has_no_answer, stderr};
use serde_json::{Value, json};

const HEAD: &str = "##fileformat=VCFv4.3\n##contig=<ID=20>\n##contig=<ID=21>\n";
const COLUMNS: &str = "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT";

/// Records as `CHROM POS REF ALT INFO FORMAT sample…`.
fn vcf(records: &[&str]) -> String {
    let samples = records[0].split(' ').count() - 6;
    let mut text = format!("{HEAD}{COLUMNS}");
    (0..samples).for_each(|sample| text += &format!("\ts{sample}"));
    for record in records {
        let columns: Vec<&str> = record.split(' ').collect();
        let [chromosome, position, reference, alternate, info, format] = columns[..6] else { panic!("{record}") };
        text += &format!("\n{chromosome}\t{position}\t.\t{reference}\t{alternate}\t.\t.\t{info}\t{format}\t");
        text += &columns[6..].join("\t");
    }
    text + "\n"
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn fault_19_alleles_of_two_phase_sets_are_no_haplotype() {
    let place = Place::new();
    let index = |records: &[&str], more: &[&str]| {
        let file = place.write("in.vcf", &vcf(records));
        place.run(&[&["search", "index", &file, "-o", &place.path("a.tsi"), "--json"], more].concat())
    };
    let check = |at: &str, alleles: &str| {
        place.run(&["search", "check", &place.path("a.tsi"), "--at", at, "--alleles", alleles, "--json"])
    };
    let line = |done: &std::process::Output| json_of(&String::from_utf8_lossy(&done.stdout));
    let one = ["20 100 A C . GT:PS 0|1:5 1|0:8", "20 110 A C . GT:PS 1|0:5 0|1:8", "21 9 A C . GT:PS 0|1:6 1|0:9"];
    assert_eq!(line(&index(&one, &[]))["kind"], "panel");
    assert_eq!(line(&check("20:100", "01")), json!({ "match": true, "count": 2 }));

    // a second phase set is refused, like a record without phase among phased ones, unless the user
    // asks for single variants, or leaves such records out
    let two = ["20 100 A C . GT:PS 0|1:5 1|0:8", "20 110 A C . GT:PS 1|0:5 0|1:9"];
    let refused = index(&two, &["--require-phase"]);
    assert_eq!(refused.status.code(), Some(1));
    let text = "record 2: expected one phase set (PS) of a sample on a chromosome, found phase set 9 after phase set 8 \
                at 20:110 in sample 2";
    assert!(stderr(&refused).contains(text), "{}", stderr(&refused));
    assert_eq!(line(&check("20:100", "01"))["count"], 2, "the table of before is still there");
    let mixed = ["20 100 A C . GT 0|1 1|0", "20 105 A C . GT 0/0 1|0", "20 110 A C . GT 0/1 0|1"];
    for (records, says) in [(&two[..], "found phase set 9 after phase set 8"), (&mixed, "records before are")] {
        let refused = index(records, &[]);
        assert_eq!(refused.status.code(), Some(1));
        let said = stderr(&refused);
        assert!(
            said.contains(says) && said.contains("--unphased skip") && said.contains("--unphased variants"),
            "{said}"
        );
    }
    let left = index(&mixed, &["--unphased", "skip"]);
    assert_eq!(
        (&line(&left)["kind"], &line(&left)["sites"], &line(&left)["kept"]),
        (&json!("panel"), &json!(2), &json!(2))
    );
    assert!(stderr(&left).contains("1 records were left out"), "{}", stderr(&left));
    assert_eq!(line(&check("20:100", "01"))["count"], 0);
    assert_eq!(line(&check("20:100", "11"))["count"], 1);
    let told = line(&index(&mixed, &["--unphased", "variants"]));
    assert_eq!((&told["kind"], &told["unphased"]), (&json!("variants"), &json!(1)));
    // a file without any phase needs no option
    let none = ["20 100 A C . GT 0/0 1/1", "20 105 A C . GT 0/1 1/0"];
    assert_eq!(line(&index(&none, &[]))["kind"], "variants");
    let told = line(&index(&two, &["--unphased", "variants"]));
    assert_eq!(
        (&told["kind"], &told["other_phase_set"], &told["unphased"]),
        (&json!("variants"), &json!(1), &json!(0))
    );
    let haplotype = check("20:100", "01");
    assert_eq!(haplotype.status.code(), Some(1));
    assert!(stderr(&haplotype).contains("this table has no phase"), "{}", stderr(&haplotype));
    assert_eq!(line(&check("20:100", "1"))["count"], 2);

    // added sites must belong to the earlier phasing, or they are rejected
    assert!(index(&one[..2], &[]).status.success());
    let added = index(&["20 120 A C . GT:PS 0|1:5 0|0:."], &["--append"]);
    assert_eq!(added.status.code(), Some(1));
    let text = stderr(&added);
    assert!(text.contains("after sites of another file") && text.contains("index all sites"), "{text}");
    assert!(index(&["21 5 A C . GT:PS 0|1:5 0|0:."], &["--append"]).status.success(), "another chromosome");

    // the same for a person's file
    let person = |records: &[&str]| {
        let file = place.write("person.vcf", &vcf(records));
        place.run(&["search", "check", &place.path("a.tsi"), "--vcf", &file, "--region", "20:1-200", "--json"])
    };
    let answers = person(&["20 100 A C . GT:PS 0|1:7", "20 105 A C . GT:PS 0|1:1", "20 110 a c . GT:PS 1|0:7"]);
    let expected = json!({ "match": true, "count": 2 });
    let both: Vec<Value> = String::from_utf8_lossy(&answers.stdout).lines().map(json_of).collect();
    assert_eq!(both, [expected.clone(), expected], "a site that is not asked for has a set of its own");
    let refused = person(&["20 100 A C . GT:PS 0|1:7", "20 110 A C . GT:PS 1|0:8"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("found phase set 8 after phase set 7"), "{}", stderr(&refused));
    assert!(has_no_answer(&refused));
}

#[test]
fn fault_19_sites_that_are_added_are_of_another_phasing_unless_somebody_says_so() {
    let place = Place::new();
    let index = |records: &[&str], more: &[&str]| {
        let file = place.write("in.vcf", &vcf(records));
        place.run(&[&["search", "index", &file, "-o", &place.path("a.tsi"), "--json"], more].concat())
    };
    let table = place.path("a.tsi");
    let count = |alleles: &str| {
        let told = place.good(&["search", "check", &table, "--at", "20:100", "--alleles", alleles, "--json"]);
        json_of(&told)["count"].clone()
    };
    assert!(index(&["20 100 A C . GT:PS 0|1:100 1|0:100"], &[]).status.success());
    // the file names no set, or the same number: nothing tells which haplotype is which
    for record in ["20 120 A C . GT 0|1 0|0", "20 120 A C . GT:PS 0|0:. 0|1:100"] {
        let refused = index(&["20 110 A C . GT 1|1 0|0", record], &["--append"]);
        assert_eq!(refused.status.code(), Some(1), "{record}");
        let text = stderr(&refused);
        assert!(text.contains("record 2") && text.contains("at 20:120"), "{text}");
        assert!(text.contains("all sites of chromosome 20 at once") && text.contains("--same-phasing"), "{text}");
    }
    // homozygous sites fit any phasing, and so do sites of a new chromosome
    assert!(index(&["20 110 A C . GT 1|1 0|0", "21 5 A C . GT 0|1 1|0"], &["--append"]).status.success());
    assert_eq!((count("11"), count("10")), (json!(1), json!(1)));
    let refused = index(&["21 9 A C . GT 0|1 1|0"], &["--append"]);
    assert!(stderr(&refused).contains("all sites of chromosome 21 at once"), "{}", stderr(&refused));
    let words = ["--append", "--same-phasing"];
    assert!(index(&["21 9 A C . GT 0|1 1|0"], &words).status.success());
    // phase sets in the file itself still count
    let refused = index(&["21 20 A C . GT:PS 0|1:5 0|0:.", "21 30 A C . GT:PS 0|1:6 0|0:."], &words);
    assert!(stderr(&refused).contains("found phase set 6 after phase set 5"), "{}", stderr(&refused));
    let refused = index(&["21 20 A C . GT 0/1 0|0"], &["--append"]);
    assert!(stderr(&refused).contains("a genotype is not phased"), "{}", stderr(&refused));
    let alone = index(&["21 20 A C . GT 0|1 0|0"], &["--same-phasing"]);
    assert_eq!(alone.status.code(), Some(2));
    // a table of single variants joins nothing
    assert!(index(&["20 100 A C . GT 0/1 1|0"], &[]).status.success());
    let added = index(&["20 120 A C . GT 0|1 0|0"], &["--append"]);
    let told = json_of(&String::from_utf8_lossy(&added.stdout));
    assert_eq!((&told["kind"], &told["other_phase_set"]), (&json!("variants"), &json!(0)));
}

#[test]
fn fault_19_structural_variants_and_lower_case_are_asked_for_as_they_are() {
    let place = Place::new();
    let panel = vcf(&[
        "20 100 a g . GT 0|1 1|1",
        "20 200 N <DEL> END=300 GT 0|1 0|0",
        "20 200 N <DEL> END=900 GT 1|1 0|1",
        "20 300 N <INS> SVLEN=40 GT 1|1 0|1",
        "20 400 A A[5:900[ . GT 0|1 0|0",
        "20 400 A A]5:900] . GT 1|1 0|1",
    ]);
    let (panel, table) = (place.write("in.vcf", &panel), place.path("a.tsi"));
    let told = json_of(&place.good(&["search", "index", &panel, "-o", &table, "--json"]));
    assert_eq!((&told["kept"], &told["duplicate"]), (&json!(6), &json!(0)));
    let check = |at: &str| place.run(&["search", "check", &table, "--at", at, "--alleles", "1", "--json"]);
    for (at, count) in [
        ("20:100:A:G", 3),
        ("20:100:a:g", 3),
        ("20:200:N:<DEL>@300", 1),
        ("20:200:n:<DEL>@900", 3),
        ("20:300:N:<INS>", 3),
        ("20:400:A:A[5:900[", 1),
        ("20:400:a:A]5:900]", 3),
    ] {
        assert_eq!(json_of(&String::from_utf8_lossy(&check(at).stdout))["count"], count, "{at}");
    }
    let refused = check("20:200:N:<DEL>");
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("20:200:N:<DEL>@300, 20:200:N:<DEL>@900"), "{}", stderr(&refused));
    // a person's deletion of another length is not the table's
    let person = place.write("person.vcf", &vcf(&["20 200 N <DEL> END=301 GT 0|1"]));
    let other = place.run(&["search", "check", &table, "--vcf", &person, "--region", "20:200-200"]);
    assert!(stderr(&other).contains("has no genotype at 20:200:N:<DEL>@300"), "{}", stderr(&other));
    // records have the end in VCF's field
    let ask = ["search", "check", &table, "--at", "20:200:N:<DEL>@900", "--alleles", "1", "--format", "vcf"];
    let record = place.good(&ask);
    let expected = "20\t200\t.\tN\t<DEL>\t.\tPASS\tLENGTH=1;ALLELES=1;END=900;COUNT=3;MATCH\n";
    assert!(record.ends_with(expected), "{record}");
}
