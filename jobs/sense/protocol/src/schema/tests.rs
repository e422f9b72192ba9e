//! Schemas that fit, and what their frames have.

#![allow(clippy::unwrap_used, reason = "a test")]

use super::*;

fn climate() -> Schema {
    let channel = |name: &str, least, step| Channel {
        name: name.to_owned(),
        least,
        step,
        bits: 8,
        length: None,
        square: true,
        edges: vec![least + 10.0 * step, least + 20.0 * step],
        above: vec![least + 30.0 * step],
    };
    Schema {
        profile: ProfileName::U25,
        samples: 8,
        count: None,
        slice: None,
        channels: vec![channel("temperature", -40.0, 0.5), channel("humidity", 0.0, 0.1)],
        products: vec![["temperature".to_owned(), "humidity".to_owned()]],
    }
}

fn schema(text: &str) -> Schema {
    let schema: Schema = serde_json::from_str(text).unwrap();
    schema.check().unwrap();
    schema
}

fn value(channel: usize, limb: usize) -> Column {
    Column::Value { channel, element: 0, limb }
}

fn square(channel: usize, limb: usize) -> Column {
    Column::Square { channel, element: 0, limb }
}

#[test]
fn a_frame_has_what_its_columns_say_and_zeros_elsewhere() {
    let schema = climate();
    schema.check().unwrap();
    let sheets = schema.sheets();
    let columns = sheets[0].columns();
    assert_eq!((sheets.len(), columns.len()), (1, 1 + 2 * 7 + 2));
    let rows = [vec![9, 10], vec![255, 31]];
    let frame = schema.frames(&rows).unwrap()[0];
    let at = |row: usize, column| frame[row * columns.len() + columns.iter().position(|c| *c == column).unwrap()];
    assert_eq!([at(0, Column::Present), at(1, value(0, 0)), at(1, value(1, 0))], [1, 255, 31]);
    assert_eq!([at(1, square(0, 0)), at(1, square(0, 1))], (255u16 * 255).to_be_bytes());
    assert_eq!([0, 1].map(|limb| at(0, Column::Product { pair: 0, limb })), [0, 90]);
    assert_eq!([0, 1, 2].map(|bin| at(0, Column::Bin(0, bin))), [1, 0, 0], "9 is below the first edge");
    assert_eq!([0, 1, 2].map(|bin| at(0, Column::Bin(1, bin))), [0, 1, 0], "10 is at it");
    assert_eq!([at(0, Column::Above(1, 0)), at(1, Column::Above(1, 0))], [0, 1]);
    assert!(frame[2 * columns.len()..].iter().all(|byte| *byte == 0), "no third row");
    assert!(schema.frames(&vec![vec![0, 0]; 9]).is_err() && schema.frames(&[vec![0]]).is_err());
    assert!(matches!(schema.frames(&[vec![0, 256]]), Err(SchemaError::Reading { .. })));
}

#[test]
fn values_round_to_numbers_and_thresholds_split_them_exactly() {
    let schema = climate();
    let tenth = &schema.channels[1];
    for byte in 0..=255u8 {
        assert_eq!(tenth.number(0.1 * f64::from(byte)), Some(byte.into()));
    }
    assert_eq!((tenth.threshold(3.0), tenth.threshold(3.05), tenth.threshold(-0.1)), (Some(30), Some(30), None));
    assert_eq!((tenth.threshold(25.5), tenth.threshold(25.4)), (None, Some(254)));
    assert_eq!(
        (tenth.bins(&[1.0, 1.05]), tenth.bins(&[1.0, 1.0]), tenth.bins(&[0.0])),
        (Some(vec![10, 11]), None, None)
    );
    assert_eq!(schema.numbers(&[-40.0, 25.5]).unwrap(), [0, 255]);
    let wrong = schema.numbers(&[-41.0, 0.0]).unwrap_err().to_string();
    assert!(wrong.contains("temperature") && !wrong.contains("41"), "a message tells no reading");
    assert!(schema.numbers(&[f64::NAN, 0.0]).is_err() && schema.numbers(&[0.0]).is_err());
    // the numbers of a meter with 32 bits, in steps of a hundredth
    let meter = Channel { bits: 32, step: 0.01, ..tenth.clone() };
    for number in [0, 1, 255, 256, 65_535, 123_456_789, u32::MAX] {
        assert_eq!(meter.number(f64::from(number) * 0.01), Some(number));
        assert_eq!(meter.threshold(f64::from(number) * 0.01), (number < u32::MAX).then_some(number));
    }
    assert_eq!((meter.number(42_949_672.96), meter.number(-0.01)), (None, None));
}

#[test]
fn what_does_not_go_together_is_refused() {
    let change = |with: &dyn Fn(&mut Schema)| {
        let mut schema = climate();
        with(&mut schema);
        schema.check()
    };
    assert!(change(&|_| ()).is_ok());
    assert!(matches!(change(&|s| s.samples = 16), Err(SchemaError::Room { .. })));
    assert!(change(&|s| s.samples = 0).is_err() && change(&|s| s.channels.clear()).is_err());
    assert!(change(&|s| s.channels[0].name = "humidity".to_owned()).is_err());
    assert!(change(&|s| s.channels[0].name = "a b".to_owned()).is_err());
    assert!(change(&|s| s.channels[0].step = 0.0).is_err() && change(&|s| s.channels[0].least = f64::NAN).is_err());
    assert!(change(&|s| s.channels[0].edges = vec![5.0, 5.0]).is_err());
    assert!(change(&|s| s.channels[0].above = vec![1000.0]).is_err());
    assert!(change(&|s| s.channels[0].above = vec![1.0, 1.1]).is_err(), "both are one byte");
    assert!(change(&|s| s.products[0][1] = "pressure".to_owned()).is_err());
    assert!(change(&|s| s.profile = ProfileName::P1).is_err(), "the server computes them");
    assert!(change(&|s| s.channels[0].bits = 12).is_err() && change(&|s| s.channels[0].length = Some(0)).is_err());
    let expected = "no squares, edges or thresholds for a vector, which has sums and means";
    let vector = change(&|s| s.channels[0].length = Some(3)).unwrap_err();
    assert!(matches!(vector, SchemaError::Channel { expected: found, .. } if found == expected), "{vector}");
    // version 1 has no time, and one sheet
    assert!(
        change(&|s| s.slice = Some("1m".to_owned())).is_err() && change(&|s| s.count = Some(Counting::Full)).is_err()
    );
    for (slice, fits) in [("1m", true), ("1d", true), ("7m", false), ("1w", false), ("25h", false), ("m", false)] {
        let checked = change(&|s| (s.profile, s.slice) = (ProfileName::U28, Some(slice.to_owned())));
        assert_eq!(checked.is_ok(), fits, "{slice}");
        assert!(fits || matches!(checked, Err(SchemaError::Slice(_))));
    }
}

/// As many readings in a frame as there are bytes.
#[test]
fn a_frame_of_version_2_has_256_readings_of_one_channel() {
    let full = schema(r#"{"profile":"u28","samples":256,"count":"full","channel":[{"name":"x"}]}"#);
    let rows: Vec<Vec<u32>> = (0..256).map(|i| vec![i]).collect();
    let frames = full.frames(&rows).unwrap();
    assert!(frames.len() == 1 && (0..256).all(|i| usize::from(frames[0][i]) == i));
    assert_eq!(full.frames(&rows[1..]), Err(SchemaError::Partial { samples: 256, found: 255 }));
    assert_eq!(full.sheets()[0].count(&[7; READINGS], 3), 768);
    // with a count in each frame, 255
    let counted = schema(r#"{"profile":"u28","samples":255,"channel":[{"name":"x"}]}"#);
    let frame = counted.frames(&rows[..200]).unwrap()[0];
    assert_eq!((frame[0], frame[1], frame[200], frame[201]), (200, 0, 199, 0));
    let more = r#"{"profile":"u28","samples":256,"channel":[{"name":"x"}]}"#;
    assert!(serde_json::from_str::<Schema>(more).unwrap().check().is_err());
    // with a count in each row, 128
    for (samples, fits) in [(128, true), (129, false)] {
        let text = format!(r#"{{"profile":"u28","samples":{samples},"count":"row","channel":[{{"name":"x"}}]}}"#);
        let found = serde_json::from_str::<Schema>(&text).unwrap().check();
        assert!(found.is_ok() == fits && (fits || matches!(found, Err(SchemaError::Room { .. }))));
    }
}

#[test]
fn numbers_of_32_bits_have_the_bytes_of_their_squares_and_products() {
    let text = r#"{"profile":"u28","count":"row","channel":[{"name":"a","bits":32,"square":true,"edges":[1000],
        "above":[70000]},{"name":"b","bits":16}],"products":[["a","b"]]}"#;
    let schema = schema(text);
    let sheet = &schema.sheets()[0];
    let [a, b] = [4_000_000_001u32, 65_535];
    let frame = schema.frames(&[vec![a, b]]).unwrap()[0];
    let number = |column: &dyn Fn(usize) -> Column, limbs: usize| -> u64 {
        (0..limbs).fold(0u64, |number, limb| {
            let place = sheet.places(column(limb)).unwrap().next().unwrap();
            number << 8 | u64::from(frame[place])
        })
    };
    assert_eq!(number(&|limb| value(0, limb), 4), u64::from(a));
    assert_eq!(number(&|limb| value(1, limb), 2), u64::from(b));
    assert_eq!(number(&|limb| square(0, limb), 8), u64::from(a) * u64::from(a));
    assert_eq!(number(&|limb| Column::Product { pair: 0, limb }, 6), u64::from(a) * u64::from(b));
    assert_eq!([0, 1].map(|bin| number(&|_| Column::Bin(0, bin), 1)), [0, 1]);
    assert_eq!(number(&|_| Column::Above(0, 0), 1), 1);
    // what has ones has a smaller range than bytes
    let most = |column| sheet.most(sheet.places(column).unwrap().next().unwrap(), 9, true);
    assert_eq!([most(Column::Present), most(Column::Above(0, 0)), most(value(0, 0))], [Some(9), Some(9), None]);
    assert_eq!(sheet.most(sheet.used(), 9, true), None);
}

#[test]
fn a_vector_of_4096_numbers_has_frames_for_all_of_them() {
    let schema = schema(r#"{"profile":"u28","channel":[{"name":"gradient","bits":32,"length":4096},{"name":"loss"}]}"#);
    let row: Vec<u32> = (0..4096).map(|i| i * 1_000_003).chain([200]).collect();
    let (sheets, frames) = (schema.sheets(), schema.frames(std::slice::from_ref(&row)).unwrap());
    assert_eq!((sheets.len(), frames.len()), (66, 66), "63 numbers in each, and the rest");
    let mut seen = 0;
    for (sheet, frame) in sheets.iter().zip(&frames) {
        assert_eq!(frame[0], 1, "every sheet counts");
        for column in sheet.columns() {
            let Column::Value { channel, element, limb } = *column else { panic!("{column:?}") };
            let (number, bytes) = if channel == 0 { (row[element], 4) } else { (row[4096], 1) };
            let place = sheet.places(*column).unwrap().next().unwrap();
            assert_eq!(frame[place], number.to_be_bytes()[4 - bytes + limb]);
            seen += 1;
        }
    }
    assert_eq!(seen, 4 * 4096 + 1);
    // a product and its channels are in one frame, or nobody could compute a covariance
    let mut apart = schema;
    apart.channels.push(Channel { name: "first".to_owned(), length: None, ..apart.channels[1].clone() });
    apart.channels.rotate_right(1);
    apart.products = vec![["first".to_owned(), "loss".to_owned()]];
    assert!(matches!(apart.check(), Err(SchemaError::Channel { .. })));
    let many: Vec<String> = (0..4097).map(|i| format!(r#"{{"name":"c{i}"}}"#)).collect();
    let of = |count: usize| format!(r#"{{"profile":"u28","channel":[{}]}}"#, many[..count].join(","));
    assert!(serde_json::from_str::<Schema>(&of(4096)).unwrap().check().is_ok());
    let error = serde_json::from_str::<Schema>(&of(4097)).unwrap_err();
    assert!(error.to_string().contains("at most 4096"), "{error}");
}

/// A place that is zero in every honest result tells a device's key from a sum.
#[test]
fn rows_that_are_divided_leave_a_place_of_every_frame_free() {
    for (channels, samples, sheets) in [(4096, 1, 17), (3, 86, 2), (300, 7, 9), (2, 200, 2)] {
        let all: Vec<String> = (0..channels).map(|i| format!(r#"{{"name":"c{i}"}}"#)).collect();
        let text = format!(r#"{{"profile":"u28","samples":{samples},"channel":[{}]}}"#, all.join(","));
        let schema = schema(&text);
        assert_eq!((schema.sheets().len(), schema.full_sheets()), (sheets, 0), "{channels} times {samples}");
        let columns: usize = schema.sheets().iter().map(|sheet| sheet.columns().len()).sum();
        assert_eq!(columns, channels, "every reading is in one sheet");
    }
    // a frame that somebody fills to the last byte stays one frame, and is told
    let full = schema(r#"{"profile":"u28","samples":85,"channel":[{"name":"a"},{"name":"b"},{"name":"c"}]}"#);
    assert_eq!((full.sheets().len(), full.full_sheets()), (1, 1));
}
