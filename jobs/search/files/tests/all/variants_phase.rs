//! Phase sets, bases in lower case and structural variants, from VCF and from BCF alike.

use std::path::Path;
use tempfile::tempdir;
use tobari_search_files::variants::{OtherSet, PhaseSets, Selection, Summary, Variant, VariantError, VariantReader};

const WORDS: [&str; 7] = ["PASS", "END", "SVLEN", "CHR2", "GT", "PS", "PSL"];

fn head(samples: usize) -> String {
    let mut text = String::from("##fileformat=VCFv4.3\n##contig=<ID=20>\n##contig=<ID=X>\n");
    WORDS[1..4].iter().for_each(|word| text += &format!("##INFO=<ID={word}>\n"));
    WORDS[4..].iter().for_each(|word| text += &format!("##FORMAT=<ID={word}>\n"));
    text += "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT";
    (0..samples).for_each(|sample| text += &format!("\ts{sample}"));
    text + "\n"
}

/// Records as `CHROM POS REF ALT INFO FORMAT sample…`.
fn text(records: &[&str]) -> Vec<u8> {
    let samples = records[0].split(' ').count() - 6;
    let one = |record: &&str| {
        let columns: Vec<&str> = record.split(' ').collect();
        let [chromosome, position, reference, alternate, info, format] = columns[..6] else { panic!("{record}") };
        let site = format!("{chromosome}\t{position}\t.\t{reference}\t{alternate}\t.\t.\t{info}\t{format}");
        format!("{site}\t{}\n", columns[6..].join("\t"))
    };
    (head(samples) + &records.iter().map(one).collect::<String>()).into_bytes()
}

fn typed(kind: u8, count: usize, bytes: &[u8]) -> Vec<u8> {
    let head = if count < 15 { vec![(count as u8) << 4 | kind] } else { vec![0xf0 | kind, 0x11, count as u8] };
    [&head[..], bytes].concat()
}

fn word(name: &str) -> Vec<u8> {
    typed(1, 1, &[WORDS.iter().position(|word| *word == name).unwrap() as u8])
}

fn string(text: &str) -> Vec<u8> {
    typed(7, text.len(), text.as_bytes())
}

fn integers(numbers: &[i32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// The same records as BCF.
fn binary(records: &[&str]) -> Vec<u8> {
    let samples = records[0].split(' ').count() - 6;
    let head = head(samples);
    let mut out = b"BCF\x02\x02".to_vec();
    out.extend_from_slice(&(head.len() as u32 + 1).to_le_bytes());
    out.extend_from_slice(&[head.as_bytes(), &[0]].concat());
    for record in records {
        let columns: Vec<&str> = record.split(' ').collect();
        let alleles: Vec<&str> = std::iter::once(columns[2]).chain(columns[3].split(',')).collect();
        let info: Vec<&str> = columns[4].split(';').filter(|field| *field != ".").collect();
        let keys: Vec<&str> = columns[5].split(':').collect();
        let mut shared = integers(&[i32::from(columns[0] == "X"), columns[1].parse::<i32>().unwrap() - 1, 1, 0]);
        shared.extend(integers(&[(alleles.len() as i32) << 16 | info.len() as i32]));
        shared.extend(integers(&[(keys.len() as i32) << 24 | samples as i32]));
        shared.extend(string("."));
        alleles.iter().for_each(|allele| shared.extend(string(allele)));
        shared.push(0);
        for field in info {
            let (key, value) = field.split_once('=').unwrap();
            shared.extend(word(key));
            if key == "CHR2" {
                shared.extend(string(value));
                continue;
            }
            let numbers: Vec<i32> = value.split(',').map(|text| text.parse().unwrap_or(i32::MIN)).collect();
            shared.extend(typed(3, numbers.len(), &integers(&numbers)));
        }
        let mut individual = Vec::new();
        for (place, key) in keys.iter().enumerate() {
            let values = columns[6..].iter().map(|sample| sample.split(':').nth(place).unwrap_or("."));
            individual.extend(word(key));
            match *key {
                "GT" => {
                    let values: Vec<&str> = values.collect();
                    // one digit an allele; shorter genotypes end with the value for that
                    let ploidy = values.iter().map(|text| text.len().div_ceil(2)).max().unwrap();
                    let call = |text: &&str| {
                        let allele = |i: usize| {
                            let number = text.get(i..=i)?.parse::<i32>().map_or(0, |allele| (allele + 1) << 1);
                            Some(number | i32::from(i > 0 && &text[i - 1..i] == "|"))
                        };
                        (0..ploidy).map(|i| allele(2 * i).unwrap_or(i32::MIN + 1)).collect::<Vec<i32>>()
                    };
                    let all: Vec<i32> = values.iter().flat_map(call).collect();
                    individual.extend([vec![(ploidy as u8) << 4 | 3], integers(&all)].concat());
                }
                "PS" => {
                    let all: Vec<i32> = values.map(|text| text.parse().unwrap_or(i32::MIN)).collect();
                    individual.extend([vec![0x13], integers(&all)].concat());
                }
                _ => {
                    let all: String = values.collect();
                    individual.extend([vec![((all.len() / samples) as u8 * 16) | 7], all.into_bytes()].concat());
                }
            }
        }
        out.extend(integers(&[shared.len() as i32, individual.len() as i32]));
        out.extend([shared, individual].concat());
    }
    out
}

fn read_bytes(bytes: &[u8]) -> Result<(Vec<Variant>, Summary), VariantError> {
    let folder = tempdir().unwrap();
    let path = folder.path().join("input");
    std::fs::write(&path, bytes).unwrap();
    let mut reader = VariantReader::open(Path::new(&path), Selection { split: true, ..Selection::default() })?;
    let mut all = Vec::new();
    while let Some(variant) = reader.next_variant()? {
        all.push(variant);
    }
    Ok((all, *reader.summary()))
}

/// Reads records as text and as BCF, which must agree.
fn read(records: &[&str]) -> Vec<Variant> {
    let (found, summary) = read_bytes(&text(records)).unwrap();
    assert_eq!(read_bytes(&binary(records)).unwrap(), (found.clone(), summary));
    found
}

fn refused(records: &[&str]) -> String {
    let found = read_bytes(&text(records)).unwrap_err().to_string();
    let binary = read_bytes(&binary(records)).unwrap_err().to_string();
    assert_eq!(found.rsplit("input").next(), binary.rsplit("input").next());
    found
}

fn names(variants: &[Variant]) -> Vec<String> {
    variants.iter().map(|one| format!("{}:{}:{}", one.position, one.reference, one.alternate)).collect()
}

fn joined(variants: &[Variant], mut sets: PhaseSets) -> Result<(), OtherSet> {
    variants.iter().try_for_each(|variant| sets.join(variant))
}

#[test]
fn fault_19_alleles_of_two_phase_sets_are_not_joined() {
    let one = |sets: [&str; 3]| {
        let record = |(i, set): (usize, &&str)| format!("20 {} A C . GT:PS 0|1:{set} 0|0:7", 100 + i);
        let records: Vec<String> = sets.iter().enumerate().map(record).collect();
        read(&records.iter().map(String::as_str).collect::<Vec<_>>())
    };
    for sets in [["5", "5", "5"], [".", ".", "."], ["-3", "-3", "-3"]] {
        let variants = one(sets);
        assert!(variants.iter().all(|variant| variant.phased));
        assert_eq!(joined(&variants, PhaseSets::default()), Ok(()), "{sets:?}");
    }
    for (sets, position, before, found) in [
        (["5", "6", "6"], 101, Some(5), Some(6)),
        (["5", "5", "6"], 102, Some(5), Some(6)),
        (["5", ".", "5"], 101, Some(5), None),
        ([".", ".", "5"], 102, None, Some(5)),
    ] {
        let other = joined(&one(sets), PhaseSets::default()).unwrap_err();
        let (place, before) = (format!("20:{position}"), Some(before));
        assert_eq!(other, OtherSet { place, sample: 0, before, found }, "{sets:?}");
    }
    let message = joined(&one(["5", "6", "6"]), PhaseSets::default()).unwrap_err().to_string();
    assert!(message.contains("found phase set 6 after phase set 5 at 20:101 in sample 1"), "{message}");
}

#[test]
fn fault_19_phase_sets_are_of_a_sample_and_a_chromosome_and_alike_alleles_need_none() {
    let variants = read(&[
        "20 100 A C . GT:PS 0|1:5 1|0:9",
        "20 101 A C . GT:PS 1|1:6 0|0:.",
        "20 102 A C . GT:PS 1|0:5 0|1:9",
        "X 5 A C . GT:PS 0|1:6 1|0:7",
    ]);
    assert_eq!(joined(&variants, PhaseSets::default()), Ok(()));
    assert_eq!(variants[0].sets, [(0, Some(5)), (1, Some(9))]);
    assert_eq!(variants[1].sets, []);
    // after sites of another file, nobody knows how sets combine
    let after = |chromosome: &str| PhaseSets::after(chromosome.into());
    let other = joined(&variants, after("20")).unwrap_err();
    assert_eq!((other.before, other.found), (None, Some(5)));
    assert!(other.to_string().contains("after sites of another file"), "{other}");
    assert_eq!(joined(&variants, after("19")), Ok(()));
    // lists of sets count as no phase
    let listed = read(&["20 100 A C . GT:PSL 0|1:ab 1|1:cd"]);
    assert!(!listed[0].phased);
    assert!(read(&["20 100 A C . GT:PSL 0|0:ab 1|1:cd"])[0].phased, "alike alleles need none");
    let wrong = read_bytes(&text(&["20 100 A C . GT:PS 0|1:five"])).unwrap_err().to_string();
    assert!(wrong.contains("record 1: expected a number in PS, found \"five\""), "{wrong}");
}

#[test]
fn fault_19_no_set_is_joined_to_sites_of_another_file_named_or_not() {
    let after = |chromosome: &str| PhaseSets::after(chromosome.into());
    let unnamed = read(&["20 100 A C . GT 0|0", "20 101 A C . GT 0|1", "20 102 A C . GT 1|0"]);
    let other = joined(&unnamed, after("20")).unwrap_err();
    assert_eq!(other, OtherSet { place: "20:101".to_owned(), sample: 0, before: None, found: None });
    let message = other.to_string();
    assert!(message.contains("found no phase set after sites of another file at 20:101 in sample 1"), "{message}");
    assert_eq!(joined(&unnamed, after("X")), Ok(()), "a new chromosome");
    assert_eq!(joined(&unnamed, PhaseSets::default()), Ok(()), "of one phasing, as somebody said");
    let alike = read(&["20 100 A C . GT:PS 1|1:5", "20 101 A C . GT:PS 0/0:.", "20 102 A C . GT:PS 1|1:6"]);
    assert_eq!(joined(&alike, after("20")), Ok(()), "alike alleles need no set");
}

#[test]
fn fault_19_insertions_of_one_length_are_not_taken_for_one() {
    for allele in ["<INS>", "<INS:ME:ALU>"] {
        let record = |call: &str| format!("20 100 A {allele} END=100;SVLEN=300 GT {call}");
        let (first, second) = (record("0|1"), record("1|0"));
        let message = refused(&[first.as_str(), second.as_str()]);
        let what = "record 2: expected insertions of one position in bases, or of different lengths (SVLEN)";
        assert!(message.contains(&format!("{what}, found two {allele}+300 at 20:100")), "{message}");
        assert!(message.contains("-v snps,indels"), "{message}");
    }
    let kinds = read(&["20 100 A <INS> SVLEN=300 GT 0|1", "20 100 A <INS:ME:ALU> SVLEN=300 GT 1|0"]);
    assert_eq!(names(&kinds), ["100:A:<INS>+300", "100:A:<INS:ME:ALU>+300"]);
    let bases = read(&["20 100 A ATTG . GT 0|1", "20 100 A ACCG . GT 1|0"]);
    assert_eq!(names(&bases), ["100:A:ATTG", "100:A:ACCG"]);
}

#[test]
fn fault_19_bases_in_lower_case_are_the_same_bases() {
    let variants = read(&["20 100 acg aN . GT 0|1", "20 101 a C,g . GT 1|2", "20 102 A ]chrx:5]a . GT 0|1"]);
    assert_eq!(names(&variants), ["100:ACG:AN", "101:A:C", "101:A:G", "102:A:]chrx:5]A"]);
    let (variants, summary) = read_bytes(&text(&["20 100 a c . GT 0|1", "20 100 A C . GT 1|1"])).unwrap();
    assert_eq!((names(&variants), summary.duplicate), (vec!["100:A:C".to_owned()], 1));
}

#[test]
fn fault_19_structural_variants_that_reach_farther_are_others() {
    let variants = read(&[
        "20 100 A <DEL> END=200 GT 0|1",
        "20 100 A <DEL> END=300 GT 1|1",
        "20 100 A <DEL> SVLEN=-500 GT 1|0",
        "20 100 A <INS> END=100;SVLEN=30 GT 1|0",
        "20 100 A <INS> END=100;SVLEN=31 GT 1|0",
        "20 101 a <DEL>,<DUP:TANDEM> END=601;SVLEN=-100,500 GT 1|2",
        "20 102 A <CN0>,<CN2> END=700 GT 1|2",
        "20 103 A <TRA> CHR2=X;END=9 GT 0|1",
        "20 104 A <inv> END=9 GT 0|1",
        "20 105 A C END=200 GT 0|1",
        "20 106 A <DEL> . GT 0|1",
    ]);
    let expected = [
        "100:A:<DEL>@200",
        "100:A:<DEL>@300",
        "100:A:<DEL>@600",
        "100:A:<INS>+30",
        "100:A:<INS>+31",
        "101:A:<DEL>@201",
        "101:A:<DUP:TANDEM>@601",
        "102:A:<CN0>@700",
        "102:A:<CN2>@700",
        "103:A:<TRA>@X@9",
        "104:A:<inv>@9",
        "105:A:C",
        "106:A:<DEL>",
    ];
    assert_eq!(names(&variants), expected);
    assert_eq!(variants[0].alleles, [false, true]);
    // the same variant again is left out; two variants that nothing distinguishes are an error
    let (variants, summary) = read_bytes(&text(&["20 1 A <DEL> END=20 GT 0|1", "20 1 A <DEL> END=20 GT 0|0"])).unwrap();
    assert_eq!((variants.len(), summary.duplicate), (1, 1));
    let message = refused(&["20 1 A <DEL> . GT 0|1", "20 1 A <DEL> . GT 0|0"]);
    assert!(message.contains("record 2: expected END or SVLEN") && message.contains("-v snps,indels"), "{message}");
    let wrong = read_bytes(&text(&["20 1 A <DEL> END=far GT 0|1"])).unwrap_err().to_string();
    assert!(wrong.contains("record 1: expected a number in END, found \"far\""), "{wrong}");
}

/// A genotype of three alleles in a sample or region that nobody asked for ends no reading, in BCF
/// as in text.
#[test]
fn genotypes_of_three_alleles_matter_in_chosen_samples_of_wanted_records_in_bcf_too() {
    let records = ["20 100 A C . GT 0|1 1|0|1", "20 200 A C . GT 1|1 0|1", "X 5 A C . GT 0|1|1 1|0"];
    let read = |bytes: &[u8], samples: &[&str], region: &str| {
        let folder = tempdir().unwrap();
        let path = folder.path().join("input");
        std::fs::write(&path, bytes).unwrap();
        let samples = Some(samples.iter().map(|sample| (*sample).to_owned()).collect());
        let mut selection = Selection { samples, ..Selection::default() };
        selection.regions.add(region).unwrap();
        let mut reader = VariantReader::open(&path, selection)?;
        let mut all = Vec::new();
        while let Some(variant) = reader.next_variant()? {
            all.push((variant.position, variant.alleles.clone()));
        }
        Ok::<_, VariantError>(all)
    };
    for bytes in [text(&records), binary(&records)] {
        let one = read(&bytes, &["s0"], "20:1-300").unwrap();
        assert_eq!(one, [(100, vec![false, true]), (200, vec![true, true])]);
        let both = read(&bytes, &["s0", "s1"], "20:150-300").unwrap();
        assert_eq!(both, [(200, vec![true, true, false, true])]);
        let refused = read(&bytes, &["s0", "s1"], "20:1-300").unwrap_err().to_string();
        assert!(refused.contains("expected genotypes of one or two alleles, found more in sample s1"), "{refused}");
    }
}
