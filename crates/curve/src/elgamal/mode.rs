//! The modes by name.

use std::fmt;

/// The encryption of a packet's samples.
///
/// ```
/// use tobari_curve::elgamal::Mode;
/// assert_eq!(Mode::from_name("elgamal-shared"), Ok(Mode::ElgamalShared));
/// assert_eq!(Mode::default().name(), "elgamal");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// One ciphertext, two points, for each sample, as in the paper.
    #[default]
    Elgamal,
    /// One point for each sample and one for the packet. The samples share the packet's randomness,
    /// with a separate key for each place.
    ElgamalShared,
}

/// A name that belongs to no mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown mode: expected elgamal or elgamal-shared")]
pub struct UnknownMode;

impl Mode {
    /// Every mode.
    pub const ALL: [Mode; 2] = [Mode::Elgamal, Mode::ElgamalShared];

    /// The name, on the command line and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Elgamal => "elgamal",
            Mode::ElgamalShared => "elgamal-shared",
        }
    }

    /// The mode with this name.
    ///
    /// # Errors
    /// [`UnknownMode`] if there is none.
    pub fn from_name(name: &str) -> Result<Self, UnknownMode> {
        Self::ALL.into_iter().find(|mode| mode.name() == name).ok_or(UnknownMode)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
