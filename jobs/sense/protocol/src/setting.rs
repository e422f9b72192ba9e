//! The parameters for frames of a profile, and the evaluation keys for them.

use super::Scheme;
use super::exact::{self, ExactPlan, Measure};
use super::layout::{Arrangement, Layout};
use super::linear::{self, LinearPlan, PlanError, Term};
use super::program::Input;
use super::schema::ProfileName;
use crate::with_profile;
use tobari_lattice::params::{LatticeError, LatticeParameters, NamedSet};

/// The numbers of a fleet's computations.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The profile of the frames.
    pub profile: ProfileName,
    /// The parameters of the homomorphic scheme.
    pub parameters: LatticeParameters,
    /// The numbers of the profile.
    pub scheme: Scheme,
    /// The layout of devices' blocks.
    pub layout: Layout,
}

/// Why there is no setting.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// Invalid parameters.
    #[error(transparent)]
    Parameters(#[from] LatticeError),
    /// A parameter set that does not exist, or has no room for a block.
    #[error("expected parameters with room for a device's block, found {0}")]
    Set(&'static str),
    /// The parameters do not allow a plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

impl Setting {
    /// The setting of a profile: `sense-linear` for U25, `sense-sums` for U28, `sense-exact` for P1
    /// and P17.
    ///
    /// # Errors
    /// [`SettingError`] for a set that does not exist; it cannot occur for these sets.
    pub fn of(profile: ProfileName) -> Result<Self, SettingError> {
        let set = match profile {
            ProfileName::P1 | ProfileName::P17 => exact::SET,
            ProfileName::U25 => linear::SET,
            ProfileName::U28 => linear::WIDE_SET,
        };
        let parameters = NamedSet::from_name(set).ok_or(SettingError::Set(set))?.parameters()?;
        Self::with(profile, parameters)
    }

    /// A setting with other parameters, for tests and future sets.
    ///
    /// # Errors
    /// [`SettingError::Set`] if there is no room for a block.
    pub fn with(profile: ProfileName, parameters: LatticeParameters) -> Result<Self, SettingError> {
        let scheme = with_profile!(profile, P => Scheme::of::<P>());
        let arrangement = if profile.is_linear() { Arrangement::Contiguous } else { Arrangement::Strided };
        let layout = Layout::new(&parameters, arrangement).ok_or(SettingError::Set("none"))?;
        Ok(Self { profile, parameters, scheme, layout })
    }

    /// The level of fresh ciphertexts.
    pub fn top_level(&self) -> u16 {
        self.parameters.data_primes() as u16 - 1
    }

    /// The evaluation keys that a server needs for every question.
    ///
    /// # Errors
    /// [`SettingError::Plan`] for a profile without valid points; it cannot occur for these
    /// profiles.
    pub fn keys(&self) -> Result<Vec<Input>, SettingError> {
        let mut all = Vec::new();
        let mut note = |input: Input| {
            if key_name(input).is_some() {
                all.push(input);
            }
            Ok::<(), PlanError>(())
        };
        let one = vec![1; self.layout.blocks()];
        match self.profile.is_linear() {
            true => {
                let (term, output) =
                    (Term { cohort: 0, batch: 0, weights: one }, linear::Output { terms: vec![0], by_block: false });
                let plan = LinearPlan::new(self.scheme, self.layout, vec![term], vec![output], 0)?;
                linear::Inputs::new(&plan, self.top_level(), &mut note)?;
            }
            false => {
                let output = exact::Output { measure: Measure::Above(254), terms: vec![(0, one)], by_block: false };
                let plan = ExactPlan::new(self.scheme, self.layout, vec![0], vec![output])?;
                exact::Inputs::new(&plan, self.top_level(), &mut note)?;
            }
        }
        Ok(all)
    }
}

/// The name of a key between key holder and server; `None` for inputs that are not keys.
pub fn key_name(input: Input) -> Option<String> {
    match input {
        Input::Rotation { steps, level } => Some(format!("rotation-{steps}-{level}")),
        Input::Swap { level } => Some(format!("swap-{level}")),
        Input::Relinearization { level } => Some(format!("relinearization-{level}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn each_profile_has_a_setting_and_its_keys_have_names_of_their_own() {
        for (profile, blocks, count) in [
            (ProfileName::U25, 32, 5),
            (ProfileName::U28, 32, 5),
            (ProfileName::P1, 128, 6),
            (ProfileName::P17, 128, 6),
        ] {
            let setting = Setting::of(profile).unwrap();
            assert_eq!(setting.layout.blocks(), blocks);
            let keys = setting.keys().unwrap();
            let mut names: Vec<String> = keys.iter().filter_map(|input| key_name(*input)).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!((names.len(), keys.len()), (count, count), "{profile}");
        }
    }
}
