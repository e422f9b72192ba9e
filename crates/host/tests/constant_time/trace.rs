//! Runs a process one instruction at a time (`ptrace`).

#![expect(unsafe_code, reason = "calls of the system for which there is no safe form")]

use super::CHILD;
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use std::env;
use std::hint::black_box;
use std::process::{Child, Command, Stdio};
use std::ptr::null_mut;

/// How often a child does its work before it is traced, so that tables are made and memory is
/// allocated.
const WARM: usize = 4;
/// The offset of the instruction pointer in the process's registers.
const RIP: usize = 16 * 8;

/// The exit status of a child that may not be traced.
pub(super) const UNTRACED: u8 = 77;

/// The child's side: does the work with both secrets in turn, twice, and stops after each time.
/// False if it may not be traced.
pub(super) fn run(work: &dyn Fn(bool)) -> bool {
    for _ in 0..WARM {
        work(false);
        work(true);
    }
    // SAFETY: it takes no address, and its effect on this process is that its parent traces it
    if unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, null_mut::<u8>(), null_mut::<u8>()) } != 0 {
        return false;
    }
    stop();
    // A single call site, so that the compiler cannot specialise the work for a secret.
    for turn in 0..black_box(4) {
        work(black_box(turn % 2 == 1));
        stop();
    }
    true
}

fn stop() {
    // SAFETY: it takes a number
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// A child that is killed at the end.
struct Traced(Child);

impl Drop for Traced {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

impl Traced {
    fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    /// The signal at which the child stopped; `None` if it may not be traced.
    fn stopped(&self) -> Option<i32> {
        let mut status = 0;
        // SAFETY: the status is written to a number of this function
        let found = unsafe { libc::waitpid(self.pid(), &raw mut status, 0) };
        assert_eq!(found, self.pid(), "{}", std::io::Error::last_os_error());
        if libc::WIFSTOPPED(status) {
            return Some(libc::WSTOPSIG(status));
        }
        assert!(
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == i32::from(UNTRACED),
            "the child failed: {status:#x}"
        );
        None
    }

    /// Continues the child until it stops by itself.
    fn go_on(&self) {
        // SAFETY: it takes no address of this process: the child goes on, with no signal
        let gone = unsafe { libc::ptrace(libc::PTRACE_CONT, self.pid(), null_mut::<u8>(), null_mut::<u8>()) };
        assert_eq!((gone, self.stopped()), (0, Some(libc::SIGSTOP)), "{}", std::io::Error::last_os_error());
    }

    /// The addresses of all instructions until the child stops by itself.
    fn until_stop(&self) -> Vec<u64> {
        let mut addresses = Vec::new();
        loop {
            // SAFETY: both take no address of this process: a step of the child, with no signal,
            // and a word of the child's
            let step = unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, self.pid(), null_mut::<u8>(), null_mut::<u8>()) };
            assert_eq!(step, 0, "{}", std::io::Error::last_os_error());
            match self.stopped() {
                Some(libc::SIGTRAP) => {}
                Some(libc::SIGSTOP) => return addresses,
                other => panic!("the child stopped with signal {other:?}"),
            }
            // SAFETY: as above
            let rip = unsafe { libc::ptrace(libc::PTRACE_PEEKUSER, self.pid(), RIP as *mut u8, null_mut::<u8>()) };
            addresses.push(rip as u64);
        }
    }

    /// The address of the executable in the child's memory.
    fn base(&self) -> u64 {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid())).unwrap_or_default();
        maps.split('-').next().and_then(|first| u64::from_str_radix(first, 16).ok()).unwrap_or(0)
    }
}

/// The place at which the runs with both secrets differ, and the number of instructions; `None` if
/// nothing can be traced.
pub(super) fn compare(name: &str) -> Option<(Option<String>, usize)> {
    // Parent and child alternate at each instruction: on one core this takes a quarter of the time.
    let mut one = CpuSet::new();
    one.set(sched_getcpu());
    _ = sched_setaffinity(None, &one);
    let mut command = Command::new(env::current_exe().unwrap());
    command.env(CHILD, name).stdin(Stdio::null()).stdout(Stdio::null());
    let child = Traced(command.spawn().unwrap());
    assert_eq!(child.stopped()?, libc::SIGSTOP);
    // The first pass may allocate memory differently, so the second pass is compared.
    child.go_on();
    child.go_on();
    let (one, other) = (child.until_stop(), child.until_stop());
    let at = one.iter().zip(&other).position(|(one, other)| one != other);
    let at = at.or((one.len() != other.len()).then(|| one.len().min(other.len())));
    let near = |trace: &[u64], at: usize| -> Vec<String> {
        let around = trace.get(at.saturating_sub(3)..).unwrap_or_default().iter().take(5);
        around.map(|address| format!("{:#x}", address.wrapping_sub(child.base()))).collect()
    };
    let told = at.map(|at| {
        format!(
            "after {at} of {} and {} instructions: {:?}, {:?}",
            one.len(),
            other.len(),
            near(&one, at),
            near(&other, at)
        )
    });
    Some((told, one.len()))
}
