//! The sum of many members' packets on all cores.
//!
//! Addition is associative, so each thread adds a share of the packets in its own memory, and the
//! partial sums are added at the end: `n` packets on `t` threads take the time of `n/t + t`
//! additions.

use std::panic::resume_unwind;
use std::thread;
use tobari_curve::wire::Payload;
use tobari_curve::{Adder, Mismatch};

/// The sum of `packets` on as many threads as there are adders; `None` without packets. The adders'
/// memory is reused. Each thread takes at least two packets.
///
/// # Errors
/// [`Mismatch`] if two packets differ in curve or length.
///
/// # Panics
/// If there is no adder.
pub fn sum_parallel<P: Payload>(packets: &[&P], adders: &mut [Adder]) -> Result<Option<P>, Mismatch> {
    let threads = adders.len().min(packets.len() / 2).max(1);
    let share = packets.len().div_ceil(threads).max(1);
    let [own, others @ ..] = adders else { panic!("nothing to add with") };
    let Some((first, rest)) = packets.split_at_checked(share.min(packets.len())) else { return Ok(None) };
    thread::scope(|scope| {
        let work = rest.chunks(share).zip(others);
        let running: Vec<_> = work.map(|(share, adder)| scope.spawn(move || sum(share, adder))).collect();
        let mut total = sum(first, own)?;
        for thread in running {
            let partial = thread.join().unwrap_or_else(|panic| resume_unwind(panic))?;
            if let (Some(total), Some(partial)) = (&mut total, &partial) {
                total.add_assign_with(partial, own)?;
            }
        }
        Ok(total)
    })
}

fn sum<P: Payload>(packets: &[&P], adder: &mut Adder) -> Result<Option<P>, Mismatch> {
    let Some((first, rest)) = packets.split_first() else { return Ok(None) };
    let mut total = (*first).clone();
    for packet in rest {
        total.add_assign_with(packet, adder)?;
    }
    Ok(Some(total))
}

#[cfg(test)]
mod tests {
    use super::*;
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
    use tobari_curve::Curve;
    use tobari_curve::elgamal::{SharedCiphertexts, SharedDecryptor, SharedEncryptor, SharedKey};
    use tobari_curve::params::{Parameters, SecurityFloor};

    #[test]
    fn every_number_of_threads_gives_the_same_sum() {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let parameters = Parameters::new(Curve::Secp256k1, SecurityFloor::Standard).unwrap();
        let key = SharedKey::generate(parameters, 9, &mut rng);
        let encryptor = SharedEncryptor::new(&key);
        let packets: Vec<_> =
            (0..13).map(|i| encryptor.encrypt(&[i, -i, 1, 0, 7, 8, 9, 10, 11], &mut rng).unwrap()).collect();
        let packets: Vec<_> = packets.iter().collect();
        let mut adders: Vec<Adder> = (0..40).map(|_| Adder::default()).collect();
        for threads in [1, 2, 3, 5, 13, 40] {
            let sum = sum_parallel(&packets, &mut adders[..threads]).unwrap().unwrap();
            let decrypted = SharedDecryptor::new(&key, 1000).vartime_decrypt(&sum).unwrap();
            assert_eq!(*decrypted, [78, -78, 13, 0, 91, 104, 117, 130, 143], "{threads} threads");
        }
        assert!(sum_parallel::<SharedCiphertexts>(&[], &mut adders).unwrap().is_none());
        let alone = sum_parallel(&packets[..1], &mut adders).unwrap();
        assert!(alone.is_some_and(|sum| sum == *packets[0]));
        let shorter = encryptor.encrypt(&[1], &mut rng).unwrap();
        assert!(sum_parallel(&[packets[0], packets[1], &shorter, &shorter], &mut adders[..2]).is_err());
        assert!(sum_parallel(&[packets[0], &shorter], &mut adders[..1]).is_err());
    }
}
