//! Variants from files: every rule with its own file, the formats against one another, and
//! malformed files.

use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::{TempDir, tempdir};
use tobari_host::testing::data;
use tobari_search_files::variants::{Selection, Summary, Variant, VariantError, VariantReader};

const HEAD: &str = "##fileformat=VCFv4.2\n##FILTER=<ID=PASS,Description=\"All, passed\">\n##contig=<ID=20>\n##contig=<ID=X>\n\
    ##INFO=<ID=AC,Number=A,Type=Integer,Description=\"x\">\n##FORMAT=<ID=DP,Number=1,Type=Integer,Description=\"a,b\">\n\
    ##FORMAT=<ID=GT,Number=1,Type=String,Description=\"Genotype\">\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT";

/// A file of samples s0, s1, …: records as `CHROM POS ID REF ALT GT GT …`.
fn text(records: &[&str]) -> String {
    let samples = records.iter().map(|record| record.split(' ').count() - 5).max().unwrap_or(1);
    let mut text = HEAD.to_owned();
    (0..samples).for_each(|i| text += &format!("\ts{i}"));
    text += "\n";
    for record in records {
        let columns: Vec<&str> = record.split(' ').collect();
        text += &format!("{}\t.\tPASS\tAC=1\tGT:DP\t", columns[..5].join("\t"));
        let calls: Vec<String> = columns[5..].iter().map(|call| format!("{call}:7")).collect();
        text += &format!("{}\n", calls.join("\t"));
    }
    text
}

fn typed(values: &[i32], width: usize, kind: u8) -> Vec<u8> {
    let head = if values.len() < 15 {
        vec![(values.len() as u8) << 4 | kind]
    } else {
        vec![0xf0 | kind, 0x11, values.len() as u8]
    };
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()[..width].to_vec());
    head.into_iter().chain(bytes).collect()
}

fn typed_text(text: &str) -> Vec<u8> {
    typed(&text.bytes().map(i32::from).collect::<Vec<_>>(), 1, 7)
}

/// The same records as BCF, with integer genotypes of a width, and another field before them.
fn binary(records: &[&str], width: usize) -> Vec<u8> {
    let head = text(records);
    let head = &head[..head.find("FORMAT\ts").map_or(0, |i| i + head[i..].find('\n').unwrap() + 1)];
    let mut out = b"BCF\x02\x02".to_vec();
    out.extend_from_slice(&(head.len() as u32 + 1).to_le_bytes());
    out.extend_from_slice(head.as_bytes());
    out.push(0);
    for record in records {
        let columns: Vec<&str> = record.split(' ').collect();
        let alleles: Vec<&str> =
            std::iter::once(columns[3]).chain(columns[4].split(',').filter(|alt| *alt != ".")).collect();
        let mut shared = i32::from(columns[0] == "X").to_le_bytes().to_vec();
        shared.extend_from_slice(&(columns[1].parse::<i32>().unwrap() - 1).to_le_bytes());
        shared.extend_from_slice(&[1, 0, 0, 0, 1, 0, 0x80, 0x7f]);
        shared.extend_from_slice(&((alleles.len() as u32) << 16).to_le_bytes());
        shared.extend_from_slice(&(2 << 24 | (columns.len() as u32 - 5)).to_le_bytes());
        shared.extend(typed_text(columns[2]));
        alleles.iter().for_each(|allele| shared.extend(typed_text(allele)));
        shared.push(0);
        // DP is string 2 and GT string 3, because PASS is 0 and AC is 1
        let samples = columns.len() - 5;
        let mut individual = [typed(&[2], 1, 1), vec![0x11], vec![7; samples]].concat();
        let kind = [0, 1, 2, 0, 3][width];
        individual.extend([typed(&[3], 1, 1), vec![0x20 | kind]].concat());
        let smallest = i32::MIN >> (32 - 8 * width);
        for call in &columns[5..] {
            let mut values: Vec<i32> = Vec::new();
            for part in call.split_inclusive(['|', '/']) {
                let allele = part.trim_end_matches(['|', '/']);
                let phased = call.contains('|') && !values.is_empty();
                values.push(allele.parse::<i32>().map_or(0, |allele| (allele + 1) << 1) | i32::from(phased));
            }
            values.resize(2, smallest + 1);
            values.iter().for_each(|value| individual.extend_from_slice(&value.to_le_bytes()[..width]));
        }
        out.extend_from_slice(&(shared.len() as u32).to_le_bytes());
        out.extend_from_slice(&(individual.len() as u32).to_le_bytes());
        out.extend(shared);
        out.extend(individual);
    }
    out
}

/// Blocks of BGZF of at most so many bytes, and the last, empty block.
fn blocks(bytes: &[u8], most: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in bytes.chunks(most).chain([&[][..]]) {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(chunk).unwrap();
        let data = if chunk.is_empty() { vec![3, 0] } else { encoder.finish().unwrap() };
        let mut sum = flate2::Crc::new();
        sum.update(chunk);
        out.extend_from_slice(b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x06\0BC\x02\0");
        out.extend_from_slice(&(data.len() as u16 + 25).to_le_bytes());
        out.extend(data);
        out.extend_from_slice(&sum.sum().to_le_bytes());
        out.extend_from_slice(&(chunk.len() as u32).to_le_bytes());
    }
    out
}

fn write(folder: &TempDir, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join("input");
    std::fs::write(&path, bytes).unwrap();
    path
}

fn read_path(path: &Path, selection: &Selection) -> Result<(Vec<Variant>, Summary), VariantError> {
    let mut reader = VariantReader::open(path, selection.clone())?;
    let mut all = Vec::new();
    while let Some(variant) = reader.next_variant()? {
        all.push(variant);
    }
    Ok((all, *reader.summary()))
}

fn read_bytes(bytes: &[u8], selection: &Selection) -> Result<(Vec<Variant>, Summary), VariantError> {
    let folder = tempdir().unwrap();
    read_path(&write(&folder, bytes), selection)
}

/// Reads records as text and as BCF, which must agree.
fn read(records: &[&str], selection: &Selection) -> (Vec<Variant>, Summary) {
    let found = read_bytes(text(records).as_bytes(), selection).unwrap();
    for width in [1, 2, 4] {
        assert_eq!(read_bytes(&binary(records, width), selection).unwrap(), found, "BCF, {width} bytes");
    }
    found
}

fn refused(records: &[&str], selection: &Selection) -> String {
    let found = read_bytes(text(records).as_bytes(), selection).unwrap_err().to_string();
    let binary = read_bytes(&binary(records, 1), selection).unwrap_err().to_string();
    assert_eq!(found.rsplit("input").next(), binary.rsplit("input").next());
    found
}

/// `chromosome:position:reference:alternate=alleles`, with `/` behind it if it is not phased.
fn shown(variants: &[Variant]) -> Vec<String> {
    let one = |variant: &Variant| {
        let Variant { chromosome, position, reference, alternate, alleles, phased, .. } = variant;
        let alleles: String = alleles.iter().map(|allele| if *allele { '1' } else { '0' }).collect();
        format!("{chromosome}:{position}:{reference}:{alternate}={alleles}{}", if *phased { "" } else { "/" })
    };
    variants.iter().map(one).collect()
}

const RECORDS: [&str; 9] = [
    "20 100 rs1 A C 0|1 1|0 0|0",
    "20 110 . A C,G 0|1 2|1 0|0",
    "20 120 . AT A 1|1 ./. 0|0",
    "20 130 . G T 0/0 1/1 1|0",
    "20 140 . G T 0/1 0|0 0|0",
    "20 140 . G T 1|1 1|1 1|1",
    "20 140 . G C 1|1 1|1 .|1",
    "20 150 . G . 0|0 0|0 0|0",
    "X 5 rs2 G <DEL> 0|0 0|0 0|1",
];

#[test]
fn the_header_of_vcf_and_bcf_tells_the_assembly() {
    let records = ["20 5 . A C 0|1"];
    let told = "##reference=file:///refs/hs37d5.fa\n##contig=<ID=20,length=63025520,assembly=b37>";
    let folder = tempdir().unwrap();
    let resolved = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        VariantReader::open(&path, Selection::default()).unwrap().assembly().resolve(None)
    };
    for (contig, expected) in [("##contig=<ID=20>", None), (told, Some("GRCh37"))] {
        let expected = Ok(expected.map(str::to_owned));
        let vcf = text(&records).replace("##contig=<ID=20>", contig);
        assert_eq!(resolved("a.vcf", vcf.as_bytes()), expected);
        let plain = binary(&records, 1);
        let head = u32::from_le_bytes(plain[5..9].try_into().unwrap()) as usize;
        let header = std::str::from_utf8(&plain[9..9 + head]).unwrap().replace("##contig=<ID=20>", contig);
        let length = (header.len() as u32).to_le_bytes();
        assert_eq!(
            resolved("a.bcf", &[&plain[..5], &length, header.as_bytes(), &plain[9 + head..]].concat()),
            expected
        );
    }
}

#[test]
fn by_default_what_is_not_two_called_alleles_is_left_out_and_counted() {
    let (variants, summary) = read(&RECORDS, &Selection::default());
    let expected = ["20:100:A:C=011000", "20:130:G:T=001110", "20:140:G:T=010000/", "X:5:G:<DEL>=000001"];
    assert_eq!(shown(&variants), expected);
    assert_eq!(variants[0].id.as_deref(), Some("rs1"));
    let expected = Summary {
        records: 9,
        kept: 4,
        unphased: 1,
        multiallelic: 1,
        missing: 2,
        monomorphic: 1,
        duplicate: 1,
        ..Summary::default()
    };
    assert_eq!(summary, expected);
}

#[test]
fn genotypes_of_three_alleles_matter_in_chosen_samples_of_wanted_records_only() {
    let records = ["20 100 . A C 0|1 1|0|1", "20 200 . A C 1|1 0|1", "X 5 . A C 0|1/1 1|0"];
    let chosen = |samples: &[&str], region: &str| {
        let samples = Some(samples.iter().map(|sample| (*sample).to_owned()).collect());
        let mut selection = Selection { samples, ..Selection::default() };
        selection.regions.add(region).unwrap();
        selection
    };
    let found = |selection: &Selection| read_bytes(text(&records).as_bytes(), selection);
    assert_eq!(shown(&found(&chosen(&["s0"], "20:1-300")).unwrap().0), ["20:100:A:C=01", "20:200:A:C=11"]);
    assert_eq!(shown(&found(&chosen(&["s0", "s1"], "20:150-300")).unwrap().0), ["20:200:A:C=1101"]);
    let refused = found(&chosen(&["s0", "s1"], "20:1-300")).unwrap_err().to_string();
    assert!(
        refused.contains("record 1: expected genotypes of one or two alleles, found more in sample s1"),
        "{refused}"
    );
}

#[test]
fn a_mark_before_the_text_is_no_part_of_it() {
    let marked = format!("\u{feff}{}", text(&RECORDS));
    let selection = Selection::default();
    assert_eq!(
        read_bytes(marked.as_bytes(), &selection).unwrap(),
        read_bytes(text(&RECORDS).as_bytes(), &selection).unwrap()
    );
}

#[test]
fn a_record_of_several_alternates_is_split_and_what_was_not_called_is_the_reference_when_asked() {
    let selection = Selection { split: true, missing_is_reference: true, ..Selection::default() };
    let (variants, summary) = read(&RECORDS, &selection);
    let expected = [
        "20:100:A:C=011000",
        "20:110:A:C=010100",
        "20:110:A:G=001000",
        "20:120:AT:A=110000",
        "20:130:G:T=001110",
        "20:140:G:T=010000/",
        "20:140:G:C=111101",
        "X:5:G:<DEL>=000001",
    ];
    assert_eq!(shown(&variants), expected);
    assert_eq!((summary.kept, summary.missing_as_reference, summary.missing, summary.multiallelic), (8, 3, 0, 0));
}

#[test]
fn filters_are_those_of_regions_samples_alleles_kinds_and_conditions() {
    let positions = |selection: &Selection| {
        let (variants, _) = read(&RECORDS, selection);
        variants.iter().map(|variant| variant.position).collect::<Vec<_>>()
    };
    let mut selection = Selection::default();
    selection.regions.add("20:100-130,X:5").unwrap();
    assert_eq!(positions(&selection), [100, 130, 5]);
    let mut selection = Selection::default();
    selection.regions.add("X").unwrap();
    assert_eq!(positions(&selection), [5]);
    let folder = tempdir().unwrap();
    for (name, content) in [("a.bed", "20\t99\t100\n20\t129\t130\n"), ("a.txt", "#x\n20\t100\n20\t130\t139\n")] {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        let mut selection = Selection::default();
        selection.regions.add_file(&path).unwrap();
        assert_eq!(positions(&selection), [100, 130], "{name}");
    }
    for (condition, expected) in [
        ("MAF>=0.3", &[100, 130][..]),
        ("AC==1", &[140, 5]),
        ("AF<0.3 && TYPE=\"snp\"", &[140]),
        ("TYPE!=\"snp\"", &[5]),
        ("AN=6", &[100, 130, 140, 5]),
        ("AC != 1 && AC <= 2", &[100]),
    ] {
        let selection = Selection { expression: condition.parse().unwrap(), ..Selection::default() };
        assert_eq!(positions(&selection), expected, "{condition}");
    }
    let kinds = |kind: &str| Selection {
        kinds: vec![kind.parse().unwrap()],
        missing_is_reference: true,
        ..Selection::default()
    };
    assert_eq!(positions(&kinds("indels")), [120]);
    assert_eq!(positions(&kinds("other")), [5]);
    let selection = Selection { min_alleles: Some(3), split: true, ..Selection::default() };
    assert_eq!(positions(&selection), [110, 110]);
    let samples = Some(vec!["s2".to_owned(), "s0".to_owned()]);
    let (variants, _) = read(&RECORDS, &Selection { samples, ..Selection::default() });
    assert_eq!(shown(&variants)[1], "20:120:AT:A=1100", "in the file's order, and s1 is not missed");
    let samples = Some(vec!["s2".to_owned(), "nobody".to_owned()]);
    assert!(refused(&RECORDS, &Selection { samples, ..Selection::default() }).contains("the sample nobody"));
    for wrong in ["MAF", "MAF>", "XX>1", "MAF>=a", "TYPE>\"snp\"", "MAF>1 ||", ""] {
        assert!(wrong.parse::<tobari_search_files::variants::Expression>().is_err(), "{wrong}");
    }
    for wrong in ["20:5-4", "20:a", ":5", "20:0", ""] {
        assert!(Selection::default().regions.add(wrong).is_err(), "{wrong}");
    }
}

/// Alleles with the stretch before them.
fn stretched(variants: &[Variant]) -> Vec<String> {
    shown(variants).iter().zip(variants).map(|(text, variant)| format!("{} {text}", variant.stretch)).collect()
}

#[test]
fn a_haploid_sample_is_one_haplotype_and_another_number_begins_a_stretch() {
    // the borders of the pseudoautosomal regions: s1 and s2 change, each at its own record
    let records = [
        "X 5 . A C 0|1 1 1|1",
        "X 6 . A C 1|1 0 0|1",
        "X 7 . A C 1|1 0|1 0|1",
        "X 8 . A C 1|1 0|1 0",
        "X 9 . A C 1|0 1|1 0",
    ];
    let (variants, _) = read(&records, &Selection::default());
    let expected = ["0 X:5:A:C=01111", "0 X:6:A:C=11001", "1 X:7:A:C=110101", "2 X:8:A:C=11010", "2 X:9:A:C=10110"];
    assert_eq!(stretched(&variants), expected);
    assert_eq!(variants.iter().map(|variant| (variant.ones, variant.all)).collect::<Vec<_>>()[..2], [(4, 5), (3, 5)]);
    // a dot has as many alleles as the sample had before
    let missing = Selection { missing_is_reference: true, ..Selection::default() };
    let (variants, _) = read(&["X 5 . A C 0|1 1", "X 6 . A C . ."], &missing);
    assert_eq!(stretched(&variants), ["0 X:5:A:C=011", "0 X:6:A:C=000"]);
    // records that are left out change nothing
    let records = ["X 5 . A C 0|1 1", "X 6 . A CT 1|1 0|1", "X 7 . A C 1|1 0"];
    let snps = Selection { kinds: vec!["snps".parse().unwrap()], ..Selection::default() };
    assert_eq!(stretched(&read(&records, &snps).0), ["0 X:5:A:C=011", "0 X:7:A:C=110"]);
}

/// A file without samples: records as `CHROM POS REF ALT INFO`.
fn sites_only(records: &[&str]) -> String {
    let mut text = "##fileformat=VCFv4.3\n##INFO=<ID=AC,Number=A,Type=Integer,Description=\"\">\n\
                    #CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n"
        .to_owned();
    for record in records {
        let columns: Vec<&str> = record.split(' ').collect();
        let [chromosome, position, reference, alternate, info] = columns[..] else { panic!("{record}") };
        text += &format!("{chromosome}\t{position}\t.\t{reference}\t{alternate}\t.\t.\t{info}\n");
    }
    text
}

/// The same as BCF, with numbers of two bytes: `AC=…;AN=…` only.
fn binary_sites_only(records: &[&str]) -> Vec<u8> {
    let head = "##fileformat=VCFv4.3\n##contig=<ID=20>\n##INFO=<ID=AC,Number=A,Type=Integer,Description=\"\">\n\
                ##INFO=<ID=AN,Number=1,Type=Integer,Description=\"\">\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n\0";
    let mut out = [b"BCF\x02\x02", &(head.len() as u32).to_le_bytes()[..], head.as_bytes()].concat();
    for record in records {
        let columns: Vec<&str> = record.split(' ').collect();
        let alleles: Vec<&str> = std::iter::once(columns[2]).chain(columns[3].split(',')).collect();
        let mut shared = 0i32.to_le_bytes().to_vec();
        shared.extend_from_slice(&(columns[1].parse::<i32>().unwrap() - 1).to_le_bytes());
        shared.extend_from_slice(&[1, 0, 0, 0, 1, 0, 0x80, 0x7f]);
        let fields: Vec<(&str, &str)> = columns[4].split(';').map(|field| field.split_once('=').unwrap()).collect();
        shared.extend_from_slice(&((alleles.len() as u32) << 16 | fields.len() as u32).to_le_bytes());
        shared.extend_from_slice(&[0; 4]);
        shared.extend(typed_text("."));
        alleles.iter().for_each(|allele| shared.extend(typed_text(allele)));
        shared.push(0);
        for (key, values) in fields {
            shared.extend(typed(&[if key == "AC" { 1 } else { 2 }], 1, 1));
            let number = |text: &str| text.parse().unwrap_or(i32::from(i16::MIN));
            shared.extend(typed(&values.split(',').map(number).collect::<Vec<_>>(), 2, 2));
        }
        out.extend_from_slice(&[(shared.len() as u32).to_le_bytes(), [0; 4]].concat());
        out.extend(shared);
    }
    out
}

#[test]
fn a_file_without_samples_is_counted_by_info_and_says_which_record_has_no_numbers() {
    let records = ["20 5 A C AC=3;AN=10", "20 9 a g,t AC=0,700;AN=900", "20 9 A AT AC=1;AN=1"];
    let split = Selection { split: true, ..Selection::default() };
    let (variants, summary) = read_bytes(sites_only(&records).as_bytes(), &split).unwrap();
    assert_eq!(read_bytes(&binary_sites_only(&records), &split).unwrap(), (variants.clone(), summary));
    let found: Vec<_> = variants.iter().map(|v| (v.position, &*v.alternate, v.ones, v.all, v.alleles.len())).collect();
    assert_eq!(found, [(5, "C", 3, 10, 0), (9, "G", 0, 900, 0), (9, "T", 700, 900, 0), (9, "AT", 1, 1, 0)]);
    assert_eq!((summary.kept, summary.unphased), (4, 0));
    let frequent = Selection { expression: "AC>0 && AF<0.5".parse().unwrap(), ..Selection::default() };
    let kept = read_bytes(sites_only(&records).as_bytes(), &frequent).unwrap().0;
    assert_eq!(kept.iter().map(|variant| variant.position).collect::<Vec<_>>(), [5]);
    for (record, says) in [
        ("20 6 A C AN=10", "found no AC at 20:6"),
        ("20 6 A C AC=1", "found no AN at 20:6"),
        ("20 6 A C AC=.;AN=10", "found AC without a number at 20:6"),
        ("20 6 A C,G AC=1;AN=10", "found 1 numbers in AC for 2 alternate alleles at 20:6"),
        ("20 6 A C,G AC=6,5;AN=10", "found AC with 11 alleles of AN=10 at 20:6"),
        ("20 6 A C AC=1;AC=2;AN=10", "expected AC once in INFO"),
        ("20 6 A C AC=1;AN=10;AN=.", "expected AN once in INFO"),
        ("20 6 A C AC=-1;AN=10", "expected numbers of alleles in AC and AN"),
    ] {
        let records = [records[0], record];
        for bytes in [sites_only(&records).into_bytes(), binary_sites_only(&records)] {
            let message = read_bytes(&bytes, &split).unwrap_err().to_string();
            assert!(message.contains(", record 2: ") && message.contains(says), "{message}");
        }
        // a record outside the regions needs no numbers
        let mut elsewhere = split.clone();
        elsewhere.regions.add("20:1-5").unwrap();
        let outside = read_bytes(sites_only(&[records[0], "20 6 A C AN=10"]).as_bytes(), &elsewhere).unwrap();
        assert_eq!((outside.1.kept, outside.1.outside), (1, 1));
    }
    let chosen = Selection { samples: Some(vec!["s1".to_owned()]), ..Selection::default() };
    let message = read_bytes(sites_only(&records).as_bytes(), &chosen).unwrap_err().to_string();
    assert!(message.contains("expected the sample s1"), "{message}");
}

#[test]
fn records_that_have_no_place_or_no_bases_are_refused_only_where_they_are_wanted() {
    for (record, says) in [
        ("20 0 . A C 0|1", "found the end of a chromosome at 20:0: leave the record out (-r 20:1-)"),
        ("20 9 . . C 0|1", "expected bases in REF at 20:9, found \".\""),
        ("20 9 . <DEL> C 0|1", "expected bases in REF at 20:9, found \"<DEL>\""),
    ] {
        let records = [record, "20 10 . A C 1|1"];
        let message = refused(&records, &Selection::default());
        assert!(message.contains("record 1: ") && message.contains(says), "{message}");
        let mut elsewhere = Selection::default();
        elsewhere.regions.add("20:10-").unwrap();
        assert_eq!(shown(&read(&records, &elsewhere).0), ["20:10:A:C=11"]);
    }
    // no allele is counted where there is no alternate one
    let (variants, summary) = read(&["20 9 . A . 0|1", "20 10 . A C 1|1"], &Selection::default());
    assert_eq!((shown(&variants), summary.monomorphic), (vec!["20:10:A:C=11".to_owned()], 1));
    let message = refused(&["20 9 . A C 0|2"], &Selection::default());
    assert!(message.contains("record 1: expected an allele below 2, found 2"), "{message}");
    let twice = text(&["20 9 . A C 0|1"]).replace("GT:DP\t", "GT:GT\t");
    let message = read_bytes(twice.as_bytes(), &Selection::default()).unwrap_err().to_string();
    assert!(message.contains("record 1: expected genotypes (GT) once"), "{message}");
    let comma = text(&["20 9 . A C 0|1"]).replace("\n20\t", "\n20,1\t");
    let message = read_bytes(comma.as_bytes(), &Selection::default()).unwrap_err().to_string();
    assert!(message.contains("without a comma, found 20,1:9"), "{message}");
}

#[test]
fn records_out_of_order_are_refused_by_their_number() {
    for records in [
        ["20 9 . A C 0|1", "20 8 . A C 0|1", "20 10 . A C 0|1"],
        ["20 9 . A C 0|1", "X 8 . A C 0|1", "20 10 . A C 0|1"],
    ] {
        let message = refused(&records, &Selection::default());
        assert!(message.contains("in the order of their positions") && message.contains("record "), "{message}");
    }
}

#[test]
fn compressed_files_are_read_and_those_cut_short_are_refused_wherever_they_end() {
    let selection = Selection { split: true, missing_is_reference: true, ..Selection::default() };
    let expected = read(&RECORDS, &selection);
    for plain in [text(&RECORDS).into_bytes(), binary(&RECORDS, 1)] {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(&plain).unwrap();
        assert_eq!(read_bytes(&gzip.finish().unwrap(), &selection).unwrap(), expected);
        for most in [50, 60_000] {
            let whole = blocks(&plain, most);
            assert_eq!(read_bytes(&whole, &selection).unwrap(), expected);
            for length in 0..whole.len() {
                let message = read_bytes(&whole[..length], &selection).unwrap_err().to_string();
                assert!(message.contains("input"), "{length}: {message}");
            }
        }
    }
}

#[test]
fn what_is_malformed_is_refused_by_file_and_record_and_noise_never_panics() {
    let good = text(&["20 5 . A C 0|1", "20 6 . A C 0|1"]);
    for (from, to, says) in [
        ("##fileformat", "##f", "##fileformat=VCF"),
        ("#CHROM", "#CHR", "columns #CHROM"),
        ("\t6\t", "\tsix\t", "record 2: expected a number in POS"),
        ("\t6\t", "\t0\t", "record 2: expected records in the order"),
        ("0|1:7\n20", "0|2:7\n20", "record 1: expected an allele below 2, found 2"),
        ("0|1:7\n20", "0|1|1:7\n20", "record 1: expected genotypes of one or two"),
        ("0|1:7\n20", "0|x:7\n20", "record 1: expected a genotype"),
        ("0|1:7\n20", "0|1:7\t0|1:7\n20", "record 1: expected genotypes of 1 samples, found 2"),
        ("GT:DP\t0|1:7\n20", "DP\t7\n20", "record 1: expected genotypes (GT)"),
        ("\tGT:DP\t0|1:7\n20", "\n20", "record 1: expected the column FORMAT"),
        ("A\tC\t.", "A", "record 1: expected the column"),
    ] {
        let changed = good.replacen(from, to, 1);
        assert_ne!(changed, good, "{from}");
        let message = read_bytes(changed.as_bytes(), &Selection::default()).unwrap_err().to_string();
        assert!(message.contains("input") && message.contains(says), "{message}");
    }
    for other in [&b""[..], b"RIFF", b"BCF", b"BCF\x01\x01\0\0\0\0", b"BCF\x02\x02\xff\xff\xff\xff"] {
        assert!(read_bytes(other, &Selection::default()).is_err());
    }
    let mut state = 5u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let folder = tempdir().unwrap();
    for (round, whole) in [text(&RECORDS).into_bytes(), binary(&RECORDS, 1), binary(&RECORDS, 4)].iter().enumerate() {
        let body = whole.len() - if round == 0 { 300 } else { 500 };
        for _ in 0..2_000 {
            let mut bytes = whole.clone();
            for _ in 0..1 + next(3) {
                let place = if next(4) > 0 { body + next(bytes.len() - body) } else { next(bytes.len()) };
                bytes[place] = [0, 255, next(256) as u8, bytes[place] ^ 1][next(4)];
            }
            let selection = Selection { split: true, missing_is_reference: true, ..Selection::default() };
            if let Ok((variants, _)) = read_path(&write(&folder, &bytes), &selection) {
                let same = |pair: &[Variant]| pair[0].alleles.len() == pair[1].alleles.len();
                assert!(variants.windows(2).all(|pair| pair[0].stretch < pair[1].stretch || same(pair)));
            }
        }
    }
}

/// A file with this header after `FORMAT`, and without records.
fn named(names: &str) -> Result<usize, String> {
    let folder = tempdir().unwrap();
    let path = write(&folder, format!("{HEAD}{names}\n").as_bytes());
    let reader = VariantReader::open(&path, Selection::default()).map_err(|error| error.to_string())?;
    Ok(reader.samples().count())
}

#[test]
fn fault_32_a_header_of_tabs_is_no_list_of_samples_and_half_a_million_names_are() {
    for (names, number) in [("\t".repeat(1 << 20), 1), ("\ta\t".to_owned(), 2), ("\ta\t\tb".to_owned(), 2)] {
        let message = named(&names).unwrap_err();
        assert!(message.contains(&format!("found none for sample {number}: ")), "{message}");
    }
    let names: String = (0..=1 << 20).map(|number| format!("\t{number}")).collect();
    let message = named(&names).unwrap_err();
    assert!(message.contains("expected at most 1048576 samples"), "{message}");
    let message = named(&format!("\t{}", "a".repeat(1 << 25))).unwrap_err();
    assert!(message.contains("expected at most 33554432 bytes in the line #CHROM"), "{message}");
    let names: String = (0..500_000).map(|number| format!("\tNA{number:06}")).collect();
    assert_eq!(names.len(), 4_500_000);
    assert_eq!(named(&names), Ok(500_000));
    let message = named("\ta\tb\ta").unwrap_err();
    assert!(message.contains("expected each sample once in the line #CHROM, found a again"), "{message}");
    let names: String = (0..1 << 20).map(|number| format!("\t{number}")).collect();
    assert_eq!(named(&names), Ok(1 << 20));
}

#[test]
fn fault_32_meta_information_ends_somewhere() {
    let good = text(&["20 5 . A C 0|1"]);
    let line = format!("##x={}\n", "y".repeat(1019));
    for (lines, is_read) in [(1 << 15, true), (1 << 16, false)] {
        let more = good.replacen("##FILTER", &(line.repeat(lines) + "##FILTER"), 1);
        let found = read_bytes(more.as_bytes(), &Selection::default()).map_err(|error| error.to_string());
        match found {
            Ok(_) => assert!(is_read),
            Err(message) => {
                assert!(!is_read && message.contains("bytes of meta-information before the line #CHROM"), "{message}");
            }
        }
    }
    // a BCF file contains the length of its header
    let mut bytes = binary(&["20 5 . A C 0|1"], 1);
    bytes[5..9].copy_from_slice(&(1u32 << 27).to_le_bytes());
    let message = read_bytes(&bytes, &Selection::default()).unwrap_err().to_string();
    assert!(message.contains("bytes in a header, found 134217728"), "{message}");
    // and its fields are not kept: a line with a million of them reads like one with the ID only
    let fields = format!("##contig=<{}ID=20>", "=,".repeat(1 << 20));
    let mut bytes = binary(&["20 5 . A C 0|1"], 1);
    let place = bytes.windows(14).position(|window| window == b"##contig=<ID=2").unwrap();
    drop(bytes.splice(place..place + "##contig=<ID=20>".len(), fields.bytes()));
    let length = u32::from_le_bytes(bytes[5..9].try_into().unwrap()) + (2 << 20);
    bytes[5..9].copy_from_slice(&length.to_le_bytes());
    let expected = read_bytes(good.as_bytes(), &Selection::default()).unwrap();
    assert_eq!(read_bytes(&bytes, &Selection::default()).unwrap(), expected);
}

#[test]
fn fault_32_a_long_reference_with_many_others_is_not_copied_for_each() {
    let record = |bases: usize, others: usize| {
        let alternates: Vec<String> = (0..others).map(|number| format!("<A{number}>")).collect();
        text(&[&format!("20 5 . {} {} 0|1", "C".repeat(bases), alternates.join(","))])
    };
    let split = Selection { split: true, ..Selection::default() };
    let message = read_bytes(record(60_000, 300).as_bytes(), &split).unwrap_err().to_string();
    assert!(message.contains("bcftools norm -m -") && message.contains("found 60000 bases"), "{message}");
    assert!(read_bytes(record(60_000, 20).as_bytes(), &split).is_ok());
    assert!(read_bytes(record(1, 300).as_bytes(), &split).is_ok());
}

#[test]
fn fault_32_a_line_or_record_that_a_few_compressed_bytes_become_is_refused() {
    let long = |bases: usize| text(&[&format!("20 5 . A {} 0|1", "C".repeat(bases))]);
    let gzip = |plain: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    };
    let (small, large) = (long((1 << 24) - 100), long(1 << 25));
    let says = "times the compressed bytes before their end";
    for compressed in [gzip(large.as_bytes()), blocks(large.as_bytes(), 60_000)] {
        assert!(compressed.len() < 1 << 20);
        let message = read_bytes(&compressed, &Selection::default()).unwrap_err().to_string();
        assert!(message.contains(says) && message.contains("decompress it first"), "{message}");
    }
    for plain in [gzip(small.as_bytes()), large.into_bytes()] {
        let (variants, _) = read_bytes(&plain, &Selection::default()).unwrap();
        assert!(variants[0].alternate.len() >= (1 << 24) - 100);
    }
    // a header is limited like a record, and so is each record of BCF
    let header = format!("{HEAD}\t{}\n", "a".repeat(1 << 25));
    let message = read_bytes(&gzip(header.as_bytes()), &Selection::default()).unwrap_err().to_string();
    assert!(message.contains(says), "{message}");
    let mut bytes = binary(&["20 5 . A C 0|1"], 1);
    bytes.extend([0u32, 1 << 25].map(u32::to_le_bytes).concat());
    bytes.resize(bytes.len() + (1 << 25), 0);
    let message = read_bytes(&blocks(&bytes, 60_000), &Selection::default()).unwrap_err().to_string();
    assert!(message.contains("after record 1") && message.contains(says), "{message}");
}

#[test]
fn fault_32_a_record_has_no_more_alleles_than_numbers_for_them() {
    let record = |alternates: usize| {
        let all = vec!["C"; alternates].join(",");
        read_bytes(text(&[&format!("20 5 . A {all} 0|1"), "20 6 . A C 0|1"]).as_bytes(), &Selection::default())
    };
    let (variants, summary) = record(65_535).unwrap();
    assert_eq!((variants.len(), summary.multiallelic), (1, 1));
    let message = record(65_536).unwrap_err().to_string();
    assert!(message.contains("record 1: expected at most 65535 alternate alleles in ALT, found 65536"), "{message}");
    // the chromosome that all symbolic alleles of a record get has a short name
    for (bytes, is_read) in [(255, true), (256, false)] {
        let info = format!("CHR2={};END=9", "c".repeat(bytes));
        let text = text(&["20 5 . A <TRA> 0|1"]).replace("AC=1", &info);
        let found = read_bytes(text.as_bytes(), &Selection::default());
        assert_eq!(found.is_ok(), is_read, "{bytes}");
    }
}

#[test]
fn fault_32_genotypes_are_as_many_as_samples() {
    let good = text(&["20 5 . A C 0|1"]);
    let more = good.replace("0|1:7", &vec!["0|1:7"; 100_000].join("\t"));
    let message = read_bytes(more.as_bytes(), &Selection::default()).unwrap_err().to_string();
    assert!(message.contains("expected genotypes of 1 samples, found 100000"), "{message}");
    // BCF: the field GT a second time, of five bytes at the end of a record of 31 and 9 bytes
    let mut bytes = binary(&["20 5 . A C 0|1"], 1);
    let start = bytes.len() - 48;
    assert_eq!((bytes[start], bytes[start + 4], bytes[start + 31]), (31, 9, 2));
    bytes[start + 4] += 5;
    bytes[start + 31] += 1;
    let again = bytes[bytes.len() - 5..].to_vec();
    bytes.extend(again);
    let message = read_bytes(&bytes, &Selection::default()).unwrap_err().to_string();
    assert!(message.contains("record 1: expected genotypes (GT) once in a record"), "{message}");
}

#[test]
fn fault_32_many_variants_of_one_position_take_no_time_for_each_two() {
    fn alternate(number: usize) -> String {
        (0..9).map(|place| char::from(b"ACGT"[number >> (2 * place) & 3])).collect()
    }
    let records: Vec<String> = (0..200_000).map(|number| format!("20 5 . A {} 0|1", alternate(number))).collect();
    let mut records: Vec<&str> = records.iter().map(String::as_str).collect();
    records.push(records[7]);
    let start = std::time::Instant::now();
    let (variants, summary) = read_bytes(text(&records).as_bytes(), &Selection::default()).unwrap();
    assert_eq!((variants.len(), summary.duplicate), (200_000, 1));
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

#[test]
fn the_real_panel_is_read_alike_as_text_and_as_bcf() {
    let file = |kind: &str| {
        data("the_real_panel_is_read_alike_as_text_and_as_bcf", &format!("genome/1000g-chr20-1-4Mb-600hap.{kind}"))
    };
    let (Some(text), Some(binary)) = (file("vcf.gz"), file("bcf")) else { return };
    let [text, binary] = [text, binary].map(|file| read_path(&file, &Selection::default()).unwrap());
    assert!(text == binary);
    assert_eq!((text.1.records, text.1.kept, text.1.unphased), (24_990, 24_990, 0));
    assert!(text.0.iter().all(|variant| variant.alleles.len() == 600));
    let shared = text.0.windows(2).filter(|pair| pair[0].position == pair[1].position).count();
    assert_eq!(shared, 12);
}
