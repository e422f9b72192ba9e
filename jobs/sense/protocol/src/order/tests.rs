//! Orders that fit, that overflow, and that no honest party makes.

#![allow(clippy::unwrap_used, reason = "a test")]

use super::*;

fn seats(devices: u32) -> Vec<Seat> {
    (0..devices).map(|place| Seat { number: place + 100, takes: true, counts: true }).collect()
}

fn order(groups: Vec<Vec<u32>>) -> Order {
    Order {
        profile: ProfileName::U25,
        length_ms: 1000,
        every_ms: 1000,
        offset_ms: 0,
        bounds: vec![],
        lateness_ms: 0,
        sheet: 0,
        groups,
        by_device: false,
        weights: vec![],
        renewed: vec![],
        frames: 1,
        part: None,
        measures: vec![],
        least_devices: 1,
    }
}

fn all(devices: u32) -> Vec<Vec<u32>> {
    vec![(100..100 + devices).collect()]
}

/// Every text ends inside a list that is already too long. A reader that checks limits only at
/// the end would first find the end of the text.
#[test]
fn fault_32_an_order_is_read_no_further_than_its_limits() {
    let whole = serde_json::to_string(&order(all(5))).unwrap();
    for (field, list) in [
        ("groups", "[],".to_owned()),
        ("groups", "[1],".repeat(MAX_GROUPS + 1)),
        ("groups", format!("[{}", "1,".repeat(MAX_DEVICES + 1))),
        ("groups", format!("[1],[{}", "1,".repeat(MAX_DEVICES))),
        ("weights", "[1,2],".repeat(MAX_DEVICES + 1)),
        ("measures", "\"reading\",".repeat(MAX_MEASURES + 1)),
    ] {
        let (before, _) = whole.split_once(&format!("\"{field}\":[")).unwrap();
        let text = format!("{before}\"{field}\":[{list}");
        let error = serde_json::from_str::<Order>(&text).unwrap_err();
        assert!(error.is_data(), "{field}: {error}");
        assert!(error.to_string().contains("at most"), "{field}: {error}");
    }
}

#[test]
fn fault_32_the_largest_order_there_may_be_is_read() {
    let each = (MAX_DEVICES / MAX_GROUPS) as u32;
    let group = |group: u32| (group * each..(group + 1) * each).collect::<Vec<u32>>();
    let groups = (0..MAX_GROUPS as u32).map(group).collect();
    let largest = Order {
        profile: ProfileName::P1,
        weights: (0..MAX_DEVICES as u32).map(|number| (number, 1)).collect(),
        measures: vec![Taken::Within(100, 200); MAX_MEASURES],
        ..order(groups)
    };
    let text = serde_json::to_vec(&largest).unwrap();
    assert!(text.len() < 1 << 26, "what a server takes");
    let read: Order = serde_json::from_slice(&text).unwrap();
    assert!(read == largest && read.check().is_ok());
}

#[test]
fn what_may_overflow_is_refused_when_a_question_is_registered() {
    let setting = Setting::of(ProfileName::U25).unwrap();
    for (devices, frames, part, fits) in [
        (1, 1, None, true),
        (2, 127, None, true),
        (254, 1, None, true),
        (255, 1, None, false),
        (2, 128, None, false),
        (10_000, 1, None, false),
        (10_000, 1, Some(254), true),
        (10_000, 1, Some(255), false),
    ] {
        let order = Order { frames, part, ..order(all(devices)) };
        let seats = seats(devices);
        let job = order.job(&setting, &seats, &order.fullest(&seats));
        match job {
            Ok(job) => {
                assert!(fits, "{devices} devices, {frames} frames, parts of {part:?}");
                assert_eq!(job.outputs(), (devices * frames).div_ceil(part.unwrap_or(u32::MAX)) as usize);
                assert_eq!(job.answers[0].frames, u64::from(devices * frames));
            }
            Err(error) => assert!(!fits && is_overflow(&error).is_some(), "{devices} devices: {error}"),
        }
    }
    let heavy = Order { weights: vec![(100, 300), (101, -300)], ..order(all(2)) };
    assert!(is_overflow(&heavy.job(&setting, &seats(2), &heavy.fullest(&seats(2))).err().unwrap()).is_some());
}

#[test]
fn only_cohorts_and_batches_in_use_are_planned() {
    let setting = Setting::of(ProfileName::U25).unwrap();
    let tally = |number, frames| Tally { number, frames, left_out: 0 };
    let order = Order { frames: 3, ..order(vec![vec![100, 101, 180], vec![140]]) };
    let job = order.job(&setting, &seats(90), &[tally(100, 2), tally(180, 1)]).unwrap();
    // 100 is in cohort 0, 180 in cohort 2 of 32 blocks each
    assert_eq!((job.cohorts, job.batches), (vec![0, 2], vec![(0, 0), (2, 0), (0, 1)]));
    assert_eq!((job.too_few, job.answers.len()), (vec![1], 1));
    assert_eq!((job.answers[0].devices, job.answers[0].frames), (2, 3));
    let apart = Order { groups: vec![vec![100, 101, 180]], by_device: true, ..order.clone() };
    let job = apart.job(&setting, &seats(90), &[tally(100, 2), tally(180, 3)]).unwrap();
    assert_eq!(job.outputs(), 2, "one for each cohort");
    assert_eq!(job.answers.iter().map(|answer| answer.frames).collect::<Vec<_>>(), [2, 3]);
    assert_eq!((job.answers[1].group, &job.answers[1].outputs[..]), (180, &[vec![(1, Some(80 % 32))]][..]));
}

/// Devices 100 and 101 have new keys 180 and 181: two devices, however many keys.
#[test]
fn a_device_with_a_new_key_is_one_device() {
    let setting = Setting::of(ProfileName::U25).unwrap();
    let tally = |number, frames| Tally { number, frames, left_out: 0 };
    let renewed = vec![(180, 100), (181, 101)];
    let order = Order { frames: 2, renewed, least_devices: 2, ..order(vec![vec![100, 101, 102, 180, 181]]) };
    let seats = seats(90);
    let both = [tally(100, 1), tally(101, 1), tally(180, 1)];
    let job = order.job(&setting, &seats, &both).unwrap();
    assert_eq!((job.answers[0].devices, job.answers[0].frames, order.device_count()), (2, 3, 3));
    let alone = order.job(&setting, &seats, &[tally(100, 1), tally(180, 1)]).err().unwrap();
    assert!(matches!(alone, OrderError::Empty { least: 2, found: 1 }), "{alone}");
    let many = order.job(&setting, &seats, &[tally(100, 2), tally(101, 1), tally(180, 1)]).err().unwrap();
    assert!(matches!(many, OrderError::Tally(_)), "the frames of both keys count together: {many}");
    // the bound on a sum does not grow with new keys
    let full: Vec<(u32, u32)> = order.fullest(&seats).iter().map(|tally| (tally.number, tally.frames)).collect();
    assert_eq!(full, [(102, 2), (180, 2), (181, 2)]);
    let apart = Order { by_device: true, least_devices: 1, ..order.clone() };
    let job = apart.job(&setting, &seats, &both).unwrap();
    let found: Vec<_> = job.answers.iter().map(|answer| (answer.group, answer.frames, answer.weight)).collect();
    assert_eq!(found, [(100, 2, 2), (101, 1, 1)]);
    assert_eq!(job.answers[0].outputs[0].iter().map(|output| output.1).collect::<Vec<_>>(), [Some(0), Some(16)]);
    // a weight that two keys of one device share is that of one device
    let weights = vec![(100, 3), (180, 3)];
    let lone = Order { weights, ..order.clone() };
    assert_eq!(lone.lone_weight(), Some((0, 3, 1)));
    let text = serde_json::to_string(&Order { renewed: vec![], ..order.clone() }).unwrap();
    assert!(!text.contains("renewed"), "older servers read orders without new keys");
    assert_eq!(serde_json::from_str::<Order>(&serde_json::to_string(&order).unwrap()).unwrap(), order);
}

#[test]
fn a_tally_that_no_honest_server_makes_is_refused() {
    let setting = Setting::of(ProfileName::U25).unwrap();
    let tally = |number, frames| Tally { number, frames, left_out: 0 };
    let (order, mut seats) = (Order { frames: 2, ..order(all(5)) }, seats(6));
    seats[4].counts = false;
    for wrong in [
        vec![tally(101, 1), tally(100, 1)],
        vec![tally(100, 1), tally(100, 1)],
        vec![tally(100, 3)],
        vec![tally(100, 0)],
        vec![tally(105, 1)],
        vec![tally(104, 1)],
        vec![tally(7, 1)],
    ] {
        assert!(matches!(order.job(&setting, &seats, &wrong), Err(OrderError::Tally(_))), "{wrong:?}");
    }
    let few = Order { least_devices: 3, ..order };
    assert!(matches!(
        few.job(&setting, &seats, &[tally(100, 1), tally(101, 1)]),
        Err(OrderError::Empty { least: 3, found: 2 })
    ));
    for wrong in [
        Order { groups: vec![], ..few.clone() },
        Order { groups: vec![vec![3, 2]], ..few.clone() },
        Order { by_device: true, ..few.clone() },
        Order { frames: 0, ..few.clone() },
        Order { part: Some(0), ..few.clone() },
        Order { length_ms: 0, ..few.clone() },
        Order { bounds: vec![1], ..few.clone() },
        Order { bounds: vec![1, 5, 5], ..few.clone() },
        Order { measures: vec![Taken::Reading], ..few.clone() },
        Order { weights: vec![(2, 1), (1, 1)], ..few.clone() },
        Order { renewed: vec![(104, 100), (103, 100)], ..few.clone() },
        Order { renewed: vec![(103, 103)], ..few.clone() },
        Order { renewed: vec![(103, 102), (104, 103)], ..few.clone() },
        Order { renewed: vec![(777, 100)], ..few.clone() },
        Order { renewed: vec![(103, 777)], ..few.clone() },
        Order { renewed: vec![(103, 100)], weights: vec![(103, 2)], ..few.clone() },
        Order { renewed: vec![(103, 100)], groups: vec![vec![100], vec![103]], ..few.clone() },
    ] {
        assert!(wrong.check().is_err(), "{wrong:?}");
    }
}

/// Windows by their definition: all beginnings are tried.
#[test]
fn windows_between_bounds_and_even_windows_are_those_of_the_definition() {
    let bounds = [10, 12, 20, 21, 40];
    for (windows, starts) in [
        (Windows::between(&bounds), bounds[..4].to_vec()),
        (Windows::even(7, 7, 3), (0..20).map(|k| 7 * k + 3).collect()),
        (Windows::even(10, 4, 1), (0..30).map(|k| 4 * k + 1).collect()),
        (Windows::even(3, 8, 0), (0..20).map(|k| 8 * k).collect()),
    ] {
        for time in 0..60 {
            let within = |start: &&u64| (**start..windows.end(**start)).contains(&time);
            let expected: Vec<u64> = starts.iter().filter(within).copied().collect();
            assert_eq!(windows.of(time).collect::<Vec<u64>>(), expected, "{windows:?} at {time}");
            assert_eq!(windows.begins_at(time), starts.contains(&time), "{windows:?} at {time}");
            let first = starts.iter().find(|start| windows.end(**start) > time).copied();
            assert_eq!(windows.first(time), first.unwrap_or(u64::MAX), "{windows:?} at {time}");
        }
    }
    let waits = Windows::between(&bounds).waiting(5);
    assert_eq!((waits.closes(12), waits.next(12), waits.next(21), waits.end(13)), (25, 20, u64::MAX, u64::MAX));
    assert_eq!(Windows::even(5, 5, 0).next(u64::MAX), u64::MAX);
}
