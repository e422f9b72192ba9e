//! The body of this crate's fuzz target.

use crate::configuration::Configuration;
use crate::evidence::Evidence;
use crate::protection::Protections;

/// For any bytes, decoding ends without a panic, and decoded objects encode to the same bytes.
#[doc(hidden)]
pub fn fuzz_evidence(data: &[u8]) {
    if let Ok(evidence) = Evidence::decode(data) {
        assert_eq!(evidence.encode(), data, "one byte string for each evidence");
        let _ = evidence.check_proof();
    }
    if let Ok(configuration) = Configuration::decode(data) {
        assert_eq!(configuration.encode(), data, "one byte string for each configuration");
        let _ = configuration.digest();
    }
    if let Some(protections) = Protections::from_bytes(data) {
        assert_eq!(protections.to_bytes(), data, "one byte string for all protections");
    }
}
