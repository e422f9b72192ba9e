//! Placements of small jobs, compared with all possible ones.

use proptest::prelude::*;
use tobari_plan::place::{Choice, Conversion, Data, PlaceCosts, PlaceError, Placement, place};
use tobari_plan::program::Program;
use tobari_plan::segment::{Form, Job, Segment, Trust, Variant};
use tobari_plan::site::{Guard, KeyDomain, Owner, Secrecy, Site};

struct Costs(u64);

impl Costs {
    fn of(&self, text: &str) -> f64 {
        let hash = text.bytes().fold(self.0, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        1.0 + ((hash >> 20) % 1000) as f64
    }
}

impl PlaceCosts for Costs {
    fn run(&self, _: &Segment, variant: &Variant, site: &Site) -> f64 {
        self.of(&format!("{} {}", variant.name, site.name))
    }

    fn transfer(&self, data: Data<'_>, from: &Site, to: &Site) -> f64 {
        self.of(&format!("{} {} {}", data.form, from.name, to.name)) / 3.0
    }

    fn convert(&self, conversion: Conversion, from: Data<'_>, to: Option<Data<'_>>, site: &Site) -> f64 {
        let to = to.map(|to| to.form.to_string());
        self.of(&format!("{conversion} {} {to:?} {}", from.form, site.name)) / 3.0
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

/// Stages that take two levels each if encrypted, from three on; the data arrives encrypted or
/// through a channel.
fn job(stages: usize) -> Job {
    let variant = |stage: usize, name: &str, takes: Form, gives: Form| Variant {
        name: format!("{name} {stage}"),
        takes,
        gives,
        bytes: [10, 10],
        program: Program::default(),
        holds: Vec::new(),
        trust: Trust { checked: name == "first", passive_only: name == "encrypted" },
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
        inputs: vec![(encrypted(3), 10), (Form::Plain, 10)],
        outputs: vec![encrypted(0), Form::Plain],
        integrity: false,
        active: false,
        masked_level: None,
    }
}

/// The same job with further requirements, by the bits of a number; with some, the enclave's memory
/// may be observed.
fn job_and_sites(stages: usize, bits: u8) -> (Job, [Site; 2]) {
    let (mut job, mut sites) = (job(stages), sites());
    let set = |bit: u32| bits >> bit & 1 == 1;
    (job.integrity, job.active, job.masked_level) = (set(0), set(1), set(2).then_some(1));
    if set(3) {
        sites[1].trusted_by.clear();
    }
    if set(4) {
        job.outputs = vec![Form::Plain];
    }
    (job, sites)
}

/// Seconds of the cheapest of all placements that pass the check.
fn exhaustively(job: &Job, sites: &[Site], costs: &Costs) -> Option<f64> {
    let moved = |form: &Form, from: usize, to: usize| match from == to {
        true => 0.0,
        false => costs.transfer(Data { form, bytes: 10 }, &sites[from], &sites[to]),
    };
    let converted = |conversion, from: &Form, to: Option<&Form>, by: usize| {
        let [from, to] = [Some(from), to].map(|form| form.map(|form| Data { form, bytes: 10 }));
        costs.convert(conversion, from.unwrap(), to, &sites[by])
    };
    let mut cheapest: Option<f64> = None;
    for input in 0..job.inputs.len() {
        let mut ways: Vec<(Vec<Choice>, f64, usize, Form)> = vec![(Vec::new(), 0.0, 0, job.inputs[input].0.clone())];
        for segment in &job.segments {
            let mut next = Vec::new();
            for (choices, seconds, at, form) in &ways {
                for (v, variant) in segment.variants.iter().enumerate() {
                    for (s, site) in sites.iter().enumerate() {
                        let run = costs.run(segment, variant, site);
                        let kinds =
                            [Conversion::Encrypt, Conversion::Decrypt, Conversion::Reset, Conversion::MaskedReset];
                        let ways = kinds.into_iter().flat_map(|c| [Some((c, 0)), Some((c, 1))]).chain([None]);
                        for conversion in ways {
                            let there = match conversion {
                                None => moved(form, *at, s),
                                Some((c, by)) => {
                                    let done = converted(c, form, Some(&variant.takes), by);
                                    moved(form, *at, by) + done + moved(&variant.takes, by, s)
                                }
                            };
                            let mut choices = choices.clone();
                            choices.push(Choice { variant: v, site: s, conversion, seconds: [there, run] });
                            next.push((choices, seconds + there + run, s, variant.gives.clone()));
                        }
                    }
                }
            }
            // a rejected beginning cannot become a valid placement
            next.retain(|(choices, ..)| {
                let mut part = job.clone();
                part.segments.truncate(choices.len());
                part.outputs = vec![encrypted(0), Form::Plain];
                Placement { input, choices: choices.clone(), release: None, seconds: 0.0 }.check(&part, sites).is_ok()
            });
            ways = next;
        }
        for (choices, seconds, at, form) in ways {
            for release in [None, Some(0), Some(1)] {
                let last = release.map(|by| (Conversion::Release, by, 0.0));
                let way = Placement { input, choices: choices.clone(), release: last, seconds: 0.0 };
                let more =
                    release.map_or(0.0, |by| moved(&form, at, by) + converted(Conversion::Release, &form, None, by));
                if way.check(job, sites).is_ok() {
                    cheapest = Some(cheapest.map_or(seconds + more, |least| least.min(seconds + more)));
                }
            }
        }
    }
    cheapest
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_placement_is_the_cheapest_that_is_allowed(seed: u64, stages in 1usize..4, bits in 0u8..32) {
        let ((job, sites), costs) = (job_and_sites(stages, bits), Costs(seed));
        let best = exhaustively(&job, &sites, &costs);
        match place(&job, &sites, 0, &costs) {
            Ok(found) => {
                found.check(&job, &sites).unwrap();
                prop_assert!((found.seconds - best.unwrap()).abs() < 1e-9, "{} {best:?}", found.seconds);
            }
            Err(error) => prop_assert!(best.is_none(), "{error} {best:?}"),
        }
    }

    #[test]
    fn a_plain_process_never_sees_plain_data_nor_gets_to_convert(seed: u64, stages in 1usize..6) {
        let (job, sites) = (job(stages), sites());
        let found = place(&job, &sites, 0, &Costs(seed)).unwrap();
        for (segment, choice) in job.segments.iter().zip(&found.choices) {
            let plain = segment.variants[choice.variant].takes == Form::Plain;
            prop_assert!(!(plain && choice.site == 0) && choice.conversion.is_none_or(|(_, by)| by == 1));
        }
        // and the check rejects a placement there
        let plain = Choice { variant: 2, site: 0, conversion: Some((Conversion::Decrypt, 1)), seconds: [0.0; 2] };
        let mut choices = found.choices;
        choices[0] = plain;
        let refused = Placement { input: 0, choices, release: None, seconds: 0.0 }.check(&job, &sites).unwrap_err();
        let held = matches!(refused, PlaceError::MayNotHold { .. });
        prop_assert!(held, "{}", refused);
    }
}

#[test]
fn what_the_requirements_rule_out_is_refused_by_name() {
    let reasons = |job: &Job, sites: &[Site]| place(job, sites, 0, &Costs(1)).unwrap_err().to_string();
    let [server, enclave] = sites();
    // an unchecked result where results must be right
    let (mut honest, _) = job_and_sites(1, 1);
    honest.inputs.truncate(1);
    let found = place(&honest, &[server.clone(), enclave.clone()], 0, &Costs(1)).unwrap();
    assert!(found.choices[0].site == 1 || found.choices[0].variant == 1);
    honest.segments[0].variants.truncate(1);
    assert!(reasons(&honest, std::slice::from_ref(&server)).contains("nothing tells whether its result is right"));
    // a secret that is safe only from a passive site
    let (mut passive, _) = job_and_sites(1, 2);
    passive.segments[0].variants.truncate(1);
    assert!(reasons(&passive, std::slice::from_ref(&server)).contains("could have what it holds decrypted"));
    place(&passive, &[server.clone(), enclave.clone()], 0, &Costs(1)).unwrap();
    // a reset where no site may see the data, with a mask and without
    for (bits, possible) in [(0b01100u8, true), (0b01000, false)] {
        let (mut watched, sites) = job_and_sites(3, bits);
        watched.outputs = vec![encrypted(0)];
        let placed = place(&watched, &sites, 0, &Costs(1));
        assert_eq!(placed.is_ok(), possible, "{placed:?}");
        let mut resets = placed.iter().flat_map(|placement| &placement.choices).filter_map(|choice| choice.conversion);
        assert!(resets.all(|(conversion, by)| conversion == Conversion::MaskedReset && by == 1));
    }
    // a result that only a site with the key can release
    let (plain, sites) = job_and_sites(1, 0b11000);
    let found = place(&plain, &sites, 0, &Costs(1)).unwrap();
    assert!(matches!(found.release, Some((Conversion::Release, 1, _))));
    assert!(found.explain(&plain, &sites).contains("the result is released at enclave"));
    assert!(matches!(place(&plain, &[server], 0, &Costs(1)), Err(PlaceError::Output { .. })));
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
