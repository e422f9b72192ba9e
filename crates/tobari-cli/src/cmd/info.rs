//! `tobari info`.

use crate::args::InfoArguments;
use crate::output::{self, Failure};
use serde_json::json;
use std::process::ExitCode;
use tobari_core::curve::Curve;
use tobari_core::params::{FLOOR_BITS, RECOMMENDED_BITS};

/// Prints version, arithmetic and curves.
pub(crate) fn run(arguments: &InfoArguments) -> Result<ExitCode, Failure> {
    let version = env!("CARGO_PKG_VERSION");
    let backend = Curve::Secp256k1.backend();
    if arguments.json {
        output::json(&json!({ "tobari": version, "backend": backend, "threads": tobari_host::threads::available() }))?;
    } else {
        output::result(format!("tobari {version}, arithmetic: {backend}"));
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
    Ok(ExitCode::SUCCESS)
}

fn status(curve: Curve) -> &'static str {
    match curve.security_bits() {
        bits if bits < FLOOR_BITS => "insecure: only with --insecure-paper",
        bits if bits < RECOMMENDED_BITS => "weak: used with a warning",
        _ => "ok",
    }
}
