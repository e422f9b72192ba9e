//! Figures of devices: design 2 at a degree that protects nothing.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use support::{bench, lines, stderr};

const DEGREE: &str = "2048";

#[test]
fn the_figures_cell_of_design_2_is_a_run_of_a_plan() {
    let once = ["sense", "--once", "2-aes/cloud"];
    let cell = &lines(&[&once[..], &["--memory", "2GiB", "--insecure-degree", DEGREE]].concat())[0];
    let [median, least, most] = [0, 1, 2].map(|which| cell["microseconds"][which].as_f64().unwrap());
    assert!(0.0 < least && least <= median && median <= most, "{cell}");
    for figure in ["cpu_microseconds", "peak_bytes"] {
        assert!(cell[figure].as_f64().unwrap() > 0.0, "{figure}: {cell}");
    }
    let output = bench(&once);
    assert!(output.status.code() == Some(2) && stderr(&output).contains("expected --memory"), "{}", stderr(&output));
}
