//! Secrets as memory that was never written, for Valgrind: its tool memcheck reports each branch
//! and each address that depends on such memory, for all values at once.
//!
//! A program talks to Valgrind by five instructions that do nothing on a processor.
//!
//! Some branches on secrets are meant: whether a point is the identity, or two points are equal, is
//! public, because a secret scalar gives the identity with a chance of `1/n`. So is whether all
//! messages are in range. [`PUBLIC`] has the number of such places for each function. A branch more
//! is a finding.

#![expect(unsafe_code, reason = "the instructions that Valgrind looks for")]

use super::CHILD;
use std::arch::asm;
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};

/// Places at which a function may ask what is public. Comparisons of whole coordinates are calls of
/// `bcmp` on some curves.
const PUBLIC: [(&str, usize); 5] = [
    ("tobari_curve::kernels::portable::import", 4),
    ("tobari_curve::kernels::portable::add_assign", 6),
    ("tobari_curve::kernels::portable::multiply", 8),
    ("tobari_curve::elgamal::check_messages", 1),
    ("bcmp", 1),
];

/// Memcheck's number for "this memory was never written".
const MAKE_UNDEFINED: u64 = 0x4d43_0001;
/// Memcheck's number for "this memory has been written".
const MAKE_DEFINED: u64 = 0x4d43_0002;
/// Is Valgrind there?
const RUNNING_ON: u64 = 0x1001;

fn request(number: u64, start: u64, count: u64) -> u64 {
    let arguments = [number, start, count, 0, 0, 0];
    let mut answer = 0u64;
    // SAFETY: the instructions turn a register once around and exchange another with itself
    unsafe {
        asm!(
            "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
            inout("rdx") answer, in("rax") arguments.as_ptr(), inout("rdi") 0u64 => _,
            options(nostack),
        );
    }
    answer
}

/// Does this process run under Valgrind?
pub(super) fn runs() -> bool {
    request(RUNNING_ON, 0, 0) != 0
}

/// Makes memory secret.
pub(super) fn hide<T: ?Sized>(value: &T) {
    request(MAKE_UNDEFINED, std::ptr::from_ref(value).cast::<u8>() as u64, size_of_val(value) as u64);
}

/// Runs the work of this name, and tells what depends on its secret and should not; `None` without
/// Valgrind.
///
/// # Errors
/// The work's own failure.
pub(super) fn findings(name: &str) -> Option<Result<Vec<String>, String>> {
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--error-limit=no"]).arg(std::env::current_exe().unwrap_or_default());
    let done = command.env(CHILD, format!("memcheck:{name}")).stdin(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    Some(if done.status.success() { Ok(unexpected(&said)) } else { Err(said) })
}

/// The places that Valgrind reports, and that are more than [`PUBLIC`] allows.
fn unexpected(said: &str) -> Vec<String> {
    let mut places: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut lines = said.lines();
    while let Some(line) = lines.next() {
        if line.contains("uninitialised value") {
            // ==7==    at 0x1A3BB8: function (in file)
            let place = lines.next().and_then(|line| line.split_once(" at "));
            let (address, function) = place.and_then(|(_, place)| place.split_once(": ")).unwrap_or((line, line));
            let function = function.split(" (in ").next().unwrap_or(function);
            places.entry(function).or_default().insert(address);
        }
    }
    let allowed = |function: &str| PUBLIC.iter().find(|(name, _)| *name == function).map_or(0, |(_, count)| *count);
    let more = places.into_iter().filter(|(function, places)| places.len() > allowed(function));
    more.map(|(function, places)| format!("{} places in {function}: {places:?}", places.len())).collect()
}

/// Makes the bytes of a value secret in which it differs from another. What is the same in both,
/// such as a length or the name of a curve, is no secret.
pub(super) fn hide_difference<T>(value: &T, other: &T) {
    let bytes = |value: &T| {
        // SAFETY: the bytes of a value that lives
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) }
    };
    // padding between fields is never written
    [value, other].into_iter().for_each(publish);
    for (byte, other) in bytes(value).iter().zip(bytes(other)) {
        if byte != other {
            hide(byte);
        }
    }
}

/// Makes memory known.
fn publish<T: ?Sized>(value: &T) {
    request(MAKE_DEFINED, std::ptr::from_ref(value).cast::<u8>() as u64, size_of_val(value) as u64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_more_than_is_public_is_a_finding() {
        let report = |kind: &str, address: usize, function: &str| {
            format!(
                "==7== {kind}\n==7==    at {address:#X}: {function} (in ct)\n==7==    by 0x1: main (in ct)\n==7== \n"
            )
        };
        let branch = "Conditional jump or move depends on uninitialised value(s)";
        let (known, _) = PUBLIC[0];
        let mut said: String = (0..4).map(|place| report(branch, place, known)).collect();
        assert_eq!(unexpected(&said), Vec::<String>::new());
        said += &report(branch, 3, known);
        assert_eq!(unexpected(&said), Vec::<String>::new(), "the same place again");
        said += &report("Use of uninitialised value of size 8", 5, known);
        assert_eq!(unexpected(&said).len(), 1);
        assert_eq!(unexpected(&report(branch, 1, "another")), ["1 places in another: {\"0x1\"}"]);
        assert_eq!(unexpected("==7== Conditional jump or move depends on uninitialised value(s)").len(), 1);
    }
}
