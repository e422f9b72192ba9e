//! `tobari info`.

use clap::Args;
use serde_json::json;
use std::process::ExitCode;
use tobari_command::day::date;
use tobari_command::output::{self, Failure};
use tobari_curve::params::{FLOOR_BITS, RECOMMENDED_BITS};
use tobari_curve::{BuiltCurve, Curve};
use tobari_lattice::RingKernels;
use tobari_lattice::params::{NamedSet, Security};
use tobari_reference::SavedCosts;
use tobari_sense::aes::chain;

/// `tobari info`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari info
    tobari info --json")]
pub(crate) struct InfoArguments {
    /// Print one JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Prints version, arithmetic and curves.
pub(crate) fn run(arguments: &InfoArguments) -> Result<ExitCode, Failure> {
    let version = env!("CARGO_PKG_VERSION");
    let (backend, lattices) = (BuiltCurve::Secp256k1.backend(), RingKernels::best().name);
    let threads = tobari_host::threads::available();
    let executable = tobari_host::process::executable_digest()?.to_string();
    let page = crate::pages::bundle().digest().to_string();
    if arguments.json {
        output::json(&json!({
            "tobari": version, "backend": backend, "lattices": lattices, "threads": threads, "executable": executable,
            "page_sha256": page,
        }))?;
    } else {
        output::result(format!("tobari {version}, arithmetic: {backend} for curves, {lattices} for lattices"));
        output::result(format!("executable (SHA-256): {executable}"));
        output::result(format!("client for browsers, the page's files (SHA-256): {page}"));
        output::result("curves of `tobari call` (security in bits, against Pollard's rho):");
    }
    for (name, curve) in Curve::PAPER_NAMES {
        let same_as = (name != curve.name()).then(|| curve.name());
        let (bits, status) = (curve.security_bits(), status(curve));
        if arguments.json {
            output::json(&json!({ "curve": name, "same_as": same_as, "security_bits": bits, "status": status }))?;
        } else {
            let same_as = same_as.map(|other| format!(" (is {other})")).unwrap_or_default();
            output::result(format!("  {name:<10} {bits:>4}  {status}{same_as}"));
        }
    }
    if !arguments.json {
        output::result("sets of lattice parameters (security in bits, by the guidelines of 2024, classical attacks):");
    }
    for set in NamedSet::ALL {
        let parameters = set.parameters()?;
        let row = Row {
            name: set.name,
            purpose: set.purpose,
            degree: set.degree,
            primes: [set.data.len(), set.special.len()],
            digits: set.digits,
            plaintext_modulus: set.plaintext_modulus,
            log_qp: parameters.log_qp(),
            bits: parameters.security().map(Security::bits),
        };
        lattice(&row, arguments.json)?;
    }
    lattice(&aes()?, arguments.json)?;
    costs(arguments.json)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the measured costs of steps and moves, if there are any.
fn costs(json: bool) -> Result<(), Failure> {
    let Some(kept) = tobari_reference::kept(tobari_reference::SET) else {
        if json {
            let how = "tobari plan memory --recalibrate";
            return output::json(&json!({ "calibrated": false, "how": how }));
        }
        output::result("costs of steps and moves here: not calibrated yet: tobari plan memory --recalibrate");
        return Ok(());
    };
    let SavedCosts { costs, measured, tiers, .. } = &kept;
    if json {
        let tiers: Vec<_> = tiers
            .iter()
            .map(|tier| {
                json!({
                    "folder": tier.folder, "read_bytes_per_s": tier.speed.read, "write_bytes_per_s": tier.speed.write,
                    "latency_s": tier.speed.latency_s, "direct": tier.direct, "measured_unix_s": tier.measured,
                })
            })
            .collect();
        return output::json(&json!({
            "calibrated": true, "set": tobari_reference::SET, "measured_unix_s": measured, "step_seconds_at_levels": costs.steps,
            "raw_bytes_per_s": costs.raw, "packed_bytes_per_s": costs.packed, "tiers": tiers,
        }));
    }
    let when = measured.map_or_else(|| "at an unknown time".to_owned(), |seconds| format!("on {}", date(seconds)));
    output::result(format!("costs of steps and moves here ({}, on one core, measured {when}):", tobari_reference::SET));
    for (name, levels) in &costs.steps {
        let at = |(level, seconds): &(u16, f64)| format!("{:>8.3} ms at level {level}", 1e3 * seconds);
        output::result(format!("  {name:<10} {}", levels.iter().map(at).collect::<Vec<_>>().join(", ")));
    }
    let gigabytes = |speed: f64| format!("{:.2} GB/s", speed / 1e9);
    for (form, speeds) in [("raw", &costs.raw), ("packed", &costs.packed)] {
        for (kind, [out, back]) in speeds {
            let kind = format!("{kind:?}").to_lowercase();
            output::result(format!("  {kind:<10} {form}: {} out, {} back", gigabytes(*out), gigabytes(*back)));
        }
    }
    for tier in tiers {
        let (read, write) = (gigabytes(tier.speed.read), gigabytes(tier.speed.write));
        output::result(format!(
            "  tier {}: {read} read, {write} written, {:.3} ms to the first byte, on {}{}",
            tier.folder.display(),
            1e3 * tier.speed.latency_s,
            date(tier.measured),
            if tier.direct { "" } else { " (through the page cache: memory's speed)" }
        ));
    }
    Ok(())
}

/// A set of lattice parameters.
struct Row {
    name: &'static str,
    purpose: &'static str,
    degree: usize,
    primes: [usize; 2],
    digits: usize,
    plaintext_modulus: Option<u64>,
    log_qp: u32,
    bits: Option<u32>,
}

/// The parameters for AES under encryption, whose primes the circuit determines.
fn aes() -> Result<Row, Failure> {
    let chain = chain::Chain::new()?;
    let log_qp = chain.log_qp();
    let fits = |security: &Security| security.max_log_qp(chain::DEGREE).is_some_and(|most| log_qp <= most);
    Ok(Row {
        name: "sense-aes",
        purpose: "AES-128 under encryption, and three products: BGV modulo 786,433",
        degree: chain::DEGREE,
        primes: [chain.data_primes(), chain.special_primes()],
        digits: chain.digits(),
        plaintext_modulus: Some(chain::MODULUS),
        log_qp,
        bits: Security::ALL.into_iter().rev().find(fits).map(Security::bits),
    })
}

fn lattice(row: &Row, json: bool) -> Result<(), Failure> {
    let Row { name, purpose, degree, primes, digits, plaintext_modulus, log_qp, bits } = row;
    if json {
        return output::json(&json!({
            "set": name, "purpose": purpose, "degree": degree, "data_primes": primes[0], "special_primes": primes[1],
            "digits": digits, "plaintext_modulus": plaintext_modulus, "log_qp": log_qp, "security_bits": bits,
        }));
    }
    let bits = bits.unwrap_or(0);
    output::result(format!(
        "  {name:<13} {bits:>4}  N = {degree}, {log_qp} bits in {} + {} primes: {purpose}",
        primes[0], primes[1]
    ));
    Ok(())
}

fn status(curve: Curve) -> &'static str {
    match curve.security_bits() {
        bits if bits < FLOOR_BITS => "insecure: only with --insecure-paper",
        bits if bits < RECOMMENDED_BITS => "weak: used with a warning",
        _ => "ok",
    }
}
