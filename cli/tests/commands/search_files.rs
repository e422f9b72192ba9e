//! Files as people have them: chromosome X with its pseudoautosomal regions, and files without
//! samples. Counts are those of the genotypes or of INFO.

use crate::support::tables::{Place, without_places};
use crate::support::{Server, stderr};
use serde_json::{Value, json};
use std::process::Output;

/// Women and men of the panel.
const SAMPLES: [bool; 14] = [true, false, false, true, true, false, true, false, true, true, false, false, true, false];
const SITES: usize = 30;
/// The first site between the two regions, and the first after it.
const BORDERS: [usize; 2] = [8, 21];

fn position(site: usize) -> usize {
    60_001 + 40 * site
}

/// The alleles of a sample at a site: men have one between the borders.
fn alleles(site: usize, sample: usize) -> Vec<bool> {
    let haploid = !SAMPLES[sample] && (BORDERS[0]..BORDERS[1]).contains(&site);
    let one =
        |copy: usize| (site * site + (sample * 2 + copy) % 5 * 3).is_multiple_of(7) || (site + sample) % 11 == copy;
    (0..if haploid { 1 } else { 2 }).map(one).collect()
}

/// Chromosome X, from a first site to before another.
fn x(sites: std::ops::Range<usize>) -> String {
    let mut text = "##fileformat=VCFv4.3\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT".to_owned();
    (0..SAMPLES.len()).for_each(|sample| text += &format!("\ts{sample}"));
    for site in sites {
        text += &format!("\nX\t{}\t.\tA\tC\t.\t.\t.\tGT", position(site));
        for sample in 0..SAMPLES.len() {
            let digits: Vec<String> = alleles(site, sample).iter().map(|one| u8::from(*one).to_string()).collect();
            text += &format!("\t{}", digits.join("|"));
        }
    }
    text + "\n"
}

/// Questions of three alleles at every site from which a window stays on its side of a border, with
/// their counts.
fn counted() -> Vec<(String, u64)> {
    let mut all = Vec::new();
    for start in (0..SITES - 2).filter(|start| !BORDERS.iter().any(|border| (start + 1..start + 3).contains(border))) {
        for pattern in [[false; 3], [true, false, false], [false, true, false], [true, true, false]] {
            let haplotypes = (0..SAMPLES.len()).flat_map(|sample| {
                let of: [Vec<bool>; 3] = [0, 1, 2].map(|i| alleles(start + i, sample));
                (0..of[0].len()).map(|copy| [0, 1, 2].map(|i| of[i][copy])).collect::<Vec<_>>()
            });
            let count = haplotypes.filter(|haplotype| *haplotype == pattern).count() as u64;
            let text: String = pattern.iter().map(|one| if *one { '1' } else { '0' }).collect();
            all.push((format!("X:{}\t{text}\n", position(start)), count));
        }
    }
    all
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn refused(done: &Output, status: i32, says: &str) {
    assert_eq!(done.status.code(), Some(status), "{}", stderr(done));
    assert!(stderr(done).contains(says), "{}", stderr(done));
}

#[test]
fn chromosome_x_counts_the_haplotypes_of_each_side_of_its_borders() {
    let place = Place::new();
    let whole = place.write("x.vcf", &x(0..SITES));
    let made = place.good(&["search", "index", &whole, "-o", &place.path("x.tsi"), "--json", "--require-phase"]);
    let made = &lines(&made)[0];
    assert_eq!((&made["kind"], &made["haplotypes"], &made["changes"]), (&json!("panel"), &json!(28), &json!(2)));
    // the same, from two files
    let parts = [x(0..4), x(4..SITES)].map(|text| place.write(&format!("part{}.vcf", text.len()), &text));
    let first = place.path("parts.tsi");
    place.good(&["search", "index", &parts[0], "-o", &first]);
    place.good(&["search", "index", &parts[1], "-o", &first, "--append", "--same-phasing"]);
    let expected = counted();
    let queries = place.write("queries", &expected.iter().map(|(line, _)| &**line).collect::<String>());
    let clear: Vec<_> = ["x.tsi", "parts.tsi"]
        .map(|table| place.good(&["search", "check", &place.path(table), "--queries", &queries, "--json"]))
        .into();
    let counts: Vec<u64> = lines(&clear[0]).iter().map(|line| line["count"].as_u64().unwrap()).collect();
    assert_eq!(counts, expected.iter().map(|(_, count)| *count).collect::<Vec<_>>());
    assert!(counts.contains(&0) && counts.iter().max() > Some(&5), "both happen");
    assert_eq!(clear[0], clear[1]);
    // a server gives the same answers, with places shown and hidden
    let server = Server::start(&["--search", &place.path("x.tsi")]);
    let asked = place.query(&server.url, &["--queries", &queries]);
    assert_eq!(String::from_utf8_lossy(&asked.stdout), clear[0], "{}", stderr(&asked));
    let few: String = expected.iter().step_by(9).map(|(line, _)| &**line).collect();
    let few = place.write("few", &few);
    let asked = place.query(&server.url, &["--queries", &few, "--least-places", "20"]);
    assert!(asked.status.success(), "{}", stderr(&asked));
    let clear = place.good(&["search", "check", &place.path("x.tsi"), "--queries", &few, "--json"]);
    assert_eq!(without_places(&String::from_utf8_lossy(&asked.stdout), 20), clear);
    // over a border
    let at = format!("X:{}", position(BORDERS[0] - 1));
    let over = ["--at", &at, "--alleles", "00"];
    let says = format!("found 1: the number changes at X:{}:A:C", position(BORDERS[0]));
    refused(&place.run(&[&["search", "check", &place.path("x.tsi")], &over[..]].concat()), 2, &says);
    refused(&place.query(&server.url, &over), 2, &says);
}

#[test]
fn a_person_is_asked_about_on_one_side_of_a_border() {
    let place = Place::new();
    let panel = place.write("x.vcf", &x(0..SITES));
    place.good(&["search", "index", &panel, "-o", &place.path("x.tsi")]);
    // the columns of sites, and the second sample
    let man = |line: &str| -> String {
        let columns: Vec<&str> = line.split('\t').collect();
        [&columns[..9], &columns[10..11]].concat().join("\t")
    };
    let rows: Vec<String> = x(0..SITES).lines().filter(|line| !line.starts_with("##")).map(man).collect();
    let file = place.write("man.vcf", &format!("##fileformat=VCFv4.3\n{}\n", rows.join("\n")));
    let ask = |from: usize, to: usize| {
        let region = format!("X:{}-{}", position(from), position(to));
        place.run(&["search", "check", &place.path("x.tsi"), "--vcf", &file, "--region", &region, "--json"])
    };
    for (from, to, haplotypes) in [(2, 7, 2), (8, 13, 1), (21, 26, 2)] {
        let done = ask(from, to);
        assert!(done.status.success(), "{}", stderr(&done));
        let found = lines(&String::from_utf8_lossy(&done.stdout));
        assert_eq!(found.len(), haplotypes, "{from}");
        assert!(found.iter().all(|line| line["count"].as_u64() >= Some(1)), "{found:?}");
    }
    refused(&ask(6, 9), 1, &format!("the number of alleles changes at X:{}", position(8)));
}

#[test]
fn a_file_without_samples_is_a_table_of_single_variants() {
    let place = Place::new();
    let sites_only = |records: &[&str]| {
        let rows: String = records.iter().map(|record| format!("{}\n", record.replace(' ', "\t"))).collect();
        format!("##fileformat=VCFv4.3\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n{rows}")
    };
    let records = ["20 100 rs1 A C . PASS AF=0.1;AC=152;AN=1520", "20 200 . g T,GA . . AC=7,0;AN=1400"];
    let file = place.write("f.vcf", &sites_only(&records));
    let (table, index) = (place.path("f.tsi"), |file: &str, table: &str, more: &[&str]| {
        place.run(&[&["search", "index", file, "-o", table, "--multiallelic", "split", "--json"], more].concat())
    });
    let made = index(&file, &table, &[]);
    let line = &lines(&String::from_utf8_lossy(&made.stdout))[0];
    let about = (&line["kind"], &line["sites"], &line["alleles"], &line["unphased"]);
    assert_eq!(about, (&json!("variants"), &json!(3), &json!(1520), &json!(0)));
    let check = |at: &str, allele: &str| {
        let found = place.good(&["search", "check", &table, "--at", at, "--alleles", allele, "--json"]);
        lines(&found)[0]["count"].as_u64().unwrap()
    };
    let asked = ["20:100", "20:200:G:T", "20:200:g:ga"].map(|at| (check(at, "1"), check(at, "0")));
    assert_eq!(asked, [(152, 1368), (7, 1393), (0, 1400)]);
    // more sites with other numbers
    let more = place.write("more.vcf", &sites_only(&["21 5 . A C . . AC=1;AN=2"]));
    assert!(index(&more, &table, &["--append"]).status.success());
    assert_eq!((check("21:5", "1"), check("21:5", "0")), (1, 1));
    // each refusal leaves the table unchanged
    let before = std::fs::read(&table).unwrap();
    for (record, says) in [
        (
            "22 9 . A C . . AN=4",
            "record 1: expected AC and AN in INFO, because the file has no samples: found no AC at 22:9",
        ),
        ("22 9 . A C . . AC=4", "found no AN at 22:9"),
    ] {
        let wrong = place.write("wrong.vcf", &sites_only(&[record]));
        refused(&index(&wrong, &table, &["--append"]), 1, says);
    }
    let none = place.write("none.vcf", &sites_only(&["22 9 . A C . . AC=0;AN=0"]));
    refused(&index(&none, &place.path("none.tsi"), &[]), 1, "no allele is called at any site (AN=0)");
    refused(&index(&file, &table, &["--require-phase"]), 1, "--require-phase needs genotypes");
    assert_eq!(std::fs::read(&table).unwrap(), before);
    // a count of two digits, with the place shown and hidden
    let many = place.write("many.vcf", &sites_only(&["20 100 . A C . . AC=2000000;AN=3000000"]));
    let large = place.path("many.tsi");
    assert!(index(&many, &large, &[]).status.success());
    let one = ["--at", "20:100", "--alleles", "1"];
    // the server also starts with the whole table arranged, whose counts are above the modulus
    let whole = Server::start(&["--search", &large, "--hidden", "1"]);
    let found = place.query(&whole.url, &[&one[..], &["--hidden", "--least-places", "1"]].concat());
    assert_eq!(lines(&String::from_utf8_lossy(&found.stdout))[0]["count"], json!(2_000_000), "{}", stderr(&found));
    let server = Server::start(&["--search", &large]);
    for how in [&[][..], &["--least-places", "1"]] {
        let found = place.query(&server.url, &[&one[..], how].concat());
        assert_eq!(lines(&String::from_utf8_lossy(&found.stdout))[0]["count"], json!(2_000_000), "{how:?}");
    }
    let panel = place.variants("panel", 4, '|');
    refused(&index(&more, &panel, &["--append"]), 1, "the table is a panel, and the file has no samples");
}
