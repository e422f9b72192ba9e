//! The curves below 112 bits of security. A build without the feature `paper` lacks them, and
//! rejects a call that asks for them.

use tobari_command::output::Failure;
use tobari_curve::Curve;
use tobari_curve::params::{FLOOR_BITS, Parameters, SecurityFloor};

/// The command that builds a program with these curves.
const WITH_PAPER: &str = "`cargo build --release -p tobari-bench --features paper`";

/// Refuses a curve without arithmetic in this build.
pub(crate) fn admit(curve: Curve) -> Result<(), Failure> {
    let admitted = Parameters::new(curve, SecurityFloor::InsecurePaper);
    admitted.map(drop).map_err(|refused| Failure::Call(format!("{refused} ({WITH_PAPER})")))
}

/// Refuses an option that needs all these curves, if this build lacks them.
pub(crate) fn need(option: &str) -> Result<(), Failure> {
    need_in(option, Curve::ALL.into_iter().all(|curve| curve.built().is_some()))
}

/// The same for any build, so that tests can check both cases.
fn need_in(option: &str, there: bool) -> Result<(), Failure> {
    let text = || {
        format!("{option}: this build has no curves below {FLOOR_BITS} bits of security: build it with {WITH_PAPER}")
    };
    if there { Ok(()) } else { Err(Failure::Call(text())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_need_what_this_build_lacks_are_a_wrong_call_that_says_how_to_build_it() {
        assert!(need_in("--paper", true).is_ok());
        let refused = need_in("--paper", false).unwrap_err();
        let Failure::Call(text) = &refused else { panic!("no wrong call: {refused}") };
        assert!(text.starts_with("--paper: ") && text.contains(WITH_PAPER), "{text}");
        assert!(admit(Curve::Secp256k1).is_ok());
        for there in [need("--paper").is_ok(), admit(Curve::P160_1).is_ok()] {
            assert_eq!(there, cfg!(feature = "paper"));
        }
    }
}
