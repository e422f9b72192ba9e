//! The rights that a process gives up for ever before a handler is built in it.
//!
//! Each step records its result, and no failure is silent. The order matters. Namespaces are first,
//! because they need rights that later steps give up. The filter of system calls is last, because
//! the other steps need calls for which it kills.

use landlock::{ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetStatus, Scope};
use rustix::io::Errno;
use rustix::mm::{MlockAllFlags, MlockFlags, mlock_with, mlockall};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};
use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, Signal, WaitOptions, chdir, getrlimit, pivot_root, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit, waitpid,
};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags, set_capabilities, set_no_new_privs};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};
use std::ffi::c_int;
use std::io;
use std::ops::Range;
use tobari_enclave::{Protection, Protections, State};

/// The exit code of a process whose code panicked.
pub(super) const PANICKED: i32 = 70;
/// The exit code of a process that could not begin.
pub const NOT_STARTED: i32 = 71;
/// A process adds this to the number of the signal that ended its child, and exits with the sum.
pub(super) const BY_SIGNAL: i32 = 128;

/// Ends the process at once, without any clean-up.
pub fn end_now(code: i32) -> ! {
    // SAFETY: always sound; nothing runs afterwards.
    unsafe { libc::_exit(code) }
}

fn noted(result: Result<(), Errno>) -> State {
    match result {
        Ok(()) => State::Applied,
        Err(error) => State::Refused(u16::try_from(error.raw_os_error()).unwrap_or(0)),
    }
}

/// Asks to die with the parent, and ends if `parent` is no longer the parent.
pub(super) fn die_with(parent: u64, protections: &mut Protections) {
    let asked = noted(set_parent_process_death_signal(Some(Signal::KILL)));
    protections.set(Protection::DiesWithParent, asked);
    let found = rustix::process::getppid().map_or(0, |pid| u64::from(pid.as_raw_nonzero().get().unsigned_abs()));
    if found != parent {
        end_now(NOT_STARTED);
    }
}

/// Asks to die with the parent, as an enclave does, without a record of protections.
pub fn die_with_parent(parent: u64) {
    die_with(parent, &mut Protections::none());
}

/// Creates new namespaces, as far as the kernel allows. Returns whether the next child will be in a
/// new process namespace.
pub(super) fn unshare(protections: &mut Protections) -> bool {
    let inner = UnshareFlags::NEWNET | UnshareFlags::NEWNS | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    // First all of them with a new user namespace. If that is refused, without one: a privileged
    // process has the right.
    let with_user = own(UnshareFlags::NEWUSER | UnshareFlags::NEWPID | inner);
    protections.set(Protection::UserNamespace, noted(with_user));
    let rest = with_user.or_else(|_| own(UnshareFlags::NEWPID | inner));
    for protection in [Protection::ProcessNamespace, Protection::NetworkNamespace] {
        protections.set(protection, noted(rest));
    }
    protections.set(Protection::EmptyRoot, noted(rest.and_then(|()| empty_root())));
    rest.is_ok()
}

fn own(flags: UnshareFlags) -> Result<(), Errno> {
    // SAFETY: the flags do not include open files, so no descriptor is shared or closed
    // unexpectedly.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

/// Replaces the root with an empty file system that has no space.
fn empty_root() -> Result<(), Errno> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let mut last = Err(Errno::NOENT);
    for place in ["/tmp", "/proc", "/dev", "/sys"] {
        last = mount("tmpfs", place, "tmpfs", flags, c"size=4k,nr_inodes=1,mode=555").and_then(|()| chdir(place));
        if last.is_ok() {
            break;
        }
    }
    last?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")
}

/// Continues in a child, which is the first process of the new namespace. This process waits for
/// the child and ends with the same status.
///
/// `started` receives the child's number, as seen from here.
pub(super) fn go_on_in_child(started: impl FnOnce(u64), protections: &mut Protections) -> io::Result<()> {
    let (reader, writer) = io::pipe()?;
    // SAFETY: this process has one thread, so the child has everything its parent had, and locks
    // are as they were.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(writer);
            protections.set(Protection::DiesWithParent, noted(set_parent_process_death_signal(Some(Signal::KILL))));
            // If the parent ended before that call, its end of the pipe is closed.
            let mut polled = [rustix::event::PollFd::new(&reader, rustix::event::PollFlags::empty())];
            let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            match rustix::event::poll(&mut polled, Some(&at_once)) {
                Ok(0) => Ok(()),
                _ => end_now(NOT_STARTED),
            }
        }
        child => {
            drop(reader);
            started(u64::from(child.unsigned_abs()));
            let _ = set_no_new_privs(true);
            let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
            wait_and_end(child, writer)
        }
    }
}

fn wait_and_end(child: c_int, open: io::PipeWriter) -> ! {
    let ended = loop {
        match waitpid(Pid::from_raw(child), WaitOptions::empty()) {
            Err(Errno::INTR) => {}
            other => break other,
        }
    };
    drop(open);
    match ended {
        Ok(Some((_, status))) => match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => end_now(code),
            (None, Some(signal)) => end_now(BY_SIGNAL + signal),
            (None, None) => end_now(NOT_STARTED),
        },
        _ => end_now(NOT_STARTED),
    }
}

/// The descriptors that stay open for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Open {
    /// Shared memory is mapped and needs no descriptor.
    Nothing,
    /// Standard input and output.
    Pipes,
}

/// Applies every restriction of this process itself; none of them needs a right. Afterwards hardly
/// any system call is left.
pub(super) fn confine(own: Vec<Range<usize>>, open: Open, protections: &mut Protections) {
    protections.set(Protection::NoCapabilities, noted(give_up_capabilities()));
    protections.set(Protection::NoNewPrivileges, noted(set_no_new_privs(true)));
    protections.set(Protection::Landlock, landlock());
    protections.set(Protection::NothingInherited, close_all(open));
    protections.set(Protection::LockedMemory, lock_memory(own));
    // After the user namespace and the capabilities: changing those resets it.
    let mut not_dumpable = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    for limit in [Resource::Core, Resource::Nofile, Resource::Nproc, Resource::Fsize] {
        not_dumpable = not_dumpable.and(setrlimit(limit, Rlimit { current: Some(0), maximum: Some(0) }));
    }
    protections.set(Protection::NotDumpable, noted(not_dumpable));
    // The message of a panic could hold any data, so there is none.
    std::panic::set_hook(Box::new(|_| end_now(PANICKED)));
    protections.set(Protection::SystemCallFilter, filter(open));
}

fn give_up_capabilities() -> Result<(), Errno> {
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

fn landlock() -> State {
    // Everything that this version of the interface can deny, without exception.
    let abi = ABI::V6;
    let restricted = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(abi)))
        .and_then(|rules| rules.scope(Scope::from_all(abi)))
        .and_then(Ruleset::create)
        .and_then(landlock::RulesetCreated::restrict_self);
    match restricted.map(|status| status.ruleset) {
        Ok(RulesetStatus::FullyEnforced) => State::Applied,
        Ok(RulesetStatus::PartiallyEnforced) => State::Partly,
        Ok(RulesetStatus::NotEnforced) | Err(_) => State::Refused(0),
    }
}

/// Closes every descriptor, including the standard ones. Shared memory stays mapped without a
/// descriptor; with pipes, standard input and output stay open.
fn close_all(open: Open) -> State {
    let (first, all) = match open {
        Open::Nothing => (0_u32, State::Applied),
        Open::Pipes => (2, State::Partly),
    };
    // SAFETY: no descriptor but those below `first` is used from here on, by this code or by any
    // value that lives longer than this call.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0_u32) };
    if closed == 0 { all } else { State::Refused(last_error()) }
}

fn last_error() -> u16 {
    io::Error::last_os_error().raw_os_error().and_then(|number| u16::try_from(number).ok()).unwrap_or(0)
}

/// The memory of this process that is private and writable: heap, stack, data.
///
/// Call this before the root directory is gone; a child has the same addresses. It also raises the
/// limit on locked memory, as far as this process may, before the process gives up its rights.
pub(super) fn own_memory() -> Vec<Range<usize>> {
    let unlimited = Rlimit { current: None, maximum: None };
    if setrlimit(Resource::Memlock, unlimited).is_err() {
        let Rlimit { maximum, .. } = getrlimit(Resource::Memlock);
        let _ = setrlimit(Resource::Memlock, Rlimit { current: maximum, maximum });
    }
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let parse = |line: &str| {
        let (addresses, rest) = line.split_once(' ')?;
        let (start, end) = addresses.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        rest.starts_with("rw-p").then_some(address(start)?..address(end)?)
    };
    maps.lines().filter_map(parse).collect()
}

/// Keeps all memory out of swap if there is no limit. Otherwise it locks the present memory, the
/// smallest pieces first, as far as the limit allows.
///
/// Under a limit it cannot include later memory: an allocation beyond the limit would fail.
fn lock_memory(mut own: Vec<Range<usize>>) -> State {
    if getrlimit(Resource::Memlock).current.is_none() {
        return noted(mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT));
    }
    own.sort_by_key(|piece| piece.end - piece.start);
    let (mut locked, mut last) = (0, Err(Errno::NOMEM));
    for piece in own {
        let start = std::ptr::with_exposed_provenance_mut(piece.start);
        // SAFETY: locking pages changes none of their bytes; where nothing is mapped any more, the
        // system refuses.
        last = unsafe { mlock_with(start, piece.end - piece.start, MlockFlags::ONFAULT) };
        locked += usize::from(last.is_ok());
    }
    if locked > 0 { State::Partly } else { noted(last) }
}

/// Kills the process for every system call except those for memory, randomness, sleep and its end.
fn filter(open: Open) -> State {
    let Ok(architecture) = TargetArch::try_from(std::env::consts::ARCH) else { return State::Refused(0) };
    let Ok(rules) = rules(open) else { return State::Refused(0) };
    let filter = SeccompFilter::new(rules, SeccompAction::KillProcess, SeccompAction::Allow, architecture);
    let Ok(program) = filter.and_then(TryInto::<BpfProgram>::try_into) else { return State::Refused(0) };
    // this reads how much memory the machine has, which the filter then forbids
    crate::memory::settle();
    if seccompiler::apply_filter(&program).is_ok() { State::Applied } else { State::Refused(last_error()) }
}

type Rules = std::collections::BTreeMap<i64, Vec<SeccompRule>>;

fn rules(open: Open) -> Result<Rules, seccompiler::BackendError> {
    let always = [
        libc::SYS_futex,
        libc::SYS_getrandom,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_madvise,
        libc::SYS_brk,
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_rt_sigreturn,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigaction,
        libc::SYS_sigaltstack,
        libc::SYS_getpid,
        libc::SYS_gettid,
    ];
    let mut rules: Rules = always.into_iter().map(|call| (call, Vec::new())).collect();
    let when = |conditions: Vec<SeccompCondition>| SeccompRule::new(conditions).map(|rule| vec![rule]);
    let no_code = || masked(2, libc::PROT_EXEC, 0);
    // Only anonymous memory, and never executable.
    rules.insert(libc::SYS_mmap, when(vec![no_code()?, masked(3, libc::MAP_ANONYMOUS, libc::MAP_ANONYMOUS)?])?);
    rules.insert(libc::SYS_mprotect, when(vec![no_code()?])?);
    // A program aborts with a line on standard error, which is closed, and with SIGABRT to itself.
    let mut write = when(vec![equal(0, 2)?])?;
    if open == Open::Pipes {
        rules.insert(libc::SYS_read, when(vec![equal(0, 0)?])?);
        write.extend(when(vec![equal(0, 1)?])?);
    }
    rules.insert(libc::SYS_write, write);
    let abort = u64::from(libc::SIGABRT.unsigned_abs());
    rules.insert(libc::SYS_tgkill, when(vec![equal(2, abort)?])?);
    Ok(rules)
}

/// That argument `index` is `value`.
fn equal(index: u8, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

/// That argument `index`, under the bits of `mask`, is `value`.
fn masked(index: u8, mask: c_int, value: c_int) -> Result<SeccompCondition, seccompiler::BackendError> {
    let [mask, value] = [mask, value].map(|number| u64::from(number.unsigned_abs()));
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), value)
}
