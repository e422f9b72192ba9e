//! Lists of objects: their number (4 bytes, big-endian), and each with its length (4) before it.

/// The list's bytes.
pub(super) fn join(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + parts.iter().map(|part| 4 + part.len()).sum::<usize>());
    out.extend((parts.len() as u32).to_be_bytes());
    for part in parts {
        out.extend((part.len() as u32).to_be_bytes());
        out.extend_from_slice(part);
    }
    out
}

/// The parts of a list of `count` parts; `None` for other bytes.
pub(super) fn split(bytes: &[u8], count: usize) -> Option<Vec<&[u8]>> {
    let (found, mut rest) = bytes.split_first_chunk::<4>()?;
    if u32::from_be_bytes(*found) as usize != count {
        return None;
    }
    // each part takes at least four bytes, so the bytes bound the allocation
    let mut parts = Vec::with_capacity(count.min(rest.len() / 4));
    for _ in 0..count {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (part, after) = after.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        parts.push(part);
        rest = after;
    }
    rest.is_empty().then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn a_list_has_one_form_and_other_bytes_are_none(parts: Vec<Vec<u8>>, more in 1_usize..4, noise: Vec<u8>) {
            let bytes = join(&parts);
            assert_eq!(split(&bytes, parts.len()).unwrap(), parts);
            assert!((0..bytes.len()).all(|length| split(&bytes[..length], parts.len()).is_none()));
            assert!(split(&[&bytes[..], &[0]].concat(), parts.len()).is_none() && split(&bytes, parts.len() + more).is_none());
            crate::fuzz_setup(&noise);
            crate::fuzz_setup(&[&[0, 0, 0, more as u8][..], &noise].concat());
        }
    }
}
