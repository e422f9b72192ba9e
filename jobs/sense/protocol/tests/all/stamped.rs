//! Frames of version 2: readings of 16 and 32 bits, vectors, sheets, and more devices.

use crate::fleet::{Fleet, Rows, WINDOW, rows, toy};
use tobari_device::{P17, Profile, U28};
use tobari_sense::order::is_overflow;
use tobari_sense::question::QuestionError;
use tobari_sense::release::{Figure, Release};
use tobari_sense::schema::{ProfileName, Schema};

/// The releases of a question, one for each of its sheets.
fn releases<P: Profile>(fleet: &mut Fleet<P>, question: &str) -> Vec<Release> {
    let registered = fleet.register_all(question).unwrap();
    registered
        .iter()
        .map(|registered| {
            let message = fleet.answer(registered).unwrap();
            let mut desk = fleet.desk(registered);
            desk.open(&registered.id(), 7 * WINDOW, &message, &fleet.registry).unwrap()
        })
        .collect()
}

fn exact(figure: &Figure) -> &str {
    let Figure::Number { exact, .. } = figure else { panic!("{figure:?}") };
    exact
}

fn question(statistics: &str) -> String {
    format!(r#"{{"name":"q","window":{{"length":"1m"}},"frames":2,"least-devices":1,"statistic":[{statistics}]}}"#)
}

/// The sum, mean, variance and covariance of meters, computed directly from all rows.
fn meters<P: Profile>(profile: ProfileName, devices: usize) {
    let name = profile.to_string();
    let schema = format!(
        r#"{{"profile":"{name}","samples":3,"channel":[
            {{"name":"energy","bits":32,"step":0.5,"square":true,"edges":[1000000],"above":[2000000000]}},
            {{"name":"flow","bits":16}}],"products":[["energy","flow"]]}}"#
    );
    let mut fleet = Fleet::<P>::new(toy(profile), &schema, devices);
    // a device with a full and a partial frame, others with one
    let shape = |device: usize| if device == 0 { vec![3, 2] } else { vec![1 + device % 3] };
    let sent: Rows = rows(&schema, devices, shape, None, 3);
    fleet.send(&sent);
    let all: Vec<[i128; 2]> =
        sent.iter().flatten().flatten().map(|row| [i128::from(row[0]), i128::from(row[1])]).collect();
    let n = all.len() as i128;
    let sum = |f: &dyn Fn(&[i128; 2]) -> i128| all.iter().map(f).sum::<i128>();
    let central = |a: usize, b: usize| n * sum(&|row| row[a] * row[b]) - sum(&|row| row[a]) * sum(&|row| row[b]);
    let asked = question(
        r#"{"kind":"count"},{"kind":"sum","channel":"energy"},{"kind":"mean","channel":"flow"},
        {"kind":"variance","channel":"energy"},{"kind":"covariance","channels":["flow","energy"]},
        {"kind":"histogram","channel":"energy"},{"kind":"above","channel":"energy","threshold":2000000000}"#,
    );
    let released = releases(&mut fleet, &asked);
    let figures = &released[0].groups[0].figures;
    assert_eq!(figures[0], Figure::Count { value: n as u64 });
    assert_eq!(exact(&figures[1]), sum(&|row| row[0]).to_string());
    assert_eq!(exact(&figures[2]), format!("{}/{n}", sum(&|row| row[1])));
    assert_eq!(exact(&figures[3]), format!("{}/{}", central(0, 0), n * n));
    assert_eq!(exact(&figures[4]), format!("{}/{}", central(0, 1), n * n));
    let count = |most: i128| all.iter().filter(|row| row[0] > most).count() as i64;
    let Figure::Histogram { counts, .. } = &figures[5] else { panic!("{:?}", figures[5]) };
    assert_eq!(*counts, [n as i64 - count(1_999_999), count(1_999_999)]);
    let Figure::Above { count: found, .. } = &figures[6] else { panic!("{:?}", figures[6]) };
    assert_eq!(*found, count(4_000_000_000));
    let Figure::Number { value: Some(value), .. } = figures[1] else { panic!("{:?}", figures[1]) };
    assert_eq!(value, 0.5 * sum(&|row| row[0]) as f64);
}

#[test]
fn readings_of_16_and_32_bits_have_exact_statistics() {
    meters::<U28>(ProfileName::U28, 40);
    meters::<P17>(ProfileName::P17, 4);
}

#[test]
fn a_vector_is_summed_place_by_place_over_all_of_its_sheets() {
    let schema =
        r#"{"profile":"u28","samples":2,"channel":[{"name":"loss"},{"name":"g","bits":32,"length":100,"least":-8}]}"#;
    let mut fleet = Fleet::<U28>::new(toy(ProfileName::U28), schema, 9);
    let sent = rows(schema, 9, |device| vec![1 + device % 2], None, 5);
    fleet.send(&sent);
    let all: Vec<&Vec<u32>> = sent.iter().flatten().flatten().collect();
    let of = |place: usize| all.iter().map(|row| u64::from(row[place])).sum::<u64>();
    let released = releases(
        &mut fleet,
        &question(r#"{"kind":"count"},{"kind":"sum","channel":"g"},{"kind":"mean","channel":"g"}"#),
    );
    assert_eq!(released.iter().map(|release| release.sheet).collect::<Vec<_>>(), [0, 1, 2, 3]);
    let mut seen = 0;
    for release in &released {
        let figures = &release.groups[0].figures;
        assert_eq!(figures[0], Figure::Count { value: all.len() as u64 }, "each sheet counts");
        let [Figure::Vector { first, exact, values, .. }, Figure::Vector { exact: means, .. }] = &figures[1..] else {
            panic!("{figures:?}")
        };
        assert_eq!(*first, seen);
        for ((sum, value), mean) in exact.iter().zip(values).zip(means) {
            let expected = of(1 + seen);
            assert_eq!((sum, mean), (&expected.to_string(), &format!("{expected}/{}", all.len())));
            assert_eq!(*value, Some(expected as f64 - 8.0 * all.len() as f64));
            seen += 1;
        }
    }
    assert_eq!(seen, 100);
    // the other channel is on the first sheet alone
    let released = releases(&mut fleet, &question(r#"{"kind":"sum","channel":"loss"}"#));
    assert_eq!((released.len(), exact(&released[0].groups[0].figures[0])), (1, &*of(0).to_string()));
}

/// A result of one sheet, passed off as that of another, has sums where the other has none.
#[test]
fn a_result_of_another_sheet_is_withheld() {
    let schema = r#"{"profile":"u28","channel":[{"name":"a","length":255},{"name":"b"}]}"#;
    let mut fleet = Fleet::<U28>::new(toy(ProfileName::U28), schema, 5);
    fleet.send(&rows(schema, 5, |_| vec![1], None, 6));
    let all = fleet.register_all(&question(r#"{"kind":"sum","channel":"a"},{"kind":"sum","channel":"b"}"#)).unwrap();
    let [first, second] = &all[..] else { panic!("two sheets") };
    let message = fleet.answer(first).unwrap();
    assert!(fleet.desk(first).open(&first.id(), WINDOW, &message, &fleet.registry).is_ok());
    assert!(fleet.desk(second).open(&second.id(), WINDOW, &message, &fleet.registry).is_err());
    assert_ne!(first.id(), second.id());
}

#[test]
fn u28_sums_1026_devices_of_full_scale_and_refuses_one_more() {
    let schema = r#"{"profile":"u28","samples":255,"channel":[{"name":"x"}]}"#;
    let ask = r#"{"name":"q","window":{"length":"1m"},"statistic":[{"kind":"sum","channel":"x"}]}"#;
    let more = Fleet::<U28>::new(toy(ProfileName::U28), schema, 1027);
    let refused = more.register(ask).unwrap_err();
    assert!(matches!(&refused, QuestionError::Order(order) if is_overflow(order).is_some()), "{refused}");
    let mut fleet = Fleet::<U28>::new(toy(ProfileName::U28), schema, 1026);
    fleet.send(&rows(schema, 1026, |_| vec![255], Some(255), 1));
    let registered = fleet.register(ask).unwrap();
    let message = fleet.answer(&registered).unwrap();
    let released = fleet.desk(&registered).open(&registered.id(), WINDOW, &message, &fleet.registry).unwrap();
    assert_eq!(exact(&released.groups[0].figures[0]), (1026u64 * 255 * 255).to_string());
}

/// The parameters of a real fleet, not the toy ones: the noise of the largest sum fits.
#[test]
fn the_set_for_u28_holds_a_sum_of_full_scale_over_all_of_its_blocks() {
    let schema = r#"{"profile":"u28","samples":255,"channel":[{"name":"x"}]}"#;
    let setting = tobari_sense::setting::Setting::of(ProfileName::U28).unwrap();
    let mut fleet = Fleet::<U28>::new(setting, schema, 40);
    fleet.send(&rows(schema, 40, |_| vec![255; 25], Some(255), 1));
    let ask = r#"{"name":"q","window":{"length":"1m"},"frames":25,"statistic":[{"kind":"sum","channel":"x"}]}"#;
    let registered = fleet.register(ask).unwrap();
    let message = fleet.answer(&registered).unwrap();
    let released = fleet.desk(&registered).open(&registered.id(), WINDOW, &message, &fleet.registry).unwrap();
    assert_eq!(exact(&released.groups[0].figures[0]), (1000u64 * 255 * 255).to_string());
}

#[test]
fn windows_begin_at_midnight_of_a_zone_and_on_mondays_and_consist_of_whole_slices() {
    let schema = r#"{"profile":"u28","slice":"15m","channel":[{"name":"x"}]}"#;
    let fleet = Fleet::<U28>::new(toy(ProfileName::U28), schema, 5);
    let registered = |window: &str| {
        let text = format!(r#"{{"name":"q","window":{window},"statistic":[{{"kind":"count"}}]}}"#);
        fleet.register(&text).map(|registered| registered.order)
    };
    let order = registered(r#"{"length":"1d","zone":"+09:00","lateness":"2h"}"#).unwrap();
    // midnight in Tokyo is 15:00 UTC
    assert_eq!((order.offset_ms, order.lateness_ms), (15 * 3_600_000, 2 * 3_600_000));
    let order = order.windows();
    let start = 1_798_729_200_000; // 2027-01-01T00:00+09:00
    assert!(order.begins_at(start) && !order.begins_at(start + 3_600_000));
    assert_eq!((order.first(start - 1), order.first(start)), (start - 86_400_000, start));
    assert_eq!(order.first(start + 86_399_999), start);
    let order = registered(r#"{"length":"1w","zone":"-03:30"}"#).unwrap();
    assert!(order.windows().begins_at(1_798_428_600_000), "2026-12-28T00:00-03:30, a Monday");
    let sliding = registered(r#"{"length":"1h","every":"15m"}"#).unwrap();
    assert_eq!(sliding.windows().first(7_200_000), 4_500_000);
    for wrong in [r#"{"length":"10m"}"#, r#"{"length":"1h","every":"20m"}"#, r#"{"length":"1d","zone":"+05:50"}"#] {
        assert!(matches!(registered(wrong), Err(QuestionError::Slice(900))), "{wrong}");
    }
    for wrong in ["+9:00", "+15:00", "09:00", "+09:60", "é:", "::"] {
        let zone = registered(&format!(r#"{{"length":"1d","zone":"{wrong}"}}"#));
        assert!(matches!(&zone, Err(QuestionError::Name { what, .. }) if what.contains("zone")), "{wrong}: {zone:?}");
    }
    // the protocol has no calendar: it refuses months, and zones by name, without their bounds
    for calendar in [r#"{"length":"1mo"}"#, r#"{"length":"1d","zone":"Europe/Paris"}"#, r#"{"length":"1d","zone":"x"}"#]
    {
        assert!(matches!(registered(calendar), Err(QuestionError::Calendar)), "{calendar}");
    }
    // readings without a time belong to no time zone's day but the server's own
    let old: Schema = serde_json::from_str(r#"{"profile":"u25","channel":[{"name":"x"}]}"#).unwrap();
    assert_eq!(old.slice_seconds().unwrap(), 0);
}
