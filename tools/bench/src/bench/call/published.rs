//! The values that the paper printed (Ueno, Mitsunari, Kobayashi, Murakami: tables 4 to 6).

/// The frequency of the client, in table 4.
pub(super) const CLIENT_GHZ: f64 = 1.4;
/// The frequency of the server, in table 6.
pub(super) const SERVER_GHZ: f64 = 2.7;
/// Threads of table 4.
pub(super) const CLIENT_THREADS: u32 = 4;

/// A row of tables 4 and 5, in clocks and megabits a second.
pub(super) struct CurveRow {
    /// Our name of the curve; `NIST_P384` is our `secp384r1`.
    pub(super) curve: &'static str,
    /// Encryption, addition, decryption.
    pub(super) clocks: [u32; 3],
    /// Their sum, as printed.
    pub(super) chain_clocks: u32,
    /// For points in Jacobian coordinates.
    pub(super) uplink_mbps: f64,
}

/// Tables 4 and 5.
pub(super) const CURVES: [CurveRow; 10] = [
    row("secp160k1", [4_314, 362, 20_511], 25_186, 15.36),
    row("p160_1", [4_283, 372, 26_481], 31_136, 15.36),
    row("secp192k1", [6_443, 404, 33_344], 40_191, 18.43),
    row("secp224k1", [9_674, 533, 41_615], 51_821, 21.50),
    row("secp256k1", [12_557, 582, 39_404], 52_544, 24.58),
    row("secp384r1", [44_396, 1_205, 189_133], 234_734, 36.86),
    row("NIST_P192", [4_733, 332, 27_395], 32_460, 18.43),
    row("NIST_P224", [9_809, 524, 49_450], 59_784, 21.50),
    row("NIST_P256", [11_650, 552, 59_717], 71_919, 24.58),
    row("NIST_P384", [43_558, 1_362, 197_349], 242_269, 36.86),
];

const fn row(curve: &'static str, clocks: [u32; 3], chain_clocks: u32, uplink_mbps: f64) -> CurveRow {
    CurveRow { curve, clocks, chain_clocks, uplink_mbps }
}

/// Speakers of table 6.
pub(super) const INPUTS: [usize; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/// Table 6: threads, and the clocks of a sum for each number of speakers.
pub(super) const SUMS: [(usize, [u32; 11]); 8] = [
    (1, [418, 2168, 5606, 12_479, 26_247, 53_646, 189_133, 218_372, 437_780, 875_454, 1_751_803]),
    (2, [2591, 3517, 4615, 6206, 9922, 16_697, 30_323, 57_646, 112_616, 222_914, 442_309]),
    (4, [1945, 2062, 2486, 2986, 3935, 5661, 9104, 16_165, 30_193, 58_121, 114_401]),
    (8, [1358, 1266, 1452, 1700, 1938, 2326, 3318, 5013, 8783, 16_033, 30_667]),
    (16, [951, 990, 1033, 937, 1121, 1316, 1456, 1976, 2962, 4675, 8422]),
    (32, [757, 743, 778, 765, 735, 921, 898, 1132, 1337, 1831, 2698]),
    (64, [644, 785, 676, 705, 686, 715, 779, 817, 876, 1122, 1617]),
    (112, [646, 651, 666, 657, 655, 671, 707, 777, 801, 865, 1054]),
];

/// The cell that does not fit its row: threads and speakers.
pub(super) const ODD_CELL: (usize, usize) = (1, 64);

/// A finding about table 6, computed from its last column; the explanation is our inference.
pub(super) fn finding() -> String {
    let last = INPUTS.len() - 1;
    let speed_up = |row: usize| f64::from(SUMS[0].1[last]) / f64::from(SUMS[row].1[last]);
    let speed_ups: Vec<String> = (1..5).map(|row| format!("{:.1}", speed_up(row))).collect();
    format!(
        "Table 6 of the paper does not add up. With {} speakers, 2, 4, 8 and 16 threads are {} times as\n\
         fast as one, and 112 are {:.0} times: its numbers fall as 1/threads², as if they had been divided by the number of\n\
         threads twice (our inference; the column ns_times_threads of table6.csv undoes one division). The cell of {}\n\
         speakers on one thread is out of line with its row, and equals a number of table 4.",
        INPUTS[last],
        speed_ups.join(", "),
        speed_up(SUMS.len() - 1),
        ODD_CELL.1,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chains_of_table_5_are_the_sums_of_table_4_but_for_rounding() {
        for CurveRow { curve, clocks, chain_clocks, .. } in &CURVES {
            assert!(clocks.iter().sum::<u32>().abs_diff(*chain_clocks) <= 1, "{curve}");
        }
    }

    #[test]
    fn the_uplink_of_the_paper_is_two_points_of_three_coordinates_a_sample() {
        for CurveRow { curve, uplink_mbps, .. } in &CURVES {
            let digits: String = curve.chars().filter(char::is_ascii_digit).collect();
            let bits: f64 = digits[..3].parse().unwrap();
            assert!((2.0 * 3.0 * bits * 16_000.0 / 1e6 - uplink_mbps).abs() < 0.01, "{curve}");
        }
    }

    #[test]
    fn the_finding_quotes_the_table() {
        let finding = finding();
        assert!(finding.contains("1024 speakers") && finding.contains("4.0, 15.3, 57.1, 208.0 times"), "{finding}");
        assert!(finding.contains("112 are 1662 times") && finding.contains("cell of 64"), "{finding}");
        assert_eq!(SUMS[0].1[6], CURVES[5].clocks[2], "the number of table 4");
    }
}
