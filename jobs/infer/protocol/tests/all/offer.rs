//! A host's offer of its enclave: exactly one byte string, consistent parts, and rejections by a
//! client.

use tobari_enclave::{Digest, OutputPolicy, Script};
use tobari_infer::Model;
use tobari_infer::fuzz_offer;
use tobari_infer::guarded::{
    Combination, Expected, Offer, OfferError, Route, RouteError, Setup, SetupError, Unexpected,
};
use tobari_lattice::params::{LatticeParameters, NamedSet, Plaintext};

fn setup(combination: Combination) -> Setup {
    let parameters = NamedSet::from_name(combination.usual_set()).unwrap().parameters().unwrap();
    Setup { route: Route::new(combination, &parameters), parameters, model: Model::digits().unwrap() }
}

fn offer(combination: Combination, output: OutputPolicy) -> Offer {
    let setup = setup(combination);
    let configuration = setup.configuration(output, 3, 7).unwrap();
    Offer { route: setup.route, parameters: setup.parameters, configuration }
}

#[test]
fn an_offer_has_one_byte_string_and_its_parts_belong_together() {
    for combination in Combination::ALL {
        let whole = offer(combination, OutputPolicy::Label);
        let bytes = whole.encode();
        let again = Offer::decode(&bytes).unwrap();
        assert_eq!((again.encode(), again.route.combination), (bytes.clone(), combination));
        assert_eq!(again.set(), Some(combination.usual_set()));
        assert_eq!((again.pixels(), again.frames()), (Some(784), (804, combination.uses_process().then_some(20))));
        assert!(Offer::decode(&[&bytes[..], &[0]].concat()).is_err());
        if combination != Combination::MixedMaskedReset {
            continue; // one setup is enough for a test of every byte
        }
        for at in 0..bytes.len() {
            fuzz_offer(&bytes[..at]);
            assert!(Offer::decode(&bytes[..at]).is_err());
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            fuzz_offer(&changed);
        }
    }
    let (one, other) = (
        offer(Combination::ProcessUserData, OutputPolicy::Label),
        offer(Combination::MixedMaskedReset, OutputPolicy::Label),
    );
    let route = Offer { route: other.route.clone(), ..one.clone() }.encode();
    assert_eq!(Offer::decode(&route).unwrap_err(), OfferError::Apart("route"));
    let parameters = Offer { parameters: other.parameters.clone(), ..one }.encode();
    assert_eq!(Offer::decode(&parameters).unwrap_err(), OfferError::Apart("parameters"));
}

#[test]
fn fault_32_larger_parameters_than_an_enclaves_are_refused() {
    let whole = offer(Combination::EnclavePlain, OutputPolicy::Label);
    let with = |parameters: LatticeParameters| Setup { parameters, ..setup(Combination::EnclavePlain) };
    let named = |name| NamedSet::from_name(name).unwrap().parameters().unwrap();
    // twice as many coefficients, and 17 primes
    let large = LatticeParameters::of_sizes(1 << 16, &[50, 50], &[50], 2, Plaintext::Approximate).unwrap();
    for parameters in [large, named("pbwt")] {
        let refused = Offer::decode(&Offer { parameters: parameters.clone(), ..whole.clone() }.encode()).unwrap_err();
        assert!(matches!(refused, OfferError::Parameters(_)), "{refused}");
        let expected = "malformed parameters: expected at most 2^15 coefficients and 16 primes, found others";
        assert!(refused.to_string().starts_with(expected), "{refused}");
        let setup = with(parameters);
        assert!(matches!(Setup::decode(&setup.encode()).unwrap_err(), SetupError::Parameters(_)));
        // a configuration that no reader accepts cannot be made either
        let refused = setup.configuration(OutputPolicy::Label, 1, 1).unwrap_err();
        assert!(matches!(refused, RouteError::Parameters(_)), "{refused}");
    }
    // the largest: 2^15 coefficients and 16 primes
    let setup = with(named("ckks-b"));
    assert_eq!(Setup::decode(&setup.encode()).unwrap().encode(), setup.encode());
    let configuration = setup.configuration(OutputPolicy::Label, 1, 1).unwrap();
    let offer = Offer { route: setup.route, parameters: setup.parameters, configuration };
    assert_eq!(Offer::decode(&offer.encode()).unwrap().encode(), offer.encode());
}

#[test]
fn what_a_client_does_not_want_is_refused_by_name() {
    let offer = offer(Combination::ProcessUserData, OutputPolicy::Top(3));
    let model = Digest::new(Model::digits().unwrap().digest());
    let wanted = Expected { model, combination: None, tells: OutputPolicy::Top(3) };
    assert_eq!(offer.check(&wanted), Ok(()));
    assert_eq!(offer.check(&Expected { combination: Some(Combination::ProcessUserData), ..wanted }), Ok(()));
    let other = Expected { model: Digest::of_bytes(b"another"), ..wanted };
    assert!(matches!(offer.check(&other), Err(Unexpected::Model { .. })));
    let other = Expected { combination: Some(Combination::EnclavePlain), ..wanted };
    let refusal = offer.check(&other).unwrap_err().to_string();
    assert_eq!(refusal, "expected an enclave in the combination enclave-plain, found process-user-data");
    let less = Expected { tells: OutputPolicy::Label, ..wanted };
    let refusal = offer.check(&less).unwrap_err().to_string();
    assert_eq!(refusal, "expected an enclave that tells at most label, found one that tells top:3");
    let mut none = offer;
    none.configuration.script = Script::new(none.configuration.script.steps()[..1].to_vec()).unwrap();
    assert_eq!(none.check(&wanted), Err(Unexpected::Script));
}

#[test]
fn no_enclave_starts_that_would_tell_what_a_model_does_not_have() {
    let setup = setup(Combination::EnclavePlain);
    assert!(setup.configuration(OutputPolicy::Top(10), 1, 1).is_ok());
    for output in [OutputPolicy::Top(11), OutputPolicy::Rounded(60)] {
        assert!(matches!(setup.configuration(output, 1, 1), Err(RouteError::Output { .. })), "{output}");
    }
}
