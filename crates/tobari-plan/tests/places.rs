//! Placements of small jobs, against all that are possible.

#![allow(clippy::unwrap_used, reason = "a test")]

use proptest::prelude::*;
use tobari_plan::place::{Choice, Conversion, PlaceCosts, PlaceError, Placement, place};
use tobari_plan::program::Program;
use tobari_plan::segment::{Form, Job, Segment, Variant};
use tobari_plan::site::{Guard, KeyDomain, Owner, Secrecy, Site};

struct Costs(u64);

impl Costs {
    fn of(&self, text: &str) -> f64 {
        let hash = text.bytes().fold(self.0, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        1.0 + ((hash >> 20) % 1000) as f64
    }
}

impl PlaceCosts for Costs {
    fn run(&self, variant: &Variant, site: &Site) -> f64 {
        self.of(&format!("{} {}", variant.name, site.name))
    }

    fn transfer(&self, bytes: u64, from: &Site, to: &Site) -> f64 {
        self.of(&format!("{bytes} {} {}", from.name, to.name)) / 3.0
    }

    fn convert(&self, conversion: Conversion, bytes: u64, site: &Site) -> f64 {
        self.of(&format!("{conversion} {bytes} {}", site.name)) / 3.0
    }
}

fn client() -> Owner {
    Owner("client".to_owned())
}

/// A server and an enclave that has the client's key.
fn sites() -> [Site; 2] {
    let mut enclave = Site::blind("enclave", 1, 1 << 30);
    enclave.guard = Guard::SimulatedEnclave;
    enclave.keys.push(KeyDomain("client".to_owned()));
    enclave.trusted_by.push(client());
    [Site::blind("server", 1, 1 << 30), enclave]
}

fn encrypted(level: u16) -> Form {
    Form::Encrypted { level, layout: "rows".to_owned() }
}

/// Stages that take two levels each if encrypted, from three.
fn job(stages: usize) -> Job {
    let variant = |stage: usize, name: &str, takes: Form, gives: Form| Variant {
        name: format!("{name} {stage}"),
        takes,
        gives,
        bytes: [10, 10],
        program: Program::default(),
        holds: Vec::new(),
    };
    let segments = (0..stages).map(|stage| Segment {
        name: format!("stage {stage}"),
        variants: vec![
            variant(stage, "encrypted", encrypted(2), encrypted(0)),
            variant(stage, "first", encrypted(3), encrypted(1)),
            variant(stage, "plain", Form::Plain, Form::Plain),
        ],
    });
    Job {
        segments: segments.collect(),
        owner: client(),
        key: KeyDomain("client".to_owned()),
        input: (encrypted(3), 10),
        outputs: vec![encrypted(0), Form::Plain],
    }
}

/// Seconds of the cheapest of all placements that the check lets pass.
fn exhaustively(job: &Job, sites: &[Site], costs: &Costs) -> Option<f64> {
    let mut ways: Vec<(Vec<Choice>, f64, usize, Form)> = vec![(Vec::new(), 0.0, 0, job.input.0.clone())];
    for segment in &job.segments {
        let mut next = Vec::new();
        for (choices, seconds, at, _) in &ways {
            for (v, variant) in segment.variants.iter().enumerate() {
                for s in 0..sites.len() {
                    let run = costs.run(variant, &sites[s]);
                    let move_to = |from: usize, to: usize| match from == to {
                        true => 0.0,
                        false => costs.transfer(10, &sites[from], &sites[to]),
                    };
                    let conversions = [Conversion::Encrypt, Conversion::Decrypt, Conversion::Reset];
                    let ways = conversions.into_iter().flat_map(|c| [Some((c, 0)), Some((c, 1))]).chain([None]);
                    for conversion in ways {
                        let moved = match conversion {
                            None => move_to(*at, s),
                            Some((c, by)) => move_to(*at, by) + costs.convert(c, 10, &sites[by]) + move_to(by, s),
                        };
                        let mut choices = choices.clone();
                        choices.push(Choice { variant: v, site: s, conversion, seconds: [moved, run] });
                        next.push((choices, seconds + moved + run, s, variant.gives.clone()));
                    }
                }
            }
        }
        // what is no way so far never becomes one
        next.retain(|(choices, ..)| {
            let mut part = job.clone();
            part.segments.truncate(choices.len());
            part.outputs = vec![encrypted(0), Form::Plain];
            Placement { choices: choices.clone(), seconds: 0.0 }.check(&part, sites).is_ok()
        });
        ways = next;
    }
    ways.into_iter().map(|way| way.1).min_by(f64::total_cmp)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_placement_is_the_cheapest_that_is_allowed(seed: u64, stages in 1usize..4) {
        let (job, sites, costs) = (job(stages), sites(), Costs(seed));
        let found = place(&job, &sites, 0, &costs).unwrap();
        found.check(&job, &sites).unwrap();
        let best = exhaustively(&job, &sites, &costs).unwrap();
        prop_assert!((found.seconds - best).abs() < 1e-9, "{} {best}", found.seconds);
    }

    #[test]
    fn a_plain_process_never_sees_plain_data_nor_gets_to_convert(seed: u64, stages in 1usize..6) {
        let (job, sites) = (job(stages), sites());
        let found = place(&job, &sites, 0, &Costs(seed)).unwrap();
        for (segment, choice) in job.segments.iter().zip(&found.choices) {
            let plain = segment.variants[choice.variant].takes == Form::Plain;
            prop_assert!(!(plain && choice.site == 0) && choice.conversion.is_none_or(|(_, by)| by == 1));
        }
        // and whoever puts it there is refused
        let plain = Choice { variant: 2, site: 0, conversion: Some((Conversion::Decrypt, 1)), seconds: [0.0; 2] };
        let mut choices = found.choices;
        choices[0] = plain;
        let refused = Placement { choices, seconds: 0.0 }.check(&job, &sites).unwrap_err();
        let held = matches!(refused, PlaceError::MayNotHold { .. });
        prop_assert!(held, "{}", refused);
    }
}

#[test]
fn without_an_enclave_what_needs_one_is_refused_with_the_reasons() {
    let (job, [server, _]) = (job(2), sites());
    let error = place(&job, &[server], 0, &Costs(1)).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("stage 1") && text.contains("nothing leads there") && text.contains("a secret of client"),
        "{text}"
    );
}

#[test]
fn weights_of_others_stay_where_their_owner_allows() {
    let (mut job, [server, mut enclave]) = (job(1), sites());
    let hospital = Owner("hospital".to_owned());
    for variant in &mut job.segments[0].variants {
        variant.holds.push(("weights".to_owned(), Secrecy::Secret { owner: hospital.clone() }));
    }
    let error = place(&job, &[server.clone(), enclave.clone()], 0, &Costs(1)).unwrap_err();
    assert!(error.to_string().contains("weights, a secret of hospital"), "{error}");
    enclave.trusted_by.push(hospital);
    let sites = [server, enclave];
    let found = place(&job, &sites, 0, &Costs(1)).unwrap();
    assert_eq!(found.choices[0].site, 1);
    assert!(found.explain(&job, &sites).contains("at enclave"));
}
