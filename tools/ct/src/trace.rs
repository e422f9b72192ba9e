//! Runs a process one instruction at a time (`ptrace`), and keeps what somebody on the same
//! processor may see of each: its address, the addresses that it reads and writes, and the operands
//! of integer divisions, whose time depends on them.

#![expect(unsafe_code, reason = "calls of the system for which there is no safe form")]

use super::CHILD;
use super::memory;
use super::works::Work;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use std::collections::HashMap;
use std::env;
use std::hint::black_box;
use std::process::{Child, Command, Stdio};
use std::ptr::null_mut;

/// Bytes of the longest instruction.
const LONGEST: usize = 15;

/// The exit status of a child that may not be traced.
pub(super) const UNTRACED: u8 = 77;

/// The child's side: does the work with both secrets in turn, twice, and stops before and after
/// each time. False if it may not be traced.
pub(super) fn run(work: impl Fn(usize) -> Work) -> bool {
    // tables of the process are made before
    for which in 0..2 {
        work(which)();
    }
    // SAFETY: it takes no address, and its effect on this process is that its parent traces it
    if unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, null_mut::<u8>(), null_mut::<u8>()) } != 0 {
        return false;
    }
    stop();
    // A single call site, so that the compiler cannot specialise the work for a secret.
    for which in 0..black_box(2) {
        memory::restart();
        let work = work(black_box(which));
        stop();
        work();
        stop();
    }
    true
}

fn stop() {
    // SAFETY: it takes a number
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// What one instruction shows.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shown {
    /// Its address.
    at: u64,
    /// A digest of the addresses that it accesses, and of what it divides.
    data: u64,
}

/// A child that is killed at the end.
struct Traced {
    child: Child,
    instructions: HashMap<u64, Option<Instruction>>,
    /// Addresses that were not known, so far.
    unknown: u64,
}

impl Drop for Traced {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

impl Traced {
    fn pid(&self) -> i32 {
        self.child.id() as i32
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

    /// All that the child's instructions show until it stops by itself.
    fn until_stop(&mut self) -> Vec<Shown> {
        let mut all = Vec::new();
        loop {
            let registers = self.registers();
            let shown = self.shown(&registers);
            // SAFETY: it takes no address of this process: a step of the child, with no signal
            let step = unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, self.pid(), null_mut::<u8>(), null_mut::<u8>()) };
            assert_eq!(step, 0, "{}", std::io::Error::last_os_error());
            match self.stopped() {
                Some(libc::SIGTRAP) => all.push(shown),
                Some(libc::SIGSTOP) => return all,
                other => panic!("the child stopped with signal {other:?}"),
            }
        }
    }

    fn registers(&self) -> libc::user_regs_struct {
        let mut registers = std::mem::MaybeUninit::<libc::user_regs_struct>::zeroed();
        // SAFETY: the registers are written to a structure of this function
        let read = unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.pid(), null_mut::<u8>(), registers.as_mut_ptr()) };
        assert_eq!(read, 0, "{}", std::io::Error::last_os_error());
        // SAFETY: numbers alone, and zero before
        unsafe { registers.assume_init() }
    }

    /// A word of the child's memory.
    fn word(&self, at: u64) -> u64 {
        // SAFETY: it takes no address of this process
        unsafe { libc::ptrace(libc::PTRACE_PEEKDATA, self.pid(), at as *mut u8, null_mut::<u8>()) as u64 }
    }

    /// The instruction at this address, which does not change; `None` if its bytes say nothing.
    fn instruction(&mut self, at: u64) -> Option<Instruction> {
        if let Some(known) = self.instructions.get(&at) {
            return *known;
        }
        let bytes: Vec<u8> = (0..2).flat_map(|word| self.word(at + 8 * word).to_le_bytes()).take(LONGEST).collect();
        let decoded = Decoder::with_ip(64, &bytes, at, DecoderOptions::NONE).decode();
        let instruction = (!decoded.is_invalid()).then_some(decoded);
        self.instructions.insert(at, instruction);
        instruction
    }

    fn shown(&mut self, registers: &libc::user_regs_struct) -> Shown {
        let at = registers.rip;
        let Some(instruction) = self.instruction(at) else { return Shown { at, data: u64::MAX } };
        let mut data = 0u64;
        let mut mix = |value: u64| data = (data.rotate_left(7) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let divides = matches!(instruction.mnemonic(), Mnemonic::Div | Mnemonic::Idiv);
        if divides {
            [registers.rax, registers.rdx].into_iter().for_each(&mut mix);
        }
        // these compute with an address, and access nothing
        let computes = matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop);
        for operand in 0..instruction.op_count() {
            match instruction.op_kind(operand) {
                OpKind::Register if divides => mix(value(registers, instruction.op_register(operand)).unwrap_or(0)),
                OpKind::Memory if computes => {}
                OpKind::Memory
                | OpKind::MemorySegSI
                | OpKind::MemorySegESI
                | OpKind::MemorySegRSI
                | OpKind::MemoryESDI
                | OpKind::MemoryESEDI
                | OpKind::MemoryESRDI => {
                    let address = address(&instruction, operand, registers);
                    // no two addresses that are not known are the same: a gather is a finding
                    self.unknown += u64::from(address.is_none());
                    mix(address.unwrap_or(self.unknown));
                    if let (true, Some(address)) = (divides, address) {
                        mix(self.word(address));
                    }
                }
                _ => {}
            }
        }
        Shown { at, data }
    }

    /// The address of the executable in the child's memory.
    fn base(&self) -> u64 {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid())).unwrap_or_default();
        maps.split('-').next().and_then(|first| u64::from_str_radix(first, 16).ok()).unwrap_or(0)
    }
}

/// The address of an operand in memory; `None` if it is in a vector register, as that of a gather.
fn address(instruction: &Instruction, operand: u32, registers: &libc::user_regs_struct) -> Option<u64> {
    instruction.virtual_address(operand, 0, |register, _, _| value(registers, register))
}

/// What a general register holds; for a segment, its base.
fn value(registers: &libc::user_regs_struct, register: Register) -> Option<u64> {
    let whole = match register.full_register() {
        Register::RAX => registers.rax,
        Register::RBX => registers.rbx,
        Register::RCX => registers.rcx,
        Register::RDX => registers.rdx,
        Register::RSI => registers.rsi,
        Register::RDI => registers.rdi,
        Register::RBP => registers.rbp,
        Register::RSP => registers.rsp,
        Register::R8 => registers.r8,
        Register::R9 => registers.r9,
        Register::R10 => registers.r10,
        Register::R11 => registers.r11,
        Register::R12 => registers.r12,
        Register::R13 => registers.r13,
        Register::R14 => registers.r14,
        Register::R15 => registers.r15,
        Register::FS => registers.fs_base,
        Register::GS => registers.gs_base,
        Register::CS | Register::DS | Register::ES | Register::SS => 0,
        _ => return None,
    };
    Some(match register.size() {
        1 => whole & 0xff,
        4 => whole & 0xffff_ffff,
        _ => whole,
    })
}

/// The runs of one work with two secrets.
pub(super) struct Compared {
    /// Where they differ.
    pub parted: Option<String>,
    /// Instructions of a run.
    pub count: usize,
}

/// Compares the runs of a work with both secrets; `None` if nothing can be traced.
pub(super) fn compare(name: &str, backend: &str) -> Option<Compared> {
    // Parent and child alternate at each instruction: on one core this takes a quarter of the time.
    let mut one = CpuSet::new();
    one.set(sched_getcpu());
    _ = sched_setaffinity(None, &one);
    let mut command = Command::new(env::current_exe().unwrap_or_default());
    command.env(CHILD, format!("{backend}:{name}")).stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.spawn().unwrap_or_else(|error| panic!("no child: {error}"));
    let mut child = Traced { child, instructions: HashMap::new(), unknown: 0 };
    assert_eq!(child.stopped()?, libc::SIGSTOP);
    let [one, other] = [(); 2].map(|()| {
        child.go_on();
        child.until_stop()
    });
    let at = one.iter().zip(&other).position(|(one, other)| one != other);
    let at = at.or((one.len() != other.len()).then(|| one.len().min(other.len())));
    Some(Compared { parted: at.map(|at| child.told(at, &one, &other)), count: one.len() })
}

impl Traced {
    /// Where two runs part: the instructions there, and what differs.
    fn told(&mut self, at: usize, one: &[Shown], other: &[Shown]) -> String {
        let base = self.base();
        let near = |trace: &[Shown]| -> Vec<String> {
            let around = trace.get(at.saturating_sub(2)..).unwrap_or_default().iter().take(4);
            around.map(|shown| format!("{:#x}", shown.at.wrapping_sub(base))).collect()
        };
        let what = match (one.get(at), other.get(at)) {
            (Some(a), Some(b)) if a.at == b.at => "an address or a division",
            _ => "a branch",
        };
        let instruction = one.get(at).and_then(|shown| self.instructions.get(&shown.at).copied().flatten());
        let instruction = instruction.map_or(String::new(), |found| format!("{:?}", found.code()));
        let counts = format!("{} and {} instructions", one.len(), other.len());
        format!("{what} after {at} of {counts}: {instruction} near {:?}, {:?}", near(one), near(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers() -> libc::user_regs_struct {
        // SAFETY: numbers alone
        unsafe { std::mem::zeroed() }
    }

    #[test]
    fn addresses_are_those_of_the_operands_and_a_gather_has_none() {
        let mut registers = registers();
        (registers.rbx, registers.rcx, registers.fs_base) = (0x1000, 0x20, 0x7000_0000);
        let of = |bytes: &[u8]| {
            let instruction = Decoder::with_ip(64, bytes, 0x40_0000, DecoderOptions::NONE).decode();
            let operand = (0..instruction.op_count()).find(|i| instruction.op_kind(*i) == OpKind::Memory).unwrap();
            address(&instruction, operand, &registers)
        };
        // mov rax, [rbx + 8 rcx + 16]; mov rax, fs:[40]; mov rax, [rip + 256]
        assert_eq!(of(&[0x48, 0x8b, 0x44, 0xcb, 0x10]), Some(0x1000 + 8 * 0x20 + 16));
        assert_eq!(of(&[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0]), Some(0x7000_0028));
        assert_eq!(of(&[0x48, 0x8b, 0x05, 0, 1, 0, 0]), Some(0x40_0007 + 256));
        // vpgatherdd ymm0, [rbx + 4 ymm1], ymm2
        assert_eq!(of(&[0xc4, 0xe2, 0x6d, 0x90, 0x04, 0x8b]), None);
        // the parts of registers
        registers.rax = 0x1234_5678_9abc_def0;
        let parts = [Register::RAX, Register::EAX, Register::AL, Register::YMM1];
        let expected = [Some(registers.rax), Some(0x9abc_def0), Some(0xf0), None];
        assert_eq!(parts.map(|register| value(&registers, register)), expected);
    }
}
