//! Questions from their registration to an analyst's release: every figure equals the figure of
//! plaintext readings, and invalid results are withheld.

use crate::fleet::{Fleet, Rows, WINDOW, rng, rows, toy};
use std::sync::Arc;
use tobari_device::{Opener, P1, Profile, READINGS, U25, transform_root};
use tobari_engine::BgvEngine;
use tobari_lattice::bgv::{Ciphertext, Encoder, Evaluator};
use tobari_sense::client::Withheld;
use tobari_sense::cloud::{CloudError, Material};
use tobari_sense::desk::Opened;
use tobari_sense::message::{self, WindowResults};
use tobari_sense::order::{Order, OrderError, is_overflow};
use tobari_sense::program::Input;
use tobari_sense::question::QuestionError;
use tobari_sense::release::{Figure, Release};
use tobari_sense::schema::ProfileName;

const SCHEMA: &str = r#"{"profile":"u25","samples":2,"channel":[
    {"name":"t","least":-40,"step":0.5,"square":true,"edges":[0,20],"above":[30,60]},
    {"name":"h","step":0.25,"square":true}],"products":[["t","h"]]}"#;
const P1_SCHEMA: &str = r#"{"profile":"p1","samples":2,"channel":[{"name":"t","least":-40,"step":0.5},{"name":"h","step":0.25}],"products":[["t","h"]]}"#;
const STATISTICS: &str = r#"[{"kind":"count"},{"kind":"sum","channel":"t"},{"kind":"mean","channel":"t"},{"kind":"variance","channel":"t"},
    {"kind":"variance","channel":"h"},{"kind":"covariance","channels":["h","t"]},{"kind":"histogram","channel":"t","edges":[0,20]},
    {"kind":"above","channel":"t","threshold":30},{"kind":"alarm","channel":"t","threshold":60,"at-least":2}]"#;

fn question(more: &str) -> String {
    format!(r#"{{"name":"q","window":{{"length":"1m"}},"least-devices":1,{more}"statistic":{STATISTICS}}}"#)
}

/// The figures of rows, computed directly: channel 0 is t, 1 is h.
fn plain<'a>(rows: impl Iterator<Item = &'a Vec<u32>>) -> Vec<Figure> {
    let rows: Vec<[i128; 2]> = rows.map(|row| [i128::from(row[0]), i128::from(row[1])]).collect();
    let n = rows.len() as i128;
    let sum = |f: &dyn Fn(&[i128; 2]) -> i128| rows.iter().map(f).sum::<i128>();
    let central = |a: usize, b: usize| n * sum(&|row| row[a] * row[b]) - sum(&|row| row[a]) * sum(&|row| row[b]);
    let t = sum(&|row| row[0]);
    let over = |fraction: i128| fraction as f64 / (n * n) as f64;
    let number = |statistic: &str, channel: &str, value: f64, exact: String| Figure::Number {
        statistic: statistic.to_owned(),
        channel: channel.to_owned(),
        value: Some(value),
        exact,
    };
    // first bytes of bins: 0 is 80 steps above -40
    let bin = |least: i128, most: i128| rows.iter().filter(|row| (least..=most).contains(&row[0])).count() as i64;
    let above = |byte: i128| rows.iter().filter(|row| row[0] > byte).count() as i64;
    vec![
        Figure::Count { value: n as u64 },
        number("sum", "t", -40.0 * n as f64 + 0.5 * t as f64, t.to_string()),
        number("mean", "t", -40.0 + 0.5 * (t as f64 / n as f64), format!("{t}/{n}")),
        number("variance", "t", 0.25 * over(central(0, 0)), format!("{}/{}", central(0, 0), n * n)),
        number("variance", "h", 0.0625 * over(central(1, 1)), format!("{}/{}", central(1, 1), n * n)),
        number("covariance", "h*t", 0.125 * over(central(0, 1)), format!("{}/{}", central(0, 1), n * n)),
        Figure::Histogram {
            channel: "t".to_owned(),
            edges: vec![0.0, 20.0],
            counts: vec![bin(0, 79), bin(80, 119), bin(120, 255)],
        },
        Figure::Above { channel: "t".to_owned(), threshold: 30.0, count: above(140), alarm: None },
        Figure::Above { channel: "t".to_owned(), threshold: 60.0, count: above(200), alarm: Some(above(200) >= 2) },
    ]
}

/// One question from sending frames to the release.
fn release<P: Profile>(fleet: &mut Fleet<P>, question: &str, sent: &Rows) -> Release {
    fleet.send(sent);
    let registered = fleet.register(question).unwrap();
    let answer = fleet.answer(&registered).unwrap();
    let mut desk = fleet.desk(&registered);
    let released = desk.open(&registered.id(), WINDOW, &answer, &fleet.registry).unwrap();
    assert_eq!(desk.counts(), Opened { released: 1, ..Opened::default() });
    released
}

#[test]
fn every_statistic_equals_the_plain_one_for_every_number_of_devices_up_to_the_bound() {
    for devices in [1, 2, 9, 254] {
        for constant in [None, Some(0), Some(255)] {
            let sent = rows(SCHEMA, devices, |device| vec![2 - device % 2], constant, devices as u64);
            let mut fleet = Fleet::<U25>::new(toy(ProfileName::U25), SCHEMA, devices);
            let released = release(&mut fleet, &question(""), &sent);
            let found = &released.groups[0];
            assert_eq!((found.devices as usize, found.frames as usize), (devices, devices));
            assert_eq!(found.figures, plain(sent.iter().flatten().flatten()), "{devices} devices, {constant:?}");
            assert_eq!((released.start_ms, released.end_ms), (WINDOW, 2 * WINDOW));
        }
    }
}

#[test]
fn a_device_too_many_is_refused_before_a_frame_is_converted_and_declared_parts_are_not() {
    let mut fleet = Fleet::<U25>::new(toy(ProfileName::U25), SCHEMA, 255);
    let refused = fleet.register(&question("")).unwrap_err();
    assert!(matches!(&refused, QuestionError::Order(error) if is_overflow(error).is_some()), "{refused}");
    assert!(fleet.register(&question(r#""group-by":"tenant","#)).is_ok());
    for constant in [Some(255), Some(0), None] {
        let sent = rows(SCHEMA, 255, |_| vec![2], constant, 3);
        fleet.frames.clear();
        let released = release(&mut fleet, &question(r#""part":254,"#), &sent);
        assert_eq!(released.groups[0].figures, plain(sent.iter().flatten().flatten()), "{constant:?}");
    }
}

#[test]
fn ten_thousand_devices_are_answered_exactly_in_declared_parts() {
    let devices = 10_000;
    let mut fleet = Fleet::<U25>::new(toy(ProfileName::U25), SCHEMA, devices);
    let refused = fleet.register(&question("")).unwrap_err();
    assert!(matches!(&refused, QuestionError::Order(error) if is_overflow(error).is_some()), "{refused}");
    for constant in [None, Some(255)] {
        let sent = rows(SCHEMA, devices, |device| vec![1 + device % 2], constant, 5);
        fleet.frames.clear();
        let released = release(&mut fleet, &question(r#""part":254,"#), &sent);
        assert_eq!(released.groups[0].figures, plain(sent.iter().flatten().flatten()), "{constant:?}");
    }
    // the same frames by tenant; each tenant has more devices than one sum may have
    let sent = rows(SCHEMA, devices, |device| vec![1 + device % 2], Some(255), 5);
    let registered = fleet.register(&question(r#""group-by":"tenant","part":254,"#)).unwrap();
    let answer = fleet.answer(&registered).unwrap();
    let released = fleet.desk(&registered).open(&registered.id(), WINDOW, &answer, &fleet.registry).unwrap();
    assert_eq!(released.groups.len(), 3);
    for (tenant, group) in released.groups.iter().enumerate() {
        let theirs =
            (0..devices).filter(|device| device % 3 == tenant).flat_map(|device| sent[device].iter().flatten());
        assert_eq!(group.figures, plain(theirs), "{}", group.group);
    }
}

#[test]
fn groups_stand_apart_and_frames_beyond_what_is_asked_are_left_out_and_counted() {
    let devices = 20;
    let sent = rows(SCHEMA, devices, |device| vec![2; device % 5], None, 6);
    let all = |device: usize| sent[device].iter().take(3).flatten();
    let mut fleet = Fleet::<U25>::new(toy(ProfileName::U25), SCHEMA, devices);
    let by_tenant = release(&mut fleet, &question(r#""group-by":"tenant","frames":3,"#), &sent);
    assert_eq!(
        by_tenant.groups.iter().map(|group| group.group.as_str()).collect::<Vec<_>>(),
        ["north", "south", "west"]
    );
    for (tenant, group) in by_tenant.groups.iter().enumerate() {
        let theirs = (0..devices).filter(|device| device % 3 == tenant).flat_map(all);
        assert_eq!(group.figures, plain(theirs), "{}", group.group);
    }
    assert_eq!(by_tenant.left_out, 4, "the fourth frames of four devices");
    // another question about the same frames
    let registered = fleet.register(&question(r#""group-by":"device","frames":3,"#)).unwrap();
    let answer = fleet.answer(&registered).unwrap();
    let by_device = fleet.desk(&registered).open(&registered.id(), 0, &answer, &fleet.registry).unwrap();
    assert_eq!(by_device.groups.len(), 16, "four devices sent nothing");
    for group in &by_device.groups {
        let device: usize = group.group[1..].parse().unwrap();
        assert_eq!(group.figures, plain(all(device)), "{}", group.group);
    }
}

/// Sums of both channels, at random and at both ends, with weights as heavy as their noise allows;
/// and sums over more devices in declared parts.
#[test]
fn weighted_sums_equal_the_plain_ones() {
    for (devices, weights) in [
        (255, (0..255).map(|device| if device % 3 == 0 { -1 } else { 1 }).collect::<Vec<i64>>()),
        (10_000, (0..10_000).map(|device| if device % 5 == 0 { -1 } else { 1 }).collect()),
        (1, vec![-85]),
        (2, vec![42, -43]),
        (12, vec![1, -3, 1, 1, 1, 4, 0, 1, 1, 1, 1, 0]),
        (61, (0..61).map(|device| if device % 2 == 0 { 2 } else { -2 }).collect::<Vec<i64>>()),
        (254, (0..254).map(|device| if device % 3 == 0 { -1 } else { 1 }).collect()),
    ] {
        let mut fleet = Fleet::<U25>::new(toy(ProfileName::U25), SCHEMA, devices);
        let named: Vec<String> = weights.iter().enumerate().map(|(d, weight)| format!("\"d{d}\":{weight}")).collect();
        let question = |part: &str| {
            let statistics = r#"[{"kind":"weighted-sum","channel":"t"},{"kind":"weighted-sum","channel":"h"}]"#;
            let named = named.join(",");
            format!(
                r#"{{"name":"w","window":{{"length":"1m"}},"least-devices":1,{part}"weights":{{{named}}},"statistic":{statistics}}}"#
            )
        };
        let is_refused = fleet.register(&question("")).is_err();
        assert_eq!(is_refused, devices > 254, "{devices}");
        let question = question(if is_refused { r#""part":254,"# } else { "" });
        for constant in [None, Some(0), Some(255)] {
            let sent = rows(SCHEMA, devices, |_| vec![2], constant, 7 + devices as u64);
            fleet.frames.clear();
            let released = release(&mut fleet, &question, &sent);
            for (channel, figure) in released.groups[0].figures.iter().enumerate() {
                let of = |device: usize| sent[device].iter().flatten().map(|row| i64::from(row[channel])).sum::<i64>();
                let expected: i64 = weights.iter().enumerate().map(|(device, weight)| weight * of(device)).sum();
                let Figure::Number { exact, .. } = figure else { panic!("a number") };
                assert_eq!(*exact, expected.to_string(), "{devices} devices, {constant:?}");
            }
        }
    }
}

#[test]
fn the_exact_path_answers_the_same_from_readings_alone() {
    // a histogram with edges that are not in the schema, and a partial last frame
    for (devices, constant) in [(1, Some(255)), (2, Some(0)), (10, None)] {
        let sent = rows(P1_SCHEMA, devices, |device| vec![1 + device % 2], constant, 8);
        let mut fleet = Fleet::<P1>::new(toy(ProfileName::P1), P1_SCHEMA, devices);
        let released = release(&mut fleet, &question(""), &sent);
        assert_eq!(released.groups[0].figures, plain(sent.iter().flatten().flatten()), "{devices} at {constant:?}");
        if devices < 10 {
            continue;
        }
        let samples = released.samples();
        let of = |name: &str| samples.iter().find(|sample| sample.name == name).unwrap();
        assert_eq!((of("samples").value, of("samples").labels.len()), (15.0, 2));
        let labels = [("question", "q"), ("group", "all"), ("channel", "t"), ("threshold", "60")];
        assert_eq!(of("alarm").labels, labels.map(|(name, value)| (name, value.to_owned())));
    }
}

/// A fleet of nine devices that sent 200 in every place but one, and its question.
fn attacked() -> (Fleet<U25>, String) {
    let mut fleet = Fleet::<U25>::new(toy(ProfileName::U25), SCHEMA, 9);
    fleet.send(&rows(SCHEMA, 9, |_| vec![2], Some(200), 9));
    (fleet, question(""))
}

/// A server's message with this result under a question, with an honest tally.
fn handed_in(fleet: &mut Fleet<U25>, order: &Order, result: Ciphertext) -> Vec<u8> {
    let seats = fleet.registry.seats();
    let tally = tobari_sense::cloud::tally(order, &seats, &fleet.frames);
    message::encode(&WindowResults { tally, results: vec![result] }).unwrap()
}

/// The only result of an honest message.
fn only(fleet: &Fleet<U25>, answer: &[u8]) -> Ciphertext {
    message::decode(answer, &fleet.setting.parameters).unwrap().results.remove(0)
}

#[test]
fn one_reading_handed_in_as_the_sum_is_withheld_where_its_slots_tell_and_passes_where_a_server_folds_it() {
    let (mut fleet, question) = attacked();
    let registered = fleet.register(&question).unwrap();
    // one device's frame, converted, with all blocks kept apart
    let single = Order { groups: vec![vec![4]], by_device: true, ..registered.order.clone() };
    let seats = fleet.registry.seats();
    let stolen = fleet.cloud.answer(&single, &seats, &fleet.frames, &mut fleet.material, &mut rng(1)).unwrap();
    let stolen = only(&fleet, &stolen);
    let message = handed_in(&mut fleet, &registered.order, stolen);
    let mut desk = fleet.desk(&registered);
    assert_eq!(desk.open(&registered.id(), 0, &message, &fleet.registry), Err(Withheld));
    // the limit in the threats page: folded over all blocks, the frame has the form of a sum, and
    // is released to the analyst
    let folded = Order { by_device: false, ..single };
    let stolen = fleet.cloud.answer(&folded, &seats, &fleet.frames, &mut fleet.material, &mut rng(2)).unwrap();
    let stolen = only(&fleet, &stolen);
    let message = handed_in(&mut fleet, &registered.order, stolen);
    let released = desk.open(&registered.id(), WINDOW, &message, &fleet.registry).unwrap();
    assert_eq!(released.groups[0].devices, 9, "the server said so");
    assert_eq!(released.groups[0].figures[0], Figure::Count { value: 2 }, "one device's two samples");
    assert_eq!(desk.counts(), Opened { released: 1, withheld: 1, refused: 0 });
}

#[test]
fn a_result_is_opened_once_and_only_for_windows_and_questions_that_there_are() {
    let (mut fleet, question) = attacked();
    let registered = fleet.register(&question).unwrap();
    let (id, answer) = (registered.id(), fleet.answer(&registered).unwrap());
    let mut desk = fleet.desk(&registered);
    assert!(desk.open(&id, 0, &answer, &fleet.registry).is_ok());
    assert_eq!(desk.open(&id, 0, &answer, &fleet.registry), Err(Withheld), "once");
    assert_eq!(desk.open(&id, 1, &answer, &fleet.registry), Err(Withheld), "no window begins there");
    assert_eq!(desk.open("0123456789abcdef", 0, &answer, &fleet.registry), Err(Withheld));
    assert_eq!(desk.counts(), Opened { released: 1, withheld: 0, refused: 3 });
    // a withheld result is not decrypted again either, and a restart remembers it
    assert_eq!(desk.open(&id, WINDOW, b"nonsense", &fleet.registry), Err(Withheld));
    assert_eq!(desk.open(&id, WINDOW, &answer, &fleet.registry), Err(Withheld));
    let mut again = fleet.desk(&registered);
    again.note_opened(&id, 0);
    assert_eq!(again.open(&id, 0, &answer, &fleet.registry), Err(Withheld));
}

/// Whether figures reveal nothing: sums of zeros only.
fn are_zero(figures: &[Figure]) -> bool {
    figures.iter().all(|figure| match figure {
        Figure::Count { value } => *value == 0,
        Figure::Number { exact, .. } => ["0", "none"].contains(&exact.as_str()),
        Figure::Vector { exact, .. } => exact.iter().all(|exact| ["0", "none"].contains(&exact.as_str())),
        Figure::Histogram { counts, .. } => counts.iter().all(|count| *count == 0),
        Figure::Above { count, alarm, .. } => *count == 0 && *alarm != Some(true),
    })
}

#[test]
fn a_devices_key_handed_in_as_a_result_is_withheld_or_tells_nothing() {
    let (mut fleet, question) = attacked();
    let registered = fleet.register(&question).unwrap();
    let mut desk = fleet.desk(&registered);
    // secrets are as small as noise: taken for sums they are zeros, and reveal nothing; scaled to
    // be read, they are out of range
    let secrets = fleet.material.cohorts[0][0].expand();
    let evaluator = Evaluator::new(&fleet.setting.parameters).unwrap();
    for (start, factor) in [(0, 1), (1, 7)] {
        let message = handed_in(&mut fleet, &registered.order, evaluator.mul_integer(&secrets, factor).unwrap());
        let released = desk.open(&registered.id(), start * WINDOW, &message, &fleet.registry).unwrap();
        assert!(are_zero(&released.groups[0].figures), "times {factor}");
    }
    for (start, factor) in [(2, fleet.setting.scheme.delta), (3, 1 << 20)] {
        let scaled = evaluator.mul_integer(&secrets, factor).unwrap();
        let message = handed_in(&mut fleet, &registered.order, scaled);
        let opened = desk.open(&registered.id(), start * WINDOW, &message, &fleet.registry);
        assert_eq!(opened, Err(Withheld), "times {factor}");
    }
    assert_eq!(desk.counts(), Opened { released: 2, withheld: 2, refused: 0 }, "attacks that show are counted");
}

/// The first polynomial of a device's key, from the registry.
fn key_polynomial(fleet: &Fleet<U25>, device: usize) -> Vec<i64> {
    let (mut values, q) = ([0; READINGS], fleet.setting.scheme.modulus);
    Opener::<U25>::new(&fleet.registry.entries()[device].root()).for_each_secret(|i, place, s| {
        if i == 0 {
            values[place] = s;
        }
    });
    Opener::<U25>::coefficients(&mut values);
    let centred = |s: u32| if i64::from(s) > q / 2 { i64::from(s) - q } else { i64::from(s) };
    values.map(centred).to_vec()
}

/// An active server's ciphertext, made from the encrypted secrets with its keys: the secrets of one
/// block alone, `Δ (s + 3)` by coefficient, in all blocks.
fn masked(fleet: &mut Fleet<U25>, block: usize) -> Ciphertext {
    let Fleet { setting, material, .. } = fleet;
    let (layout, delta, q) = (setting.layout, setting.scheme.delta, setting.scheme.modulus);
    let (evaluator, encoder) =
        (Evaluator::new(&setting.parameters).unwrap(), Encoder::new(&setting.parameters).unwrap());
    let (mut mask, mut three) = (vec![0; layout.slots()], vec![0; layout.slots()]);
    let square = i64::from(transform_root::<U25>()).pow(2) % q;
    let mut odd = i64::from(transform_root::<U25>());
    for position in 0..READINGS {
        mask[layout.slot(block, position)] = delta;
        // the transform of 3 Δ in every coefficient: its value at an odd power of the root
        let sum = (0..READINGS).fold(0, |sum, _| (sum * odd + 3 * delta) % q);
        three[layout.slot(block, position)] = sum;
        odd = odd * square % q;
    }
    let secrets = material.cohorts[0][0].expand();
    let masked = evaluator.mul_plain(&secrets, &encoder.encode(&mask).unwrap()).unwrap();
    let mut all = evaluator.add_plain(&masked, &encoder.encode(&three).unwrap()).unwrap();
    let level = setting.top_level();
    let swapped = evaluator.swap_rows(&all, &material.key(Input::Swap { level }).unwrap()).unwrap();
    all = evaluator.add(&all, &swapped).unwrap();
    for (steps, _) in layout.folds() {
        let key = material.key(Input::Rotation { steps, level }).unwrap();
        all = evaluator.add(&all, &evaluator.rotate(&all, steps, &key).unwrap()).unwrap();
    }
    all
}

/// The limit in the threats page.
#[test]
fn a_devices_key_that_is_masked_to_the_form_of_a_sum_comes_out_where_all_places_are_declared() {
    // 28 of 256 places are declared, but the key fills the others, too
    let (mut fleet, question) = attacked();
    let registered = fleet.register(&question).unwrap();
    let stolen = masked(&mut fleet, 4);
    let message = handed_in(&mut fleet, &registered.order, stolen);
    let mut desk = fleet.desk(&registered);
    assert_eq!(desk.open(&registered.id(), 0, &message, &fleet.registry), Err(Withheld));
    assert_eq!(desk.counts(), Opened { released: 0, withheld: 1, refused: 0 });
    // if every place is declared, no check fails: the analyst gets a sum that is a coefficient of
    // the key
    let schema = r#"{"profile":"u25","samples":128,"channel":[{"name":"t"}]}"#;
    let mut fleet = Fleet::<U25>::new(toy(ProfileName::U25), schema, 9);
    fleet.send(&rows(schema, 9, |_| vec![128], Some(200), 9));
    let question = r#"{"name":"q","window":{"length":"1m"},"least-devices":9,"statistic":[{"kind":"count"},{"kind":"sum","channel":"t"}]}"#;
    let registered = fleet.register(question).unwrap();
    let stolen = masked(&mut fleet, 4);
    let message = handed_in(&mut fleet, &registered.order, stolen);
    let mut desk = fleet.desk(&registered);
    let released = desk.open(&registered.id(), 0, &message, &fleet.registry).unwrap();
    assert_eq!(desk.counts(), Opened { released: 1, withheld: 0, refused: 0 }, "nobody sees an attack");
    let key = key_polynomial(&fleet, 4);
    assert!(key.iter().all(|s| s.abs() <= 3) && key.iter().any(|s| *s != 0));
    let of = |first: usize| key.iter().skip(first).step_by(2).map(|s| s + 3).sum::<i64>();
    assert_eq!(released.groups[0].devices, 9, "the server said so");
    assert_eq!(released.groups[0].figures[0], Figure::Count { value: of(0) as u64 });
    let Figure::Number { exact, .. } = &released.groups[0].figures[1] else { panic!("a number") };
    assert_eq!(*exact, of(1).to_string());
}

/// The key holder relies on this: it measures the noise, and a phase that wrapped around the
/// modulus can be small again.
#[test]
fn a_server_sends_no_result_whose_noise_may_be_too_large_or_is_unknown() {
    let (mut fleet, question) = attacked();
    let registered = fleet.register(&question).unwrap();
    let answer = fleet.answer(&registered).unwrap();
    let parameters = fleet.setting.parameters.clone();
    let prepared = fleet.cloud.prepare(&registered.order, &fleet.registry.seats(), &fleet.frames).unwrap();
    let engine = BgvEngine::new(&parameters, None, &mut rng(3)).unwrap();
    let sent = |result: &Ciphertext| prepared.message(&[Arc::new(engine.ciphertext(result.clone()).unwrap())]);
    // from bytes, its noise is unknown, whatever the bytes claim
    let mut result = message::decode(&answer, &parameters).unwrap().results.remove(0);
    assert!(matches!(sent(&result), Err(CloudError::Noise)));
    result.declare_noise(result.claimed_noise());
    let evaluator = Evaluator::new(&parameters).unwrap();
    let (mut good, mut refused) = (0, 0);
    for _ in 0..200 {
        match sent(&result) {
            Ok(bytes) => {
                assert!(result.noise_budget() > 0.0 && message::decode(&bytes, &parameters).is_ok());
                good += 1;
            }
            Err(error) => {
                assert!(result.noise_budget() <= 0.0 && matches!(error, CloudError::Noise), "{error}");
                refused += 1;
            }
        }
        result = evaluator.add(&result, &result).unwrap();
    }
    assert!(good > 5 && refused > 90, "{good} {refused}");
}

#[test]
fn results_of_another_form_are_withheld_for_the_same_reason() {
    let (mut fleet, question) = attacked();
    let registered = fleet.register(&question).unwrap();
    let (id, answer) = (registered.id(), fleet.answer(&registered).unwrap());
    let honest = message::decode(&answer, &fleet.setting.parameters).unwrap();
    let mut desk = fleet.desk(&registered);
    let evaluator = Evaluator::new(&fleet.setting.parameters).unwrap();
    let mut start = 0;
    let mut withheld = |message: WindowResults| {
        start += WINDOW;
        assert_eq!(
            desk.open(&id, start, &message::encode(&message).unwrap(), &fleet.registry),
            Err(Withheld),
            "window {start}"
        );
    };
    withheld(WindowResults { results: vec![], ..honest.clone() });
    withheld(WindowResults { results: vec![honest.results[0].clone(); 2], ..honest.clone() });
    // a tally of fewer devices than are in the sum: the sum is out of range
    withheld(WindowResults { tally: honest.tally[..1].to_vec(), ..honest.clone() });
    // a sum that all devices together cannot reach, a value in a place without a column, and a
    // product that was not relinearised
    withheld(WindowResults {
        results: vec![evaluator.mul_integer(&honest.results[0], 300).unwrap()],
        ..honest.clone()
    });
    let shifted = evaluator.add_constant(&honest.results[0], fleet.setting.scheme.delta).unwrap();
    withheld(WindowResults { results: vec![shifted], ..honest.clone() });
    let product = evaluator.tensor(&honest.results[0], &honest.results[0]).unwrap();
    withheld(WindowResults { results: vec![product], ..honest.clone() });
    let mut unknown = honest.clone();
    unknown.tally[0].number = 0;
    withheld(unknown);
    let mut many = honest.clone();
    many.tally[0].frames = 2;
    withheld(many);
    // the bound on the noise is a claim of the server, and changes nothing: a desk that compared it
    // with the noise would reveal the noise, bit by bit, to everybody who sees releases
    let claimed = honest.results[0].claimed_noise();
    let (bound, bytes) = ((1024.0 * claimed) as u32, message::encode(&honest).unwrap());
    let at = bytes.windows(4).position(|four| four == bound.to_be_bytes()).unwrap();
    let mut claim = |claimed: u32| {
        let mut bytes = bytes.clone();
        bytes[at..at + 4].copy_from_slice(&claimed.to_be_bytes());
        start += WINDOW;
        assert!(message::decode(&bytes, &fleet.setting.parameters).is_ok());
        desk.open(&id, start, &bytes, &fleet.registry).map(|release| release.groups)
    };
    let honest = claim(bound).unwrap();
    assert_eq!([0, 1, bound / 2, bound - 1, u32::MAX].map(claim), [(); 5].map(|()| Ok(honest.clone())));
    assert_eq!(desk.counts(), Opened { released: 6, withheld: 8, refused: 0 });
}

#[test]
fn devices_that_are_revoked_count_no_more_and_those_with_a_new_key_do() {
    let mut fleet = Fleet::<U25>::new(toy(ProfileName::U25), SCHEMA, 9);
    let sent = rows(SCHEMA, 9, |_| vec![2], None, 10);
    fleet.send(&sent);
    let registered = fleet.register(&question("")).unwrap();
    fleet.registry.revoke("d3").unwrap();
    let secret = tobari_sense::registry::Secret::from_bytes([9; 32]);
    fleet.registry.rotate("d5", None, secret).unwrap();
    let answer = fleet.answer(&registered).unwrap();
    let released = fleet.desk(&registered).open(&registered.id(), 0, &answer, &fleet.registry).unwrap();
    let theirs = (0..9).filter(|device| *device != 3).flat_map(|device| sent[device].iter().flatten());
    assert_eq!(released.groups[0].figures, plain(theirs));
}

#[test]
fn a_group_of_fewer_devices_than_the_least_is_not_computed() {
    let mut fleet = Fleet::<U25>::new(toy(ProfileName::U25), SCHEMA, 9);
    fleet.send(&rows(SCHEMA, 9, |device| vec![2; usize::from(device < 4)], None, 11));
    let registered = fleet.register(&question("").replace("\"least-devices\":1", "\"least-devices\":5")).unwrap();
    let refused = fleet.answer(&registered).unwrap_err();
    assert!(matches!(refused, CloudError::Order(OrderError::Empty { least: 5, .. })), "{refused}");
    let registered = fleet
        .register(&question(r#""group-by":"tenant","#).replace("\"least-devices\":1", "\"least-devices\":2"))
        .unwrap();
    let answer = fleet.answer(&registered).unwrap();
    let released = fleet.desk(&registered).open(&registered.id(), 0, &answer, &fleet.registry).unwrap();
    // d0 and d3 belong to the north, d1 to the south, d2 to the west
    assert_eq!((released.groups.len(), released.groups[0].devices, released.too_few.len()), (1, 2, 2));
}
