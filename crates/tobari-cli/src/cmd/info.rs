//! `tobari info`.

use crate::args::InfoArguments;
use crate::output::{self, Failure};
use serde_json::json;
use std::process::ExitCode;
use tobari_core::curve::Curve;
use tobari_core::params::{FLOOR_BITS, NamedSet, RECOMMENDED_BITS, Security};
use tobari_core::simd::RingKernels;

/// Prints version, arithmetic and curves.
pub(crate) fn run(arguments: &InfoArguments) -> Result<ExitCode, Failure> {
    let version = env!("CARGO_PKG_VERSION");
    let (backend, lattices) = (Curve::Secp256k1.backend(), RingKernels::best().name);
    let threads = tobari_host::threads::available();
    if arguments.json {
        output::json(&json!({ "tobari": version, "backend": backend, "lattices": lattices, "threads": threads }))?;
    } else {
        output::result(format!("tobari {version}, arithmetic: {backend} for curves, {lattices} for lattices"));
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
        lattice(&set, arguments.json)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn lattice(set: &NamedSet, json: bool) -> Result<(), Failure> {
    let parameters = set.parameters()?;
    let bits = parameters.security().map(Security::bits);
    let (degree, log_qp, primes) = (set.degree, parameters.log_qp(), [set.data.len(), set.special.len()]);
    let NamedSet { name, purpose, digits, plaintext_modulus, .. } = set;
    if json {
        return output::json(&json!({
            "set": name, "purpose": purpose, "degree": degree, "data_primes": primes[0], "special_primes": primes[1],
            "digits": digits, "plaintext_modulus": plaintext_modulus, "log_qp": log_qp, "security_bits": bits,
        }));
    }
    let bits = bits.unwrap_or(0);
    output::result(format!(
        "  {name:<10} {bits:>4}  N = {degree}, {log_qp} bits in {} + {} primes: {purpose}",
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
