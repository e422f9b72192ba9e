//! The protections of an enclave against its host and other processes, each with its state.

use crate::wire::{Reader, WrongLength};
use std::fmt;

/// A protection that an enclave applies, or asks its system for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protection {
    /// An address space of its own.
    OwnProcess,
    /// No environment, and no open file but the shared memory.
    NothingInherited,
    /// A user namespace of its own: no right over anything outside.
    UserNamespace,
    /// A process namespace of its own: it sees no other process.
    ProcessNamespace,
    /// A network namespace of its own, without any device that is up.
    NetworkNamespace,
    /// A mount namespace of its own with an empty root.
    EmptyRoot,
    /// All capabilities given up.
    NoCapabilities,
    /// Started programs cannot gain rights.
    NoNewPrivileges,
    /// Landlock blocks every file, every connection and every signal to others.
    Landlock,
    /// Any system call outside a short list kills the enclave.
    SystemCallFilter,
    /// Other processes of the same user cannot read its memory or attach to it, and it writes no
    /// core file.
    NotDumpable,
    /// No page of its memory goes to swap.
    LockedMemory,
    /// It dies with the process that started it.
    DiesWithParent,
}

/// All protections, in the order of their numbers.
pub const ALL: [Protection; 13] = [
    Protection::OwnProcess,
    Protection::NothingInherited,
    Protection::UserNamespace,
    Protection::ProcessNamespace,
    Protection::NetworkNamespace,
    Protection::EmptyRoot,
    Protection::NoCapabilities,
    Protection::NoNewPrivileges,
    Protection::Landlock,
    Protection::SystemCallFilter,
    Protection::NotDumpable,
    Protection::LockedMemory,
    Protection::DiesWithParent,
];

/// How far a protection is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Fully in force.
    Applied,
    /// Partly in force: the kernel supports less, or the limit on locked memory is too small.
    Partly,
    /// The system refused, with this error number (0: it gave none).
    Refused(u16),
    /// It was not asked for.
    NotAsked,
}

/// Every protection with its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protections([State; ALL.len()]);

impl Default for Protections {
    fn default() -> Self {
        Self::none()
    }
}

impl Protections {
    /// No protection was asked for: an enclave for tests.
    pub fn none() -> Self {
        Self([State::NotAsked; ALL.len()])
    }

    /// Sets the state of one protection.
    pub fn set(&mut self, protection: Protection, state: State) {
        self.0[place(protection)] = state;
    }

    /// The state of one protection.
    pub fn state(&self, protection: Protection) -> State {
        self.0[place(protection)]
    }

    /// All protections, with their states.
    pub fn iter(&self) -> impl Iterator<Item = (Protection, State)> {
        ALL.into_iter().zip(self.0)
    }

    /// The protections that are not fully in force.
    pub fn lacking(&self) -> impl Iterator<Item = (Protection, State)> {
        self.iter().filter(|(_, state)| *state != State::Applied)
    }

    /// Three bytes for each, in order: state and error number.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        for state in self.0 {
            let (form, number) = match state {
                State::Applied => (1, 0),
                State::Partly => (2, 0),
                State::Refused(number) => (3, number),
                State::NotAsked => (4, 0),
            };
            bytes.push(form);
            bytes.extend(u16::to_be_bytes(number));
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, WrongLength> {
        let mut states = [State::NotAsked; ALL.len()];
        for state in &mut states {
            *state = match (reader.u8()?, reader.u16()?) {
                (1, 0) => State::Applied,
                (2, 0) => State::Partly,
                (3, number) => State::Refused(number),
                (4, 0) => State::NotAsked,
                _ => return Err(WrongLength),
            };
        }
        Ok(Self(states))
    }

    /// The encoded bytes, for transport from an enclave to its host.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        bytes
    }

    /// Reads the bytes of [`Protections::to_bytes`]; `None` for any other bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let protections = Self::decode(&mut reader).ok()?;
        reader.end().ok()?;
        Some(protections)
    }
}

fn place(protection: Protection) -> usize {
    ALL.iter().position(|other| *other == protection).unwrap_or(0) // it is in the list
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OwnProcess => "a process of its own",
            Self::NothingInherited => "no environment and no open file",
            Self::UserNamespace => "own user namespace",
            Self::ProcessNamespace => "own process namespace",
            Self::NetworkNamespace => "own network namespace",
            Self::EmptyRoot => "empty root directory",
            Self::NoCapabilities => "no capabilities",
            Self::NoNewPrivileges => "no new privileges",
            Self::Landlock => "landlock",
            Self::SystemCallFilter => "seccomp filter",
            Self::NotDumpable => "not readable by its user's other processes",
            Self::LockedMemory => "locked memory",
            Self::DiesWithParent => "dies with its parent",
        })
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Applied => f.write_str("applied"),
            Self::Partly => f.write_str("in part"),
            Self::Refused(0) => f.write_str("refused by the system"),
            Self::Refused(number) => write!(f, "refused by the system (error {number})"),
            Self::NotAsked => f.write_str("not asked for"),
        }
    }
}
