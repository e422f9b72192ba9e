//! The choice of a backend. A process uses the fastest that the machine has, unless it chose
//! another before the first use. The choice is made once, because points and tables of one backend
//! mean nothing to another.

use std::sync::OnceLock;

/// A choice of backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The fastest that the machine has.
    Fastest,
    /// AVX2 and FMA for lattices, and the portable loops for curves: as on a machine without
    /// AVX-512 IFMA.
    Avx2,
    /// The loops that run everywhere.
    Portable,
}

/// An error: the choice followed the first use, or another choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected the backend to be chosen before anything is computed, found {} in use", match found {
    Backend::Fastest => "the fastest",
    Backend::Avx2 => "that of AVX2",
    Backend::Portable => "the portable one",
})]
pub struct BackendInUse {
    found: Backend,
}

static CHOSEN: OnceLock<Backend> = OnceLock::new();

/// Chooses the backend of this process, to compare backends.
///
/// # Errors
/// [`BackendInUse`] if another is in use.
pub fn choose_backend(backend: Backend) -> Result<(), BackendInUse> {
    match *CHOSEN.get_or_init(|| backend) {
        found if found == backend => Ok(()),
        found => Err(BackendInUse { found }),
    }
}

/// The choice. It is final from now on.
pub fn chosen() -> Backend {
    *CHOSEN.get_or_init(|| Backend::Fastest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_in_use_stays() {
        let found = chosen();
        assert_eq!(choose_backend(found), Ok(()));
        let other = if found == Backend::Fastest { Backend::Portable } else { Backend::Fastest };
        assert_eq!(choose_backend(other), Err(BackendInUse { found }));
        assert_eq!(chosen(), found);
    }
}
