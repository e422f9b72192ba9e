//! Weights of devices, from the view of an analyst who wants one device's reading: no sum
//! singles out fewer devices than its question allows.

use crate::fleet::{Fleet, Rows, WINDOW, rng, rows, toy};
use tobari_device::U25;
use tobari_sense::client::Withheld;
use tobari_sense::cloud::CloudError;
use tobari_sense::order::OrderError;
use tobari_sense::question::{QuestionError, Registered};
use tobari_sense::release::Figure;
use tobari_sense::schema::ProfileName;

const SCHEMA: &str = r#"{"profile":"u25","channel":[{"name":"t"}]}"#;

/// A question with weighted sums, of at least five devices.
fn weighted(weights: &[i64], more: &str) -> String {
    let named: Vec<String> = weights.iter().enumerate().map(|(d, weight)| format!("\"d{d}\":{weight}")).collect();
    format!(
        r#"{{"name":"q","window":{{"length":"1m"}},"least-devices":5,{more}"weights":{{{}}},"statistic":[{{"kind":"weighted-sum","channel":"t"}}]}}"#,
        named.join(",")
    )
}

fn fleet(devices: usize) -> Fleet<U25> {
    Fleet::new(toy(ProfileName::U25), SCHEMA, devices)
}

/// An analyst's result for a window: the number of devices, the number of frames, and the sum.
fn told(fleet: &mut Fleet<U25>, registered: &Registered, sent: &Rows) -> (u32, u64, i64) {
    fleet.frames.clear();
    fleet.send(sent);
    let answer = fleet.answer(registered).unwrap();
    let released = fleet.desk(registered).open(&registered.id(), WINDOW, &answer, &fleet.registry).unwrap();
    let Figure::Number { exact, .. } = &released.groups[0].figures[0] else { panic!("a number") };
    (released.groups[0].devices, released.groups[0].frames, exact.parse().unwrap())
}

#[test]
fn fault_10_a_weight_that_fewer_than_five_devices_share_is_refused_when_a_question_is_registered() {
    // an analyst's questions, week after week; the weight in the error, and the number of devices
    // that have it
    for (devices, weights, more, group, weight, found) in [
        (5, vec![0, 0, 0, 0, 1], "", "all", 1, 1),
        (5, vec![1, 1, 1, 1, 300], "", "all", 300, 1),
        (5, vec![1, 2, 4, 8, 16], "", "all", 1, 1),
        (5, vec![1, 1, 1, 1, -1], "", "all", -1, 1),
        (5, vec![0; 5], "", "all", 0, 0),
        (9, vec![7], "", "all", 7, 1),
        (9, vec![7; 4], "", "all", 7, 4),
        (9, vec![0; 5], "", "all", 1, 4),
        (10, vec![2, 2, 2, 2, 2, 3, 3, 3, 3, 0], "", "all", 3, 4),
        // the tenants' devices alternate: five devices share each weight, but not five devices of
        // the north
        (15, vec![1, 1, 1, 2, 1, 1, 2, 1, 1, 2, 1, 1, 2, 1, 1], r#""group-by":"tenant","#, "north", 1, 1),
        (10, vec![1; 5], r#""devices":["d0","d1","d2","d3","d4"],"frames":3,"#, "", 0, 5),
    ] {
        let fleet = fleet(devices);
        let registered = fleet.register(&weighted(&weights, more));
        if found >= 5 {
            registered.unwrap();
            continue;
        }
        let refused = registered.unwrap_err();
        let (g, w, f, remedy) = match &refused {
            QuestionError::Weight { group, weight, found, least: 5 } => (group, *weight, *found, "Give more devices"),
            QuestionError::Weightless { group, least: 5 } => (group, 0, 0, "give at least 5 of them another weight"),
            _ => panic!("{refused}"),
        };
        assert_eq!((g.as_str(), w, f), (group, weight, found), "{weights:?}");
        assert!(refused.to_string().contains(remedy), "{refused}");
    }
}

/// The key holder rejects a question that was registered before this rule existed, whatever its
/// server does.
#[test]
fn fault_10_a_question_with_weights_that_was_registered_earlier_is_not_taken_up() {
    let mut fleet = fleet(5);
    let lenient = weighted(&[0, 0, 0, 0, 1], "").replace("\"least-devices\":5", "\"least-devices\":1");
    let mut registered = fleet.register(&lenient).unwrap();
    fleet.send(&rows(SCHEMA, 5, |_| vec![1], None, 1));
    let answer = fleet.answer(&registered).unwrap();
    let mut desk = fleet.desk(&registered);
    assert!(desk.open(&registered.id(), 0, &answer, &fleet.registry).is_ok(), "one device means one");
    // the same question with a claimed minimum of five
    registered.question.least_devices = 5;
    registered.order.least_devices = 5;
    let refused = desk.register(registered.clone()).unwrap_err();
    assert!(matches!(refused, QuestionError::Weight { weight: 1, found: 1, least: 5, .. }), "{refused}");
    assert_eq!(desk.open(&registered.id(), 0, &answer, &fleet.registry), Err(Withheld));
    // an honest server does not compute it either
    let refused = fleet.answer(&registered).unwrap_err();
    assert!(matches!(refused, CloudError::Order(OrderError::Empty { least: 5, .. })), "{refused}");
}

/// Late or silent devices make a weight rare: the window is not computed, and not decrypted.
#[test]
fn fault_10_a_window_in_which_four_devices_share_a_weight_is_neither_computed_nor_opened() {
    let mut fleet = fleet(12);
    let weights = [1, 1, 1, 1, 1, 7, 7, 7, 7, 7, 0, 0];
    let registered = fleet.register(&weighted(&weights, "")).unwrap();
    for (silent, weight) in weights.into_iter().enumerate() {
        fleet.frames.clear();
        fleet.send(&rows(SCHEMA, 12, |device| vec![1; usize::from(device != silent)], None, silent as u64));
        if weight == 0 {
            let answer = fleet.answer(&registered).unwrap();
            let released = fleet.desk(&registered).open(&registered.id(), 0, &answer, &fleet.registry).unwrap();
            assert_eq!((released.groups[0].devices, released.groups[0].frames), (10, 10), "zeros do not count");
            continue;
        }
        let refused = fleet.answer(&registered).unwrap_err();
        assert!(matches!(refused, CloudError::Order(OrderError::Empty { least: 5, .. })), "{silent}: {refused}");
        // if a server computes it nevertheless, the key holder does not decrypt it
        let mut lenient = registered.order.clone();
        lenient.least_devices = 1;
        let seats = fleet.registry.seats();
        let answer = fleet.cloud.answer(&lenient, &seats, &fleet.frames, &mut fleet.material, &mut rng(1)).unwrap();
        let mut desk = fleet.desk(&registered);
        assert_eq!(desk.open(&registered.id(), 0, &answer, &fleet.registry), Err(Withheld), "{silent}");
    }
    // the next window has all of them
    let sent = rows(SCHEMA, 12, |_| vec![1], None, 99);
    let sum = (0..12).map(|d| weights[d] * i64::from(sent[d][0][0][0])).sum::<i64>();
    assert_eq!(told(&mut fleet, &registered, &sent), (10, 10, sum));
}

/// The analyst's best case: readings of yes or no, all weights known, and a long history of one
/// question with changing devices. Each device has a partner of the same weight. If the two
/// readings were swapped in every window, every figure would be the same.
#[test]
fn fault_10_no_history_of_a_question_tells_one_device_from_another_of_its_weight() {
    let weights = [1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 0, 2];
    let mut fleet = fleet(12);
    let registered = fleet.register(&weighted(&weights, "")).unwrap();
    let mut history = |swap: Option<(usize, usize)>| {
        let mut all = Vec::new();
        for window in 0..6 {
            // one device of weight 2 is silent in every other window
            let silent = if window % 2 == 1 { 11 } else { usize::MAX };
            let mut sent = rows(SCHEMA, 12, |device| vec![1; usize::from(device != silent)], None, window);
            sent.iter_mut().flatten().flatten().for_each(|row| row[0] &= 1);
            if let Some((a, b)) = swap {
                sent.swap(a, b);
            }
            all.push(told(&mut fleet, &registered, &sent));
        }
        all
    };
    let found = history(None);
    for (device, other) in [(0, 2), (1, 3), (4, 8), (5, 9), (6, 0), (7, 1)] {
        assert_eq!(history(Some((device, other))), found, "{device} and {other}");
    }
    assert_eq!(found.iter().map(|told| told.0).collect::<Vec<_>>(), [11, 10, 11, 10, 11, 10]);
}

/// The limit in the threats page: a rule for each question does not protect against two questions.
#[test]
fn fault_10_two_questions_that_differ_by_a_device_still_tell_it() {
    let mut fleet = fleet(6);
    let ones = fleet.register(&weighted(&[1; 6], "")).unwrap();
    let without = fleet.register(&weighted(&[1, 1, 1, 1, 1, 0], "")).unwrap();
    let sent = rows(SCHEMA, 6, |_| vec![1], None, 5);
    let (all, five) = (told(&mut fleet, &ones, &sent), told(&mut fleet, &without, &sent));
    assert_eq!((all.0, five.0), (6, 5), "devices that count");
    assert_eq!(all.2 - five.2, i64::from(sent[5][0][0][0]), "the sixth device's reading, exactly");
}
