//! Reads and writes of another process's memory by system calls, to emulate a device with direct
//! memory access. The other process's core does no work for them.

use std::io;

/// A stretch of the other process's memory: address and length in bytes.
pub(super) type Stretch = (u64, usize);

/// Allows a process of ours to access our memory, if the system requires it (Yama). Other systems
/// allow it anyway.
pub(super) fn let_in(process: u32) {
    // SAFETY: this request takes one number and touches no memory; where it is not known, it fails,
    // and nothing was needed
    let _ = unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::c_ulong::from(process), 0, 0, 0) };
}

/// Adds a stretch, or extends the last one if at most `gap` bytes lie between the two. Returns the
/// number of bytes added.
pub(super) fn go_on(stretches: &mut Vec<Stretch>, (at, bytes): Stretch, gap: u64) -> Option<usize> {
    if let Some((first, all)) = stretches.last_mut() {
        let between = at.checked_sub(first.checked_add(*all as u64)?).filter(|between| *between <= gap);
        if let Some(between) = between {
            let more = (between as usize).checked_add(bytes)?;
            *all = all.checked_add(more)?;
            return Some(more);
        }
    }
    stretches.push((at, bytes));
    Some(bytes)
}

fn vectors(stretches: &[Stretch]) -> Vec<libc::iovec> {
    let vector = |(at, bytes): &Stretch| libc::iovec { iov_base: *at as *mut libc::c_void, iov_len: *bytes };
    stretches.iter().map(vector).collect()
}

fn whole(moved: isize, bytes: usize) -> io::Result<()> {
    match usize::try_from(moved) {
        Err(_) => Err(io::Error::last_os_error()),
        Ok(moved) if moved == bytes => Ok(()),
        Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Reads the stretches one after another into `into`, which has the length of all of them.
pub(super) fn fetch(process: i32, from: &[Stretch], into: &mut [u8]) -> io::Result<()> {
    for (some, bytes) in parts(from) {
        let (part, _) = into.split_at_mut_checked(bytes.end).ok_or(io::ErrorKind::UnexpectedEof)?;
        let part = &mut part[bytes];
        let (there, count) = (vectors(some), part.len());
        let here = libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: count };
        // SAFETY: `here` is a borrowed slice, which the system writes; what it finds in the other
        // process it checks itself
        let moved =
            unsafe { libc::process_vm_readv(process, &raw const here, 1, there.as_ptr(), there.len() as u64, 0) };
        whole(moved, count)?;
    }
    Ok(())
}

/// Writes `bytes` to the stretches, one after another.
pub(super) fn deliver(process: i32, bytes: &[u8], to: &[Stretch]) -> io::Result<()> {
    for (some, part) in parts(to) {
        let part = bytes.get(part).ok_or(io::ErrorKind::UnexpectedEof)?;
        let there = vectors(some);
        let here = libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() };
        // SAFETY: `here` is a borrowed slice, which the system only reads; where the other process
        // may be written it checks itself
        let moved =
            unsafe { libc::process_vm_writev(process, &raw const here, 1, there.as_ptr(), there.len() as u64, 0) };
        whole(moved, part.len())?;
    }
    Ok(())
}

/// Groups of stretches for one system call each, and the range of their bytes among all.
fn parts(stretches: &[Stretch]) -> impl Iterator<Item = (&[Stretch], std::ops::Range<usize>)> {
    let mut at = 0;
    stretches.chunks(512).map(move |some| {
        let bytes = at..at + some.iter().map(|stretch| stretch.1).sum::<usize>();
        at = bytes.end;
        (some, bytes)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

    use super::*;

    #[test]
    fn stretches_are_read_and_written_in_their_order_and_a_wrong_one_is_refused() {
        let ours = std::process::id().cast_signed();
        let (a, b) = (vec![1_u8; 5000], vec![2_u8; 3]);
        let place = |bytes: &[u8]| (bytes.as_ptr().expose_provenance() as u64, bytes.len());
        let mut into = vec![0; 5003];
        if let Err(error) = fetch(ours, &[place(&a), place(&b)], &mut into) {
            println!("NOT RUN: this system lets no process read another's memory: {error}");
            return;
        }
        assert!(into == [&a[..], &b].concat());
        let (mut c, mut d) = (vec![0_u8; 2], vec![0_u8; 700]);
        let there = [(c.as_mut_ptr().expose_provenance() as u64, 2), (d.as_mut_ptr().expose_provenance() as u64, 700)];
        deliver(ours, &into[4999..5003].repeat(176)[..702], &there).unwrap();
        assert_eq!((c, d[..3].to_vec()), (vec![1, 2], vec![2, 2, 1]));
        let (whole, mut near) = (place(&a), Vec::new());
        let add = |at: u64, bytes: usize, near: &mut Vec<Stretch>| go_on(near, (whole.0 + at, bytes), 64).unwrap();
        assert_eq!([add(0, 10, &mut near), add(20, 5, &mut near), add(25, 1, &mut near)], [10, 15, 1]);
        assert_eq!([add(91, 2, &mut near), add(0, 3, &mut near)], [2, 3], "too far, and back");
        assert_eq!(near, [(whole.0, 26), (whole.0 + 91, 2), (whole.0, 3)]);
        assert_eq!(go_on(&mut vec![(u64::MAX - 1, 2)], (0, 1), 0), None);
        assert!(fetch(ours, &[(8, 4)], &mut [0; 4]).is_err());
        assert!(deliver(ours, &[0; 4], &[(8, 4)]).is_err());
    }
}
