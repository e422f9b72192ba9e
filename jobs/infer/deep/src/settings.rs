//! Parameters for a circuit, by its depth.

use crate::place::Levels;
use tobari_lattice::params::{NamedSet, Sizes};
use tobari_lattice::refresh::RefreshSettings;

/// The scales that are tried, in bits, the finest first.
const SCALES: [u32; 9] = [45, 43, 41, 39, 37, 35, 33, 31, 29];
/// Bits of the first prime above the scale: room for logits and for the numbers that hide other
/// slots.
pub(crate) const ROOM: u32 = 10;

/// The largest degree for maps alone: two primes need no larger one.
const MOST_ENCLAVED: usize = 1 << 14;

/// The kinds of refreshes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refreshing {
    /// About 15 bits in the worst slot.
    Quick,
    /// About 19 bits.
    Precise,
}

impl Refreshing {
    /// Both, the quicker one first.
    pub const ALL: [Self; 2] = [Self::Quick, Self::Precise];

    /// The refresh of all slots of a ring of this degree.
    pub fn settings(self, degree: usize) -> RefreshSettings {
        let settings = RefreshSettings::real(degree / 2);
        match self {
            Self::Quick => settings,
            Self::Precise => settings.precise(),
        }
    }

    /// A number after a refresh without noise: the sine in place of the line.
    pub fn value(self, x: f64) -> f64 {
        match self {
            // x over a first prime of 50 bits, at a scale of 40
            Self::Quick => {
                let turn = std::f64::consts::TAU / 1024.0;
                (x * turn).sin() / turn
            }
            // 4/3 sin θ - 1/6 sin 2θ, at a scale of 42 bits
            Self::Precise => {
                let turn = std::f64::consts::TAU / 256.0;
                ((x * turn).sin() * 4.0 / 3.0 - (2.0 * x * turn).sin() / 6.0) / turn
            }
        }
    }

    /// The deviation of the noise that a refresh adds to a real slot in a ring of this degree, for
    /// numbers at the scale of its set. Measured; roundings of products with the secret, and so the
    /// noise, grow with the degree.
    pub fn deviation(self, degree: usize) -> f64 {
        let of_degree = degree as f64 / 65_536.0;
        match self {
            // the series of the cosine has an error, too
            Self::Quick => f64::hypot(1.25e-7, 7e-7 * of_degree),
            Self::Precise => 1.5e-7 * of_degree,
        }
    }

    /// The set of parameters in `tobari-lattice`, and the bits of its scale.
    fn set(self) -> (&'static str, u32) {
        match self {
            Self::Quick => ("refresh", 40),
            Self::Precise => ("refresh-precise", 42),
        }
    }
}

/// The way past the end of the levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// None: there are levels enough for the whole network.
    Levels,
    /// Refreshes under encryption.
    Refresh(Refreshing),
    /// All but maps is computed by an enclave, on plain numbers, which then are encrypted anew.
    Enclave,
}

impl Engine {
    /// The refreshes between steps, if there are some.
    pub fn refreshing(self) -> Option<Refreshing> {
        match self {
            Self::Refresh(kind) => Some(kind),
            Self::Levels | Self::Enclave => None,
        }
    }

    /// The kind, without its variants.
    pub fn kind(self) -> EngineKind {
        match self {
            Self::Levels => EngineKind::Levels,
            Self::Refresh(_) => EngineKind::Refresh,
            Self::Enclave => EngineKind::Enclave,
        }
    }
}

/// A kind of [`Engine`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// [`Engine::Levels`]
    Levels,
    /// [`Engine::Refresh`]
    Refresh,
    /// [`Engine::Enclave`]
    Enclave,
}

impl EngineKind {
    /// All, from the fewest assumptions to the most.
    pub const ALL: [Self; 3] = [Self::Levels, Self::Refresh, Self::Enclave];

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Levels => "levels",
            Self::Refresh => "refresh",
            Self::Enclave => "enclave",
        }
    }
}

impl std::str::FromStr for EngineKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| format!("expected levels, refresh or enclave, found {name}"))
    }
}

/// Sizes of parameters, and the bits of the scale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The sizes.
    pub sizes: Sizes,
    /// The scale of tensors is two to this.
    pub scale: u32,
    /// What goes on between steps.
    pub engine: Engine,
}

impl Settings {
    /// All sizes of `primes` data primes that have 128 bits of security, with scales of at least
    /// `least` bits.
    pub fn all(primes: usize, least: u32) -> Vec<Self> {
        let of_degree = |log: u32| {
            SCALES.into_iter().filter(move |scale| *scale >= least).filter_map(move |scale| {
                let mut data = vec![(scale + ROOM).min(50)];
                data.extend(std::iter::repeat_n(scale, primes - 1));
                Some(Self { sizes: Sizes::fit(1 << log, data, None)?, scale, engine: Engine::Levels })
            })
        };
        (12..=16).flat_map(of_degree).collect()
    }

    /// The sizes for maps alone, of 128 bits of security: two primes, of which the products of a
    /// map take one.
    pub fn enclaved(least: u32) -> Vec<Self> {
        let small = |settings: &Self| settings.sizes.degree <= MOST_ENCLAVED;
        let all = Self::all(2, least).into_iter().filter(small);
        all.map(|settings| Self { engine: Engine::Enclave, ..settings }).collect()
    }

    /// The parameters with refreshes of this kind, of 128 bits of security.
    pub fn refreshed(refreshing: Refreshing) -> Option<Self> {
        let (name, scale) = refreshing.set();
        let set = NamedSet::from_name(name)?;
        let sizes = Sizes {
            degree: set.degree,
            data: set.data.to_vec(),
            special: set.special.to_vec(),
            digits: set.digits,
            plaintext_modulus: set.plaintext_modulus,
        };
        Some(Self { sizes, scale, engine: Engine::Refresh(refreshing) })
    }

    /// The levels between refreshes.
    pub fn levels(&self) -> Option<Levels> {
        let settings = self.engine.refreshing()?.settings(self.sizes.degree);
        Some(Levels { most: self.sizes.data.len().checked_sub(settings.depth())?, least: settings.least_level() })
    }

    /// Bits of a slot.
    pub fn slot_bits(&self) -> usize {
        self.sizes.degree.trailing_zeros() as usize - 1
    }

    /// Products of a key switch at the top, for comparisons in one ring.
    pub fn work(&self) -> usize {
        self.sizes.digits * (self.sizes.data.len() + self.sizes.special.len())
    }
}
