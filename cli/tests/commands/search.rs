//! `tobari search`: tables from files, and plain answers compared with a count haplotype by
//! haplotype.

use crate::support::genome;
use crate::support::{stderr, tobari};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tempfile::{TempDir, tempdir};
use tobari_host::testing::data;
use tobari_search::simulated::{self, Numbers};
use tobari_search_files::variants::{Selection, VariantReader};

fn write(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The JSON lines of a command that must succeed.
fn lines(args: &[&str]) -> Vec<Value> {
    let done = tobari(&[&["search"], args, &["--json"]].concat());
    assert!(done.status.success(), "{args:?}: {}", stderr(&done));
    String::from_utf8(done.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The message of a command that must fail with this exit status.
fn refused(args: &[&str], status: i32) -> String {
    let done = tobari(&[&["search"], args].concat());
    assert_eq!(done.status.code(), Some(status), "{args:?}: {}", stderr(&done));
    assert!(done.stdout.is_empty(), "{args:?}");
    stderr(&done)
}

/// A question. Its methods count the haplotypes that have its pattern, and the most leading alleles
/// that one haplotype shares with it.
struct Case {
    start: usize,
    alleles: Vec<bool>,
}

impl Case {
    fn count(&self, columns: &[Vec<bool>]) -> usize {
        let has = |haplotype: &usize| {
            self.alleles.iter().zip(&columns[self.start..]).all(|(a, column)| *a == column[*haplotype])
        };
        (0..columns[0].len()).filter(has).count()
    }

    fn longest(&self, columns: &[Vec<bool>]) -> usize {
        let shared = |haplotype: usize| {
            let same = |(a, column): &(&bool, &Vec<bool>)| **a == column[haplotype];
            self.alleles.iter().zip(&columns[self.start..]).take_while(same).count()
        };
        (0..columns[0].len()).map(shared).max().unwrap()
    }
}

/// Patterns that occur, such patterns with one changed site (the first, the last, or any), patterns
/// joined from two haplotypes, and random ones.
fn cases(columns: &[Vec<bool>], count: usize, seed: u64) -> Vec<Case> {
    let mut numbers = Numbers::new(seed);
    let case = |number: usize| {
        let length = [1, 2, 5, 10, 16, 100, 128, 1 + numbers.below(128)][numbers.below(8)].min(columns.len());
        let start = numbers.below(columns.len() - length + 1);
        let [one, other] = [0, 1].map(|_| numbers.below(columns[0].len()));
        let joint = numbers.below(length);
        let mut alleles: Vec<bool> =
            (0..length).map(|i| columns[start + i][if number % 5 == 3 && i > joint { other } else { one }]).collect();
        match number % 5 {
            1 => alleles[[0, length - 1][numbers.below(2)]] ^= true,
            2 => alleles[joint] ^= true,
            4 => alleles.iter_mut().for_each(|allele| *allele = numbers.below(2) == 1),
            _ => {}
        }
        Case { start, alleles }
    };
    (0..count).map(case).collect()
}

/// Asks a table all questions in one process, in both ways, and compares.
fn compare(table: &Path, columns: &[Vec<bool>], names: &[String], cases: &[Case], folder: &TempDir) {
    let mut asked = String::new();
    for case in cases {
        let alleles: String = case.alleles.iter().map(|allele| if *allele { '1' } else { '0' }).collect();
        writeln!(asked, "{}\t{alleles}", names[case.start]).unwrap();
    }
    let file = write(folder, "questions.tsv", asked);
    let counts = lines(&["check", text(table), "--queries", text(&file)]);
    assert_eq!(counts.len(), cases.len());
    let (mut there, mut absent) = (0, 0);
    for (case, line) in cases.iter().zip(&counts) {
        let count = case.count(columns);
        assert_eq!(*line, json!({ "match": count > 0, "count": count }), "site {} {:?}", case.start, case.alleles);
        if count > 0 { there += 1 } else { absent += 1 }
    }
    assert!(there > cases.len() / 5 && absent > cases.len() / 5, "{there} occur, {absent} do not");
    let longest = lines(&["check", text(table), "--queries", text(&file), "--longest"]);
    for (case, line) in cases.iter().zip(&longest).step_by(10) {
        let longest = case.longest(columns);
        assert_eq!(*line, json!({ "match": longest == case.alleles.len(), "longest": longest }));
    }
}

#[test]
fn a_simulated_panel_is_indexed_and_ten_thousand_answers_are_those_of_counting() {
    let folder = tempdir().unwrap();
    let columns = simulated::columns(1_000, 500, 1);
    let patterns: Vec<usize> = (0..49)
        .map(|window| {
            let of = |haplotype: usize| (0..10).map(|i| columns[window * 10 + i][haplotype]).collect::<Vec<_>>();
            (0..1_000).map(of).collect::<BTreeSet<_>>().len()
        })
        .collect();
    let mean = patterns.iter().sum::<usize>() as f64 / 49.0;
    assert!((4.0..40.0).contains(&mean), "windows of ten sites hold as few patterns as in people: {mean}");
    let (input, output) = (write(&folder, "a.vcf", genome::vcf(&columns, 0)), folder.path().join("a.tsi"));
    let line = lines(&["index", text(&input), "-o", text(&output), "--label", "a panel"]).remove(0);
    assert_eq!((&line["kind"], &line["sites"], &line["haplotypes"]), (&json!("panel"), &json!(500), &json!(1_000)));
    assert_eq!((&line["kept"], &line["revision"], &line["duplicate"]), (&json!(500), &json!(1), &json!(0)));
    let name = |site| format!("chr20:{}:A:{}", genome::position(site), genome::alternate(site));
    let names: Vec<String> = (0..500).map(name).collect();
    compare(&output, &columns, &names, &cases(&columns, 10_000, 2), &folder);
}

#[test]
fn the_real_panel_gives_the_answers_of_counting_from_vcf_and_from_bcf() {
    let test = "the_real_panel_gives_the_answers_of_counting_from_vcf_and_from_bcf";
    let file = |kind: &str| data(test, &format!("genome/1000g-chr20-1-4Mb-600hap.{kind}"));
    let (Some(compressed), Some(binary)) = (file("vcf.gz"), file("bcf")) else { return };
    let folder = tempdir().unwrap();
    let output = folder.path().join("a.tsi");
    let line = lines(&["index", text(&binary), "-o", text(&output)]).remove(0);
    assert_eq!((&line["sites"], &line["haplotypes"], &line["kind"]), (&json!(24_990), &json!(600), &json!("panel")));
    let mut reader = VariantReader::open(&compressed, Selection::default()).unwrap();
    let (mut columns, mut names) = (Vec::new(), Vec::new());
    while let Some(variant) = reader.next_variant().unwrap() {
        names.push(format!("{}:{}:{}:{}", variant.chromosome, variant.position, variant.reference, variant.alternate));
        columns.push(variant.alleles);
    }
    compare(&output, &columns, &names, &cases(&columns, 10_000, 3), &folder);
    let common = lines(&["index", text(&compressed), "-o", text(&output), "-i", "MAF>=0.01", "-v", "snps"]).remove(0);
    let ones = |column: &Vec<bool>| column.iter().filter(|allele| **allele).count();
    let is = |(column, name): &(&Vec<bool>, &String)| {
        (6..=594).contains(&ones(column)) && name.rsplitn(3, ':').take(2).all(|allele| allele.len() == 1)
    };
    assert_eq!(common["kept"], columns.iter().zip(&names).filter(is).count());
}

#[test]
fn sites_added_later_give_the_answers_of_all_at_once_under_the_same_name() {
    let folder = tempdir().unwrap();
    let columns = simulated::columns(200, 90, 4);
    let output = folder.path().join("a.tsi");
    let parts = [(0, 40), (40, 41), (41, 90)];
    let mut made: Vec<Value> = Vec::new();
    for (from, to) in parts {
        let input = write(&folder, "a.vcf", genome::vcf(&columns[from..to], from));
        let more: &[&str] = if from == 0 { &["--min-count", "3"] } else { &["--append", "--same-phasing"] };
        made.push(lines(&[&["index", text(&input), "-o", text(&output)], more].concat()).remove(0));
    }
    assert!(made.iter().all(|line| line["table"] == made[0]["table"] && line["min_count"] == 3));
    assert_eq!(made.iter().map(|line| &line["revision"]).collect::<Vec<_>>(), [1, 2, 3]);
    for case in cases(&columns, 40, 5) {
        let alleles: String = case.alleles.iter().map(|allele| if *allele { '1' } else { '0' }).collect();
        let at = format!("chr20:{}:A:{}", genome::position(case.start), genome::alternate(case.start));
        let count = if case.count(&columns) < 3 { 0 } else { case.count(&columns) };
        let answer = lines(&["check", text(&output), "--at", &at, "--alleles", &alleles]);
        assert_eq!(answer, [json!({ "match": count > 0, "count": count })]);
    }
    let before = std::fs::read(&output).unwrap();
    let again = write(&folder, "a.vcf", genome::vcf(&columns[80..], 80));
    let append = |input: &Path| refused(&["index", text(input), "-o", text(&output), "--append", "--same-phasing"], 1);
    let message = append(&again);
    assert!(message.contains("record 1: expected sites in the order"), "{message}");
    let fewer = write(&folder, "a.vcf", genome::vcf(&simulated::columns(198, 5, 4), 200));
    let message = append(&fewer);
    assert!(message.contains("expected 200 alleles") && message.contains("found 198"), "{message}");
    assert!(std::fs::read(&output).unwrap() == before, "a failed addition changes nothing");
}

#[test]
fn a_position_of_two_variants_wants_the_alleles_and_a_list_of_variants_wants_neighbours() {
    let folder = tempdir().unwrap();
    let columns = simulated::columns(50, 30, 6);
    let (input, output) = (write(&folder, "a.vcf", genome::vcf(&columns, 0)), folder.path().join("a.tsi"));
    lines(&["index", text(&input), "-o", text(&output)]);
    let check = |more: &[&str]| {
        [&["check", text(&output)], more].concat().iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>()
    };
    let refused = |more: &[&str], status| refused(&check(more).iter().map(String::as_str).collect::<Vec<_>>(), status);
    let position = genome::position(9);
    let message = refused(&["--at", &format!("chr20:{position}"), "--alleles", "0"], 2);
    assert!(message.contains(&format!("chr20:{position}:A:C, chr20:{position}:A:AG")), "{message}");
    let list = format!("chr20:{position}:A:C=1,chr20:{position}:A:AG=0,chr20:{}=1", genome::position(10));
    let case = Case { start: 8, alleles: vec![true, false, true] };
    let answer = lines(&["check", text(&output), "--variants", &list]);
    assert_eq!(answer, [json!({ "match": case.count(&columns) > 0, "count": case.count(&columns) })]);
    let message = refused(&["--variants", &format!("chr20:{position}:A:C=1,chr20:{}=1", genome::position(10))], 2);
    assert!(message.contains("expected chr20") && message.contains(":A:AG"), "{message}");
    for (wrong, says) in [
        (&["--at", "chr20:999", "--alleles", "0"][..], "near are chr20:1000:A:C"),
        (&["--at", "20:1000", "--alleles", "0"], "among chr20"),
        (&["--at", "chr20:1000", "--alleles", "012"], "alleles are digits 0"),
        (&["--at", "chr20:1000", "--alleles", &"0".repeat(31)], "31 sites of one chromosome"),
        (&["--at", "chr20:1000", "--alleles", &"0".repeat(129)], "1 to 128"),
        (&["--at", "chr20", "--alleles", "0"], "expected a site as"),
        (&["--at", "chr20:1000"], "--alleles"),
        (&[], "--at"),
        (&["--key-value", "x", "--at", "chr20:1000", "--alleles", "0"], "cannot be used"),
    ] {
        let message = refused(wrong, 2);
        assert!(message.contains(says), "{wrong:?}: {message}");
    }
    let message = refused(&["--key-value", "x"], 1);
    assert!(message.contains("alleles at sites"), "{message}");
}

#[test]
fn the_haplotypes_of_a_sample_are_questions() {
    let folder = tempdir().unwrap();
    let columns = simulated::columns(60, 40, 7);
    let (input, output) = (write(&folder, "a.vcf", genome::vcf(&columns, 0)), folder.path().join("a.tsi"));
    lines(&["index", text(&input), "-o", text(&output)]);
    let sample: Vec<Vec<bool>> = columns.iter().map(|column| column[4..6].to_vec()).collect();
    let of = |content: String| {
        let path = write(&folder, "one.vcf", content);
        path.to_str().unwrap().to_owned()
    };
    let region = format!("chr20:{}-{}", genome::position(5), genome::position(24));
    let args = |vcf: &str| ["check", text(&output), "--vcf", vcf, "--region", &region].map(str::to_owned);
    let found = lines(&args(&of(genome::vcf(&sample, 0))).each_ref().map(String::as_str));
    let expected = [0, 1].map(|haplotype| {
        let alleles = sample[5..25].iter().map(|column| column[haplotype]).collect();
        let count = Case { start: 5, alleles }.count(&columns);
        json!({ "match": true, "count": count })
    });
    assert_eq!(found, expected);
    let refused = |content: String| refused(&args(&of(content)).each_ref().map(String::as_str), 1);
    let site = sample.iter().skip(6).position(|column| column[0] != column[1]).map(|site| site + 6);
    if let Some(site) = site.filter(|site| *site < 25) {
        let whole = genome::vcf(&sample, 0);
        let start = whole.find(&format!("\t{}\t", genome::position(site))).unwrap();
        let unphased = format!("{}{}", &whole[..start], whole[start..].replacen('|', "/", 1));
        assert!(refused(unphased).contains("is not phased"));
    }
    assert!(refused(genome::vcf(&sample[..20], 0)).contains("has no genotype at chr20"));
    // a person's file often leaves out the sites with the reference allele
    let whole = genome::vcf(&sample, 0);
    let bare: String = whole.lines().filter(|line| !line.ends_with("0|0")).map(|line| format!("{line}\n")).collect();
    assert!(bare.len() < whole.len() && refused(bare.clone()).contains("--absent ref"));
    let bare = args(&of(bare));
    let bare: Vec<&str> = bare.iter().map(String::as_str).chain(["--absent", "ref"]).collect();
    assert_eq!(lines(&bare), expected);
    assert!(refused(genome::vcf(&columns, 0)).contains("has 30 samples, and a question takes one"));
}

#[test]
fn genotypes_without_phase_are_single_variants_and_a_haplotype_is_refused() {
    let folder = tempdir().unwrap();
    let columns = simulated::columns(60, 20, 8);
    let unphased = genome::vcf(&columns, 0).replace("0|1", "0/1").replace("1|0", "0/1");
    let (input, output) = (write(&folder, "a.vcf", &unphased), folder.path().join("a.tsi"));
    let message = refused(&["index", text(&input), "-o", text(&output), "--require-phase"], 1);
    assert!(message.contains("a genotype is not phased"), "{message}");
    assert!(!output.exists(), "nothing is written where the work failed");
    let line = lines(&["index", text(&input), "-o", text(&output)]).remove(0);
    assert_eq!((&line["kind"], &line["sites"], &line["alleles"]), (&json!("variants"), &json!(20), &json!(60)));
    assert!(line["unphased"].as_u64() > Some(0));
    for (site, column) in columns.iter().enumerate() {
        let ones = column.iter().filter(|allele| **allele).count();
        let at = format!("chr20:{}:A:{}", genome::position(site), genome::alternate(site));
        for (allele, count) in [("1", ones), ("0", 60 - ones)] {
            let answer = lines(&["check", text(&output), "--at", &at, "--alleles", allele]);
            assert_eq!(answer, [json!({ "match": count > 0, "count": count })]);
        }
    }
    let message = refused(&["check", text(&output), "--at", "chr20:1000", "--alleles", "01"], 1);
    assert!(message.contains("no phase") && message.contains("found 2 sites"), "{message}");
}

#[test]
fn any_keys_are_a_table_exact_while_they_are_short_and_by_fingerprints_beyond() {
    let folder = tempdir().unwrap();
    for (length, exact) in [(4, true), (9, true), (30, false)] {
        let key = |i: usize| format!("{i:0length$}");
        let content: String = (0..3_000).map(|i| format!("{}\t{}\n", key(i % 1_000), i / 1_000 + 1)).collect();
        let (input, output) = (write(&folder, "a.tsv", format!("key\tn\n{content}")), folder.path().join("a.tsi"));
        let line = lines(&["index", text(&input), "--table", "--header", "-o", text(&output)]).remove(0);
        assert_eq!((&line["kind"], &line["keys"], &line["exact"]), (&json!("keys"), &json!(1_000), &json!(exact)));
        assert_eq!(line["false_positive_log2"].as_f64().is_some_and(|bits| bits < -40.0), !exact);
        let asked: String = (0..2_000).map(|i| key(i) + "\n").collect();
        let file = write(&folder, "q", asked);
        let answers = lines(&["check", text(&output), "--queries", text(&file)]);
        for (i, answer) in answers.iter().enumerate() {
            let count = if i < 1_000 { 6 } else { 0 };
            assert_eq!(*answer, json!({ "match": count > 0, "count": count }), "{i}");
        }
        assert_eq!(lines(&["check", text(&output), "--key-value", &key(7)]), [json!({ "match": true, "count": 6 })]);
        assert!(
            refused(&["check", text(&output), "--at", "chr20:5", "--alleles", "0"], 2)
                .contains("the table is one of keys")
        );
    }
    // lines of HASH:COUNT without --separator are probably a mistake
    let output = folder.path().join("hashes.tsi");
    let hashes = write(&folder, "hashes", "\u{feff}AB12:3\nCD34:7\n");
    let index = ["search", "index", text(&hashes), "--table", "-o", text(&output)];
    let done = tobari(&index);
    assert!(done.status.success() && stderr(&done).contains("index again with --separator ':'"), "{}", stderr(&done));
    let done = tobari(&[&index[..], &["--separator", ":"]].concat());
    assert!(done.status.success() && !stderr(&done).contains("--separator"), "{}", stderr(&done));
    assert_eq!(lines(&["check", text(&output), "--key-value", "AB12"]), [json!({ "match": true, "count": 3 })]);
    // a colon in one key of many is a key like any other
    let mixed = write(&folder, "mixed", "AB12:3\nCD34\nEF56\n");
    let done = tobari(&["search", "index", text(&mixed), "--table", "-o", text(&folder.path().join("mixed.tsi"))]);
    assert!(done.status.success() && !stderr(&done).contains("--separator"), "{}", stderr(&done));
    let output = folder.path().join("b.tsi");
    for (content, says) in [
        ("a\t1\nb\t4294967296\n", "line 2: expected a count of 1 to 4294967295"),
        ("a\t1\nb\t0\n", "line 2: expected a count"),
        ("a\t4294967295\nb\t1\na\t1\n", "entry 3"),
        ("a\n\n", "line 2: expected a key"),
        ("", "found 0"),
    ] {
        let input = write(&folder, "b.tsv", content);
        let message = refused(&["index", text(&input), "--table", "-o", text(&output)], 1);
        assert!(message.contains(says) && message.contains("b.tsv"), "{message}");
        assert!(!output.exists());
    }
}

#[test]
fn wrong_calls_and_damaged_files_are_refused_and_leave_no_output() {
    let folder = tempdir().unwrap();
    let columns = simulated::columns(20, 10, 9);
    let vcf = genome::vcf(&columns, 0);
    let (input, output) = (write(&folder, "a.vcf", &vcf), folder.path().join("a.tsi"));
    for (more, status, says) in [
        (&["-i", "DP>3"][..], 2, "MAF, AF, AC, AN and TYPE"),
        (&["-r", "chr20:9-8"], 2, "expected a region"),
        (&["-v", "svs"], 2, "expected snps"),
        (&["-s", "nobody"], 1, "the sample nobody"),
        (
            &["-r", "chr21"],
            1,
            "no variant is left to keep; change the filters: 10 records, 0 variants kept, 10 outside the regions",
        ),
        (&["--append"], 1, "a.tsi"),
        (&["--min-count", "0"], 2, "min-count"),
    ] {
        let message = refused(&[&["index", text(&input), "-o", text(&output)], more].concat(), status);
        assert!(message.contains(says), "{more:?}: {message}");
    }
    let cut = write(&folder, "cut.vcf", &vcf[..vcf.len() - 30]);
    assert!(refused(&["index", text(&cut), "-o", text(&output)], 1).contains("cut.vcf, record 10"));
    assert!(!output.exists());
    lines(&["index", text(&input), "-o", text(&output)]);
    let mut bytes = std::fs::read(&output).unwrap();
    bytes[100] ^= 1;
    let damaged = write(&folder, "damaged.tsi", bytes);
    let message = refused(&["check", text(&damaged), "--at", "chr20:1000", "--alleles", "0"], 1);
    assert!(message.contains("damaged.tsi: damaged table"), "{message}");
    let message = refused(&["check", text(&input), "--at", "chr20:1000", "--alleles", "0"], 1);
    assert!(message.contains("expected table for searches"), "{message}");
}
