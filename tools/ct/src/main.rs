//! Looks for branches, addresses and divisions that depend on secrets.
//!
//! The compiler decides whether a choice is a branch, so the program examines compiled code, its
//! own: a child process computes with two secrets in turn, one instruction at a time under a
//! tracer. All instructions, and all addresses in memory that they access, must be the same; so
//! must the operands of integer divisions. Three works with a fault show first that the tracer sees
//! what it looks for. Every work of lattices runs on each backend of the machine.
//!
//! Most works with points take too many instructions for that. They run under Valgrind, with
//! secrets as memory that was never written, and portable loops alone: Valgrind knows no AVX-512.
//! Two of them are traced with AVX-512, where the processor has it.
//!
//! The program also reads its own symbols. An instruction of AVX-512 that stands there as a
//! function is called somewhere, because a closure around it was not inlined: the loop then takes
//! several times as long, and no test of results sees it.
//!
//! Two secrets do not stand for all. So they are as different as they can be: zeros and large
//! numbers, a key and another. Times of single instructions are not measured.

#![deny(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a program")]

use std::process::ExitCode;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod curves;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod memcheck;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod memory;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod trace;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod works;

/// The environment variable that names backend and work of a traced child.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
const CHILD: &str = "TOBARI_CT_CHILD";

/// The exit status if nothing can be traced.
const NOT_RUN: u8 = 77;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() -> ExitCode {
    println!("this system traces no process: only Linux on x86-64 does");
    ExitCode::from(NOT_RUN)
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() -> ExitCode {
    if let Ok(child) = std::env::var(CHILD) {
        let (backend, name) = child.split_once(':').unwrap_or_default();
        if memcheck::runs() {
            curves::run(name);
            return ExitCode::SUCCESS;
        }
        let done = trace::run(|which| works::work(backend, name, which));
        return if done { ExitCode::SUCCESS } else { ExitCode::from(trace::UNTRACED) };
    }
    let Some((count, mut failed)) = no_instruction_and_no_address_depends_on_a_secret() else {
        println!("this process may trace no other");
        return ExitCode::from(NOT_RUN);
    };
    println!("{count} instructions compared");
    for name in instructions_that_are_functions() {
        println!("FAILED: {name} is a function, so that loops call it: use no closure around it");
        failed += 1;
    }
    match no_branch_and_no_address_depends_on_a_scalar() {
        Some(findings) => failed += findings,
        None => println!("NOT RUN: works with points, because valgrind is not on PATH"),
    }
    println!("{failed} works failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Names of AVX-512 instructions among the symbols of this program.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn instructions_that_are_functions() -> std::collections::BTreeSet<String> {
    let program = std::env::current_exe().and_then(std::fs::read).unwrap_or_default();
    instructions_among(&program)
}

/// Names of AVX-512 instructions of the standard library among these symbols.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn instructions_among(symbols: &[u8]) -> std::collections::BTreeSet<String> {
    // as in `9core_arch3x867avx512f18__mm512_loadu_si512`; cut, so that this text is not found
    let start = [b"9core_".as_slice(), b"arch3x86"].concat();
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let names = symbols.split(|byte| !is_name(byte)).filter_map(|word| {
        let place = word.windows(start.len()).position(|window| window == start)?;
        let name = String::from_utf8_lossy(&word[place + start.len()..]).into_owned();
        name.contains("avx512").then_some(name)
    });
    names.collect()
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    #[test]
    fn instructions_that_are_functions_are_found_by_their_symbols() {
        let arch = ["9core_", "arch3x86"].concat();
        let symbols = format!("\0_ZN4core{arch}7avx512f20_mm512_shuffle_i64x217h0ffcE\0_ZN4core{arch}3avx18_mm256E\0");
        let found = super::instructions_among(symbols.as_bytes());
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["7avx512f20_mm512_shuffle_i64x217h0ffcE"]);
    }
}

/// The works with points that failed; `None` without Valgrind.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn no_branch_and_no_address_depends_on_a_scalar() -> Option<usize> {
    let mut failed = 0;
    for (name, is_faulty) in curves::all() {
        let result = match (memcheck::findings(&name)?, is_faulty) {
            (Ok(findings), true) if findings.is_empty() => "FAILED: Valgrind sees nothing".to_owned(),
            (Ok(_), true) => "found, as it should be".to_owned(),
            (Ok(findings), false) if findings.is_empty() => "ok".to_owned(),
            (Ok(findings), false) => format!("FAILED: {}", findings.join("; ")),
            (Err(why), _) => format!("FAILED: {why}"),
        };
        failed += usize::from(result.starts_with("FAILED"));
        println!("{name:<38} {:<10} {:>12}  {result}", "memcheck", "");
    }
    Some(failed)
}

/// Instructions compared, and works of lattices that failed; `None` if nothing can be traced.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn no_instruction_and_no_address_depends_on_a_secret() -> Option<(usize, usize)> {
    let (mut failed, mut instructions) = (0, 0);
    println!("{:<38} {:<10} {:>12}  result", "work", "backend", "instructions");
    for (name, is_faulty, backends) in works::all() {
        for backend in backends {
            let compared = trace::compare(&name, backend)?;
            instructions += compared.count;
            let result = match &compared.parted {
                Some(_) if is_faulty => "found, as it should be".to_owned(),
                None if is_faulty => "FAILED: the tracer sees nothing".to_owned(),
                None if compared.count < works::FEWEST => "FAILED: too few instructions".to_owned(),
                None => "ok".to_owned(),
                Some(parted) => format!("FAILED: {parted}"),
            };
            failed += usize::from(result.starts_with("FAILED"));
            println!("{name:<38} {backend:<10} {:>12}  {result}", compared.count);
        }
    }
    Some((instructions, failed))
}
