//! The paper's criteria for real time (its table 3), applied to every engine, curve and mode.
//!
//! - One operation on a sample takes at most the time of a sample at 16 kHz, 62.5 µs.
//! - Encryption, addition and decryption of a packet, one after the other, take at most 150 ms. The
//!   paper gives 3 ms of these to the network: its 643,125 clocks a sample are 147 ms a packet.
//! - The uplink is at most 35 Mbps.
//!
//! Sums of 1,024 speakers, which the paper does not decode, have their own rows. So does the
//! server's work for 1,024 uncompressed uplinks (reading and adding), which must fit one core.

use super::super::table::Table;
use super::figures::{Line, OPERATIONS, Scheme};
use super::published::{CLIENT_GHZ, CURVES};
use tobari_call::PACKET_SAMPLES;
use tobari_command::output::Failure;
use tobari_curve::elgamal::{Ciphertexts, SharedCiphertexts};
use tobari_curve::params::{Parameters, SecurityFloor};
use tobari_curve::wire;
use tobari_curve::{Curve, PointEncoding};

/// A sample's time, in nanoseconds.
const OPERATION_NS: f64 = 62_500.0;
/// The limit for the chain of a packet.
const CHAIN_MS: f64 = 147.0;
const UPLINK_MBPS: f64 = 35.0;
/// Speakers in a large room.
const ROOM: f64 = 1024.0;
/// Samples a second.
const RATE_HZ: f64 = 16_000.0;

/// A criterion with its result.
pub(super) struct Gate {
    pub(super) engine: String,
    pub(super) curve: String,
    pub(super) mode: String,
    /// Empty if the timing makes no difference.
    pub(super) timing: String,
    pub(super) what: &'static str,
    pub(super) value: f64,
    limit: f64,
    unit: &'static str,
}

impl Gate {
    pub(super) fn passes(&self) -> bool {
        self.value <= self.limit
    }
}

/// All criteria on `curves`: the paper's values, then our measurements, then our uplinks.
pub(super) fn all(curves: &[Curve], lines: &[Line]) -> Result<Vec<Gate>, Failure> {
    let mut gates = published(curves);
    for scheme in Scheme::all(lines) {
        gates.extend(measured(scheme, lines));
    }
    let mut modes: Vec<(&str, &str)> = Vec::new();
    for scheme in Scheme::all(lines).into_iter().filter(|scheme| scheme.engine == "tobari") {
        if !modes.contains(&(scheme.curve, scheme.mode)) {
            modes.push((scheme.curve, scheme.mode));
        }
    }
    for (curve, mode) in modes {
        gates.extend(uplinks(curve, mode)?);
    }
    Ok(gates)
}

/// The paper's rows for these curves.
fn published(curves: &[Curve]) -> Vec<Gate> {
    let mut gates = Vec::new();
    for row in CURVES.iter().filter(|row| Curve::from_name(row.curve).is_ok_and(|curve| curves.contains(&curve))) {
        let scheme = Scheme { engine: "paper", curve: row.curve, mode: "elgamal", timing: "variable" };
        for ((what, _), clocks) in OPERATIONS.into_iter().zip(row.clocks) {
            gates.push(operation(scheme, what, f64::from(clocks) / CLIENT_GHZ));
        }
        gates.push(chain(scheme, "chain", f64::from(row.chain_clocks) / CLIENT_GHZ));
        gates.push(gate(scheme, "uplink_jacobian", row.uplink_mbps, UPLINK_MBPS, "Mbps"));
    }
    gates
}

fn measured(scheme: Scheme, lines: &[Line]) -> Vec<Gate> {
    let medians = scheme.medians(lines);
    let room = scheme.find(lines, "read", None).zip(scheme.find(lines, "add", None));
    let room = room.filter(|_| scheme.timing == "variable"); // on public points; once is enough
    let room = room.map(|(read, add)| (read.median + add.median) * ROOM * RATE_HZ / 1e9);
    let room = room.map(|cores| gate(scheme, "room_of_1024", cores, 1.0, "cores"));
    let operations = OPERATIONS.into_iter().zip(medians);
    let mut gates: Vec<Gate> =
        operations.filter_map(|((what, _), ns)| ns.map(|ns| operation(scheme, what, ns))).collect();
    gates.extend(room);
    let [Some(encrypt), Some(add), Some(decrypt)] = medians else { return gates };
    gates.push(chain(scheme, "chain", encrypt + add + decrypt));
    if let Some(wide) = scheme.find(lines, "decrypt", Some(27)) {
        gates.push(operation(scheme, "decrypt_27_bits", wide.median));
        gates.push(chain(scheme, "chain_27_bits", encrypt + add + wide.median));
    }
    gates
}

/// The uplink of a speaker, in our two encodings of points.
fn uplinks(curve: &str, mode: &str) -> Result<[Gate; 2], Failure> {
    let parameters = Parameters::new(Curve::from_name(curve)?, SecurityFloor::InsecurePaper)?;
    let encodings =
        [("uplink_compressed", PointEncoding::Compressed), ("uplink_uncompressed", PointEncoding::Uncompressed)];
    let scheme = Scheme { engine: "tobari", curve, mode, timing: "" };
    Ok(encodings.map(|(what, encoding)| {
        let bytes = match mode {
            "elgamal-shared" => wire::packet_len::<SharedCiphertexts>(parameters, encoding, PACKET_SAMPLES),
            _ => wire::packet_len::<Ciphertexts>(parameters, encoding, PACKET_SAMPLES),
        };
        let mbps = 8.0 * bytes as f64 * RATE_HZ / PACKET_SAMPLES as f64 / 1e6;
        gate(scheme, what, mbps, UPLINK_MBPS, "Mbps")
    }))
}

fn operation(scheme: Scheme, what: &'static str, ns: f64) -> Gate {
    gate(scheme, what, ns, OPERATION_NS, "ns")
}

/// The chain of a packet, from nanoseconds a sample.
fn chain(scheme: Scheme, what: &'static str, ns: f64) -> Gate {
    gate(scheme, what, ns * PACKET_SAMPLES as f64 / 1e6, CHAIN_MS, "ms")
}

fn gate(scheme: Scheme, what: &'static str, value: f64, limit: f64, unit: &'static str) -> Gate {
    let [engine, curve, mode, timing] = [scheme.engine, scheme.curve, scheme.mode, scheme.timing].map(str::to_owned);
    Gate { engine, curve, mode, timing, what, value, limit, unit }
}

/// One row for each gate, in the format of `gates.csv`.
pub(super) fn table(gates: &[Gate]) -> Table {
    let columns = ["engine", "curve", "mode", "timing", "gate", "value", "limit", "unit", "verdict"];
    let mut table = Table::new("The paper's criteria for real time", &columns);
    for gate in gates {
        let mut row = [&gate.engine, &gate.curve, &gate.mode, &gate.timing].map(Clone::clone).to_vec();
        row.extend([gate.what.to_owned(), format!("{:.3}", gate.value), gate.limit.to_string()]);
        row.extend([gate.unit, if gate.passes() { "pass" } else { "FAIL" }].map(str::to_owned));
        table.push(row);
    }
    table
}

/// The number of gates, and the failing ones.
pub(super) fn summary(gates: &[Gate]) -> String {
    let failed: Vec<String> = gates
        .iter()
        .filter(|gate| !gate.passes())
        .map(|gate| {
            let Gate { engine, curve, mode, timing, what, value, limit, unit } = gate;
            format!("FAIL  {engine} {curve} {mode} {timing} {what}: {value:.2} {unit}, limit {limit}")
        })
        .collect();
    let head = format!("\nThe paper's criteria for real time: {} of {} pass", gates.len() - failed.len(), gates.len());
    std::iter::once(head).chain(failed).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::figures::example;
    use super::*;

    fn failing(gates: &[Gate]) -> Vec<(&str, &'static str)> {
        gates.iter().filter(|gate| !gate.passes()).map(|gate| (gate.curve.as_str(), gate.what)).collect()
    }

    #[test]
    fn the_paper_fails_where_it_says_so() {
        let gates = published(&Curve::ALL);
        assert_eq!(gates.len(), 10 * 5);
        let expected = ["secp384r1", "NIST_P384"].map(|curve| [(curve, "decrypt"), (curve, "uplink_jacobian")]);
        assert_eq!(failing(&gates), expected.concat());
        assert!(summary(&gates).contains("46 of 50 pass"), "{}", summary(&gates));
    }

    #[test]
    fn a_slow_engine_fails_each_gate_on_its_own() {
        let of = ["tobari", "secp256k1", "elgamal", "constant"];
        let at = |encrypt, add, decrypt, wide| {
            let lines = [
                example(of, "encrypt", None, encrypt),
                example(of, "add", None, add),
                example(of, "decrypt", Some(16), decrypt),
                example(of, "decrypt", Some(27), wide),
            ];
            let gates = all(&[], &lines).unwrap();
            assert_eq!(gates.len(), 8);
            gates.into_iter().filter(|gate| !gate.passes()).map(|gate| gate.what).collect::<Vec<_>>()
        };
        assert_eq!(at(62_500.0, 62_500.0, 62_500.0, 62_500.0), Vec::<&str>::new());
        assert_eq!(at(62_501.0, 1.0, 1.0, 1.0), ["encrypt"]);
        assert_eq!(at(1.0, 62_501.0, 1.0, 1.0), ["add"]);
        assert_eq!(at(1.0, 1.0, 62_501.0, 1.0), ["decrypt"]);
        assert_eq!(at(1.0, 1.0, 1.0, 459_376.0), ["decrypt_27_bits", "chain_27_bits"]);
        assert_eq!(at(1.0, 1.0, 459_376.0, 1.0), ["decrypt", "chain"]);
    }

    #[test]
    fn uplinks_are_those_of_whole_packets() {
        for (curve, mode, [compressed, uncompressed]) in [
            ("secp256k1", "elgamal", [8.2, 16.4]),
            ("secp256k1", "elgamal-shared", [4.1, 8.2]),
            ("secp384r1", "elgamal", [12.3, 24.6]),
        ] {
            let [a, b] = uplinks(curve, mode).unwrap();
            assert!((a.value - compressed).abs() < 0.15 && (b.value - uncompressed).abs() < 0.15, "{curve} {mode}");
            assert!(a.passes() && b.passes());
        }
    }

    #[test]
    fn the_csv_has_a_line_a_gate_with_its_verdict() {
        let csv = table(&published(&[Curve::Secp384r1])).csv();
        let lines: Vec<_> = csv.lines().collect();
        assert_eq!(lines[0], "engine,curve,mode,timing,gate,value,limit,unit,verdict");
        assert_eq!(lines[1], "paper,secp384r1,elgamal,variable,encrypt,31711.429,62500,ns,pass");
        assert_eq!(lines[5], "paper,secp384r1,elgamal,variable,uplink_jacobian,36.860,35,Mbps,FAIL");
        assert_eq!(lines.len(), 1 + 2 * 5);
    }
}
