//! Writes one object of each kind in wire format 1, as `vectors/wire/v1` holds them, for the curve
//! named (secp256k1).
//!
//! `cargo run --example wire_vectors -- NIST_P256`; with `epoch-secrets` for a name it writes
//! `epoch-secrets.txt`, one line for each curve. `epoch-secrets` and the curves below 112 bits of
//! security need `--features paper`.

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use tobari_curve::elgamal::{Encryptor, EpochSecret, SecretKey, SharedEncryptor, SharedKey};
use tobari_curve::params::{Parameters, SecurityFloor};
use tobari_curve::wire::{self, MemberSet, RoomId, SumHeader};
use tobari_curve::{Curve, PointEncoding};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[expect(clippy::print_stdout, reason = "an example that prints")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).unwrap_or("secp256k1".to_owned());
    if name == "epoch-secrets" {
        println!("# wire format 1: the secret of which the keys of the shared packets in NAME.txt are the expansion");
        for curve in Curve::ALL {
            let parameters = Parameters::new(curve, SecurityFloor::InsecurePaper)?;
            let secret = EpochSecret::from_seed(parameters, [10; 32].into());
            println!("{} {}", curve.name(), hex(&wire::encode_epoch_secret(&secret)));
        }
        return Ok(());
    }
    let parameters = Parameters::new(Curve::from_name(&name)?, SecurityFloor::InsecurePaper)?;
    let mut rng = ChaCha20Rng::from_seed([9; 32]); // a fixed seed, for vectors only
    let key = SecretKey::generate(parameters, &mut rng);
    let ciphertexts = Encryptor::new(&key.public_key()).encrypt(&[1000, -5, 0], &mut rng)?;
    let mut sum = ciphertexts.clone();
    sum.add_assign(&ciphertexts)?;
    let (mut speakers, mut late) = (MemberSet::default(), MemberSet::default());
    for member in [0, 7, 1023] {
        speakers.insert(member);
    }
    late.insert(8);
    let room = RoomId(*b"room-one");
    println!(
        "# wire format 1 on {}; messages 1000 -5 0, room \"room-one\", member 7, tick 9; the sum holds the packet twice",
        parameters.curve()
    );
    println!("secret-key {}", hex(&wire::encode_secret_key(&key)));
    println!("public-key {}", hex(&wire::encode_public_key(&key.public_key())));
    for (kind, encoding) in [("compressed", PointEncoding::Compressed), ("uncompressed", PointEncoding::Uncompressed)] {
        println!("packet-{kind} {}", hex(&wire::encode_packet(room, 7, 9, encoding, &ciphertexts)));
    }
    let header = SumHeader { room, tick: 9, encoding: PointEncoding::Compressed, speakers, late };
    println!("sum {}", hex(&wire::encode_sum(&header, &sum)));
    // the keys of the places are expanded from this seed
    let key = SharedKey::generate(parameters, 3, &mut ChaCha20Rng::from_seed([10; 32]));
    let ciphertexts = SharedEncryptor::new(&key).encrypt(&[1000, -5, 0], &mut rng)?;
    let mut sum = ciphertexts.clone();
    sum.add_assign(&ciphertexts)?;
    println!("shared-packet {}", hex(&wire::encode_packet(room, 7, 9, PointEncoding::Compressed, &ciphertexts)));
    println!("shared-sum {}", hex(&wire::encode_sum(&header, &sum)));
    Ok(())
}
