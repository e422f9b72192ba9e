//! The paper's own costs and policy: its tables 6 to 14.
//!
//! [`layers`] and [`PaperMoves`] hold the paper's measurements (tables 6 to 10, one thread of a
//! Xeon Gold 6334, SEAL 3.6.6, Gramine-SGX). [`policy`] holds the choice that its tables 11 and 12
//! make by hand. Priced by the planner, they give its tables 13 and 14 to the millisecond, except
//! for one cell. The cell without integrity and without side channels is 561,345 ms in table 13,
//! but the paper's own numbers add up to 554,251. The excess is about as many milliseconds as the
//! transfers take microseconds.
//!
//! The policy of that cell is not the cheapest, either: under the same assumptions plain numbers in
//! the enclave take 340 ms, and their results are also right. [`Inference::place`] finds that
//! placement. In table 14, the column whose enclave memory may be observed also decrypts
//! activations in the enclave; here that must be allowed explicitly ([`Inside::Yes`]).

use super::placement::{ENCLAVE, Inference, Inside, Layer, Mode, Moves, PROCESS, Protect, Way};
use tobari_plan::place::{Data, PlaceError, Placement};
use tobari_plan::segment::Form;

/// Table 6 in ms, by layer: in the process with plain numbers, user data encrypted, both encrypted;
/// then the same in the enclave.
const LATENCY: [(&str, bool, [f64; 6]); 5] = [
    ("conv1", true, [3.97, 22_989.0, 35_008.0, 6.31, 29_897.0, 46_048.0]),
    ("act1", false, [0.04, 3_025.0, 5_388.0, 0.07, 3_684.0, 6_473.0]),
    ("conv2", true, [201.79, 341_700.0, 663_661.0, 324.71, 488_113.0, 978_755.0]),
    ("act2", false, [0.74, 15_206.0, 26_625.0, 1.08, 18_415.0, 32_211.0]),
    ("fc", true, [5.81, 14_502.0, 15_917.0, 7.34, 17_862.0, 19_650.0]),
];

/// Table 10 in ms: the same at level 1, without the columns of plain numbers.
pub const LATENCY_AT_ONE: [(&str, [f64; 4]); 5] = [
    ("conv1", [5_923.0, 9_564.0, 7_601.0, 12_369.0]),
    ("act1", [914.0, 1_588.0, 1_122.0, 1_924.0]),
    ("conv2", [166_154.0, 325_802.0, 239_673.0, 477_937.0]),
    ("act2", [9_137.0, 15_896.0, 11_296.0, 19_196.0]),
    ("fc", [14_562.0, 15_958.0, 18_121.0, 19_678.0]),
];

/// Table 7 in µs, by level of the ciphertext: into the enclave, and out of it.
const TRANSFER: [[f64; 6]; 2] =
    [[23.39, 43.68, 78.61, 139.53, 168.06, 186.25], [14.02, 44.32, 71.32, 99.54, 123.87, 155.67]];

/// Tables 8 and 9 in ms: encoding and encryption at level 1, decryption and decoding at level 0,
/// both in the enclave.
const ENCRYPT: f64 = 5.62 + 155.54;
const DECRYPT: f64 = 11.17 + 2.92;

/// Ciphertexts between the layers: one for each channel.
const CIPHERTEXTS: [u64; 6] = [1, 5, 5, 50, 50, 10];

/// Bytes of a ciphertext: two parts of `2^14` coefficients, eight bytes for each prime (formula 1).
fn ciphertext_bytes(level: u16) -> u64 {
    2 * (1 << 14) * (u64::from(level) + 1) * 8
}

fn form(stage: usize, level: u16) -> Form {
    Form::Encrypted { level, layout: format!("{} ciphertexts", CIPHERTEXTS[stage]) }
}

/// The paper's network with its costs. With `at_level_one`, encrypted layers take ciphertexts of
/// level 1 (table 10), so each layer needs a reset before it. Otherwise the levels go down from 5
/// (table 6).
pub fn layers(at_level_one: bool) -> Vec<Layer> {
    let layer = |stage: usize| {
        let (name, weights, seconds) = LATENCY[stage];
        let level = if at_level_one { 1 } else { 5 - stage as u16 };
        let plain = Way {
            mode: Mode::Plain,
            takes: Form::Plain,
            gives: Form::Plain,
            bytes: [8 * 784; 2],
            seconds: [seconds[0] / 1e3, seconds[3] / 1e3],
            checked: false,
        };
        let encrypted = [Mode::UserData, Mode::Both].into_iter().enumerate().map(|(i, mode)| Way {
            mode,
            takes: form(stage, level),
            gives: form(stage + 1, level - 1),
            bytes: [CIPHERTEXTS[stage] * ciphertext_bytes(level), CIPHERTEXTS[stage + 1] * ciphertext_bytes(level - 1)],
            seconds: match at_level_one {
                true => [LATENCY_AT_ONE[stage].1[i] / 1e3, LATENCY_AT_ONE[stage].1[2 + i] / 1e3],
                false => [seconds[1 + i] / 1e3, seconds[4 + i] / 1e3],
            },
            checked: false,
        });
        Layer { name: name.to_owned(), weights, ways: std::iter::once(plain).chain(encrypted).collect() }
    };
    (0..LATENCY.len()).map(layer).collect()
}

/// The paper's measurements of moves.
pub struct PaperMoves;

/// The number of ciphertexts, and their level.
fn ciphertexts(data: Data<'_>) -> Option<(u64, u16)> {
    let Form::Encrypted { level, .. } = data.form else { return None };
    Some((data.bytes / ciphertext_bytes(*level), *level))
}

impl Moves for PaperMoves {
    fn transfer(&self, data: Data<'_>, into_enclave: bool) -> f64 {
        let microseconds = &TRANSFER[usize::from(!into_enclave)];
        match ciphertexts(data) {
            Some((count, level)) => count as f64 * microseconds[usize::from(level).min(5)] / 1e6,
            // the paper does not count transfers of plain numbers, which are few
            None => 0.0,
        }
    }

    fn encrypt(&self, to: Data<'_>, _: bool) -> f64 {
        ciphertexts(to).map_or(0.0, |(count, _)| count as f64 * ENCRYPT / 1e3)
    }

    fn decrypt(&self, from: Data<'_>, _: bool) -> f64 {
        ciphertexts(from).map_or(0.0, |(count, _)| count as f64 * DECRYPT / 1e3)
    }

    fn mask(&self, _: Data<'_>, _: Data<'_>) -> f64 {
        f64::INFINITY // the paper has no such thing
    }
}

/// The paper's network for [`layers`] with resets after each layer (tables 10 and 14) or without
/// (tables 6 and 13).
pub fn inference(layers: &[Layer]) -> Inference<'_> {
    let inputs = layers.first().into_iter().flat_map(|layer| &layer.ways).map(|way| (way.takes.clone(), way.bytes[0]));
    let mut inputs: Vec<(Form, u64)> = inputs.collect();
    inputs.dedup();
    Inference { layers, inputs, masked_level: None, moves: &PaperMoves }
}

/// The protection of one cell of tables 13 and 14.
pub fn protect(integrity: bool, side_channels: bool, resets: bool) -> Protect {
    Protect {
        user_data: true,
        model: true,
        integrity,
        side_channels,
        active_host: false,
        plain_in_enclave: resets.then_some(Inside::Yes),
        enclave: true,
        key_in_enclave: true,
    }
}

/// Tables 11 and 12: the mode and the site of a layer with weights, and of an activation.
pub fn policy(weights: bool, integrity: bool, side_channels: bool) -> (Mode, usize) {
    match (weights, integrity, side_channels) {
        (true, true, true) => (Mode::Both, ENCLAVE),
        (true, false, true) => (Mode::Both, PROCESS),
        (_, true, false) => (Mode::Plain, ENCLAVE),
        (true, false, false) | (false, true, true) => (Mode::UserData, ENCLAVE),
        (false, false, _) => (Mode::UserData, PROCESS),
    }
}

/// One cell of table 13 (with `resets`, of table 14), by the paper's policy.
///
/// # Errors
/// [`PlaceError`] if the policy cannot be followed.
pub fn cell(integrity: bool, side_channels: bool, resets: bool) -> Result<Placement, PlaceError> {
    let layers = layers(resets);
    inference(&layers).place_among(&protect(integrity, side_channels, resets), &|layer, way, site| {
        (way.mode, site) == policy(layers[layer].weights, integrity, side_channels)
    })
}

/// One cell of tables 13 and 14.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Whether results must be right.
    pub integrity: bool,
    /// Whether an attacker may observe the enclave.
    pub side_channels: bool,
    /// Whether levels are reset: table 14.
    pub resets: bool,
    /// The number that the paper printed, in ms.
    pub printed: f64,
}

/// Computed times of a [`Cell`], in ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellTimes {
    /// The time of the paper's policy.
    pub policy: f64,
    /// The time of the cheapest placement.
    pub cheapest: f64,
}

/// All cells of both tables, in the paper's order.
pub const CELLS: [Cell; 8] = [
    Cell { integrity: true, side_channels: true, resets: false, printed: 1_066_692.0 },
    Cell { integrity: true, side_channels: false, resets: false, printed: 340.0 },
    Cell { integrity: false, side_channels: true, resets: false, printed: 732_958.0 },
    Cell { integrity: false, side_channels: false, resets: false, printed: 561_345.0 },
    Cell { integrity: true, side_channels: true, resets: true, printed: 541_820.0 },
    Cell { integrity: true, side_channels: false, resets: true, printed: 340.0 },
    Cell { integrity: false, side_channels: true, resets: true, printed: 380_801.0 },
    Cell { integrity: false, side_channels: false, resets: true, printed: 294_868.0 },
];

impl Cell {
    /// The number of the cell's table.
    pub fn table(&self) -> u32 {
        if self.resets { 14 } else { 13 }
    }

    /// The times of the cell by the paper's costs, in ms.
    ///
    /// # Errors
    /// [`PlaceError`] if the policy cannot be followed.
    pub fn found(&self) -> Result<CellTimes, PlaceError> {
        let policy = cell(self.integrity, self.side_channels, self.resets)?;
        let layers = layers(self.resets);
        let best = inference(&layers).place(&protect(self.integrity, self.side_channels, self.resets))?;
        Ok(CellTimes { policy: 1e3 * policy.seconds, cheapest: 1e3 * best.seconds })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    fn milliseconds(placement: &Placement) -> f64 {
        1e3 * placement.seconds
    }

    #[test]
    fn the_papers_policy_and_costs_give_its_tables_13_and_14() {
        for cell in CELLS {
            // see the head of this file
            let slip = !cell.integrity && !cell.side_channels && !cell.resets;
            let (expected, found) = (if slip { 554_251.0 } else { cell.printed }, cell.found().unwrap().policy);
            assert!((found - expected).abs() < 1.5, "{cell:?}: {found}");
        }
    }

    #[test]
    fn the_papers_three_ways_of_section_6_1_come_out() {
        // encrypted outside, plain activations in the enclave
        let rows = layers(true);
        let free = Protect { model: false, ..protect(false, false, true) };
        let mixed = inference(&rows).place_among(&free, &|layer, way, site| match rows[layer].weights {
            true => (way.mode, site) == (Mode::UserData, PROCESS),
            false => (way.mode, site) == (Mode::Plain, ENCLAVE),
        });
        assert!((milliseconds(&mixed.unwrap()) - 196_424.0).abs() < 1.5);
        for (mode, at, printed) in [(Mode::UserData, ENCLAVE, 558_112.0), (Mode::Both, PROCESS, 746_740.0)] {
            let rows = layers(false);
            let all = inference(&rows).place_among(&free, &|_, way, site| (way.mode, site) == (mode, at));
            assert!((milliseconds(&all.unwrap()) - printed).abs() < 1.5);
        }
    }

    #[test]
    fn the_cheapest_is_never_dearer_than_the_papers_policy_and_cheaper_where_that_errs() {
        for (integrity, side_channels, resets) in (0..8).map(|bits| (bits & 1 == 1, bits & 2 == 2, bits & 4 == 4)) {
            let rows = layers(resets);
            let best = inference(&rows).place(&protect(integrity, side_channels, resets)).unwrap();
            let theirs = cell(integrity, side_channels, resets).unwrap();
            assert!(best.seconds <= theirs.seconds);
            if !side_channels {
                assert!((milliseconds(&best) - 339.51).abs() < 1e-6, "plain numbers in the enclave");
            }
        }
    }
}
