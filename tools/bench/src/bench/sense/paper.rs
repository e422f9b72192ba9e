//! The paper's figure 4, (a) to (h): time, CPU and memory of device and cloud, and bytes both ways,
//! for 256 bytes.
//!
//! The paper prints ratios in its text and the rest as plots: its third design encrypts 2,670 times
//! faster than the first, and 590 times faster than the second. The second design downloads 2.4 GiB
//! of keys, and does not fit the paper's smaller device.
//!
//! In the paper's second design the device works under the server's keys, which are those
//! gigabytes. Our device leaves that to the key holder and runs AES alone. So our ratio to the
//! second design measures something else, and is below one on a processor with instructions for
//! AES.
//!
//! Our baselines have names: bit by bit, the paper's baseline; packed, the usual method; and packed
//! under the secret key with a seed in place of one half, the cheapest form, which no fleet can
//! use.

use super::SenseBench;
use super::designs::{Cell, Design, Loops, Role};
use super::{Params, line};
use crate::bench::line::Line;
use crate::bench::plot::{Bars, bars};
use crate::bench::table::{Table, number};
use crate::bench::{show, tell};
use std::process::Command;
use tobari_command::output::Failure;
use tobari_command::randomness;
use tobari_device::{GCM_FRAME, P1, Profile, READINGS, U25};
use tobari_host::files::write_atomically;
use tobari_lattice::bgv::Encoder;
use tobari_lattice::ring::Seed;
use tobari_lattice::rlwe::{PublicKey, SecretKey};
use tobari_lattice::wire;
use tobari_sense::direct;

/// The paper's ratios on its phone: to bit by bit, and to its second design.
const PAPER: [f64; 2] = [2_670.0, 590.0];
/// Bytes that the paper's second design downloads.
const PAPER_DOWN: f64 = 2.4 * 1_073_741_824.0;
/// Our target ratios: to bit by bit, and to packed.
const GOALS: [f64; 2] = [2e4, 20.0];

/// Bytes up and down.
fn sizes(design: Design) -> Result<[f64; 2], Failure> {
    let (parameters, mut rng) = (direct::parameters()?, randomness::generator()?);
    let mut direct_sizes = |count: usize| -> Result<[f64; 2], Failure> {
        let public = PublicKey::generate(&SecretKey::from_seed(&parameters, Seed::random(&mut rng)), &mut rng);
        let message = direct::packed(&Encoder::new(&parameters)?, &[0; READINGS])?;
        let one = message.encrypt(&public, direct::PRODUCTS + 1, &mut rng)?;
        Ok([(count * wire::store_ciphertext(&one).len()) as f64, wire::encode_ring_public_key(&public).len() as f64])
    };
    match design {
        Design::Bitwise => direct_sizes(READINGS * direct::BITS),
        Design::Packed => direct_sizes(1),
        Design::Seeded => {
            let secret = SecretKey::from_seed(&parameters, Seed::random(&mut rng));
            let message = direct::packed(&Encoder::new(&parameters)?, &[0; READINGS])?;
            let one = message.encrypt_seeded(&secret, direct::PRODUCTS + 1, &mut rng)?;
            Ok([wire::encode_seeded_ciphertext(&one).len() as f64, 0.0])
        }
        Design::Aes => Ok([GCM_FRAME as f64, 0.0]),
        Design::Sums => Ok([U25::FRAME as f64, 0.0]),
        Design::Exact => Ok([P1::FRAME as f64, 0.0]),
    }
}

/// The table of bytes on the wire.
pub(super) fn bytes() -> Result<Table, Failure> {
    let mut table = Table::new("Bytes of 256 readings", &["design", "up", "down, once", "paper, down"]);
    for design in Design::ALL {
        let [up, down] = sizes(design)?;
        let paper = (design == Design::Aes).then_some(PAPER_DOWN);
        table.push(vec![design.name().to_owned(), number(Some(up), 0), number(Some(down), 0), number(paper, 0)]);
    }
    Ok(table)
}

/// Measures one cell in a process of its own; none if a design has no work, and for design 2 on the
/// server without `--memory`.
fn cell(design: Design, role: Role, loops: Loops, arguments: &SenseBench) -> Result<Option<Cell>, Failure> {
    let nothing = match (design, role) {
        (direct, Role::Cloud) if direct.is_direct() => true,
        (Design::Aes, Role::Cloud) => arguments.memory.is_none(),
        (Design::Exact, Role::Cloud) => arguments.without_exact,
        _ => false,
    };
    if nothing {
        return Ok(None);
    }
    let more = if loops == Loops::Fastest { "/fastest" } else { "" };
    let what = format!("{}/{}{more}", design.name(), role.name());
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["sense", "--once", &what]);
    if let Some(memory) = arguments.memory {
        command.arg(format!("--memory={memory}"));
    }
    if let Some(tier) = &arguments.tier {
        command.arg("--tier").arg(tier);
    }
    if let Some(degree) = arguments.insecure_degree {
        command.arg(format!("--insecure-degree={degree}"));
    }
    let ran = command.output()?;
    if !ran.status.success() {
        return Err(Failure::Work(format!("{what}: {}", String::from_utf8_lossy(&ran.stderr).trim())));
    }
    Ok(Some(serde_json::from_slice(&ran.stdout)?))
}

/// The whole figure, as tables and, with a folder, as CSV and SVG; returns the figures in them.
pub(super) fn figure(arguments: &SenseBench) -> Result<Vec<Line<Params>>, Failure> {
    let head = ["panel", "what", "1-bitwise", "1-packed", "1-packed-seeded", "2-aes", "3-u25", "3-p1"];
    let mut table = Table::new(
        "Figure 4 for 256 bytes, medians: one thread of this machine with portable loops for the paper's phone, and with its fastest for the server",
        &head,
    );
    let mut cells = Vec::new();
    for role in [Role::Device, Role::Cloud] {
        let of = |design: &Design| cell(*design, role, Loops::Portable, arguments);
        cells.push(Design::ALL.iter().map(of).collect::<Result<Vec<_>, _>>()?);
    }
    let sizes = Design::ALL.iter().map(|design| sizes(*design)).collect::<Result<Vec<_>, _>>()?;
    let of = |role: usize, value: &dyn Fn(&Cell) -> f64| -> Vec<Option<f64>> {
        cells[role].iter().map(|cell| cell.as_ref().map(value)).collect()
    };
    let sent = |way: usize| sizes.iter().map(|size| Some(size[way])).collect::<Vec<_>>();
    let panels = [
        ("a", "device time, us", of(0, &|cell| cell.microseconds[0])),
        ("b", "device CPU, us", of(0, &|cell| cell.cpu_microseconds)),
        ("c", "device memory, bytes", of(0, &|cell| cell.peak_bytes as f64)),
        ("d", "cloud time, us", of(1, &|cell| cell.microseconds[0])),
        ("e", "cloud CPU, us", of(1, &|cell| cell.cpu_microseconds)),
        ("f", "cloud memory, bytes", of(1, &|cell| cell.peak_bytes as f64)),
        ("g", "bytes up", sent(0)),
        ("h", "bytes down", sent(1)),
    ];
    for (panel, what, values) in &panels {
        let mut row = vec![(*panel).to_owned(), (*what).to_owned()];
        row.extend(values.iter().map(|value| number(*value, 2)));
        table.push(row);
        if let Some(folder) = &arguments.output {
            let mut drawn = Bars::new(
                what,
                "one thread of this machine; designs without a bar have nothing to do there, or were left out",
            );
            for (design, value) in Design::ALL.iter().zip(values) {
                value.filter(|value| *value > 0.0).into_iter().for_each(|value| drawn.push(design.name(), "", value));
            }
            write_atomically(&folder.join(format!("figure-4{panel}.svg")), bars(&drawn)?.as_bytes())?;
        }
    }
    let lines = panels.iter().flat_map(|(panel, _, values)| lines(panel, values, &cells)).collect();
    let ratios = ratios(&fastest(&panels[0].2, arguments)?);
    let bytes = bytes()?;
    [&table, &bytes, &ratios].into_iter().for_each(|table| show(table, arguments.json));
    tell("2-aes: our device does AES alone, the paper's works under the keys that it has downloaded", arguments.json);
    if let Some(folder) = &arguments.output {
        write_atomically(&folder.join("bytes.csv"), bytes.csv().as_bytes())?;
        write_atomically(&folder.join("figure-4.csv"), table.csv().as_bytes())?;
        write_atomically(&folder.join("ratios.csv"), ratios.csv().as_bytes())?;
    }
    Ok(lines)
}

/// The quantity, the role and the unit of each panel.
const PANELS: [(&str, &str, Role, &str); 8] = [
    ("a", "seal", Role::Device, "us/message"),
    ("b", "seal_cpu", Role::Device, "us/message"),
    ("c", "seal_memory", Role::Device, "bytes"),
    ("d", "convert", Role::Cloud, "us/message"),
    ("e", "convert_cpu", Role::Cloud, "us/message"),
    ("f", "convert_memory", Role::Cloud, "bytes"),
    ("g", "up", Role::Device, "bytes/message"),
    ("h", "down_once", Role::Device, "bytes"),
];

/// A panel's values as figures.
fn lines(panel: &str, values: &[Option<f64>], cells: &[Vec<Option<Cell>>]) -> Vec<Line<Params>> {
    let Some((_, what, role, unit)) = PANELS.into_iter().find(|(name, ..)| *name == panel) else { return Vec::new() };
    let measured = |at: usize| cells[usize::from(role == Role::Cloud)][at].as_ref();
    let one = |(at, (design, value)): (usize, (Design, &Option<f64>))| {
        let counted = unit.starts_with("bytes/") || what == "down_once";
        let (values, rounds, cell) = match (measured(at), unit) {
            // counted, once
            _ if counted => ([(*value)?; 3], 1, None),
            // of all rounds, a process's CPU and memory once
            (cell, "us/message") if what == role.verb() => (cell?.microseconds, cell?.rounds as usize, cell),
            (cell, _) => ([(*value)?; 3], 1, cell),
        };
        let mut line = line(what, design, role, unit, values, rounds);
        if let Some(cell) = cell {
            line.backend.clone_from(&cell.backend);
            line.labels = super::labels(design, role, &cell.backend);
        }
        Some(line)
    };
    Design::ALL.into_iter().zip(values).enumerate().filter_map(one).collect()
}

/// Microseconds on the device with the fastest loops of this machine, so that baselines are not
/// slower than necessary.
fn fastest(device: &[Option<f64>], arguments: &SenseBench) -> Result<Vec<Option<f64>>, Failure> {
    let of = |(design, value): (Design, &Option<f64>)| {
        if !design.is_direct() {
            return Ok(*value);
        }
        Ok(cell(design, Role::Device, Loops::Fastest, arguments)?.map(|cell| cell.microseconds[0]))
    };
    Design::ALL.into_iter().zip(device).map(of).collect()
}

/// The table of ratios of the third design's device.
fn ratios(device: &[Option<f64>]) -> Table {
    let head = ["beside", "3-u25", "3-p1", "goal", "verdict", "paper"];
    let mut table =
        Table::new("Times faster on the device, by the fastest loops of this machine on either side", &head);
    let [bitwise, packed] = GOALS.map(Some);
    let baselines = [(0, bitwise, Some(PAPER[0])), (1, packed, None), (2, packed, None), (3, None, Some(PAPER[1]))];
    for (baseline, goal, paper) in baselines {
        let ratio = |design: usize| Some(device[baseline]? / device[design]?);
        let verdict = match (goal, ratio(5)) {
            (Some(goal), Some(found)) if found >= goal => "pass",
            (Some(_), Some(_)) => "FAIL",
            _ => "",
        };
        table.push(vec![
            Design::ALL[baseline].name().to_owned(),
            number(ratio(4), 2),
            number(ratio(5), 2),
            number(goal, 0),
            verdict.to_owned(),
            number(paper, 0),
        ]);
    }
    table
}
