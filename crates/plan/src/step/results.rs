//! Results of steps with many arguments.

use super::{Kind, Shape};

/// The result of [`Op::Transform`](super::Op::Transform); `None` if the kinds or the number of the
/// arguments are wrong.
pub(super) fn transform(args: &[Shape], babies: usize, giants: usize) -> Result<Option<(Kind, u16)>, String> {
    let count = |from: usize, kind| args[from..].iter().take_while(|arg| arg.kind == kind).count();
    let inputs = count(0, Kind::Encrypted);
    let weights = count(inputs, Kind::Plain);
    let keys = count(inputs + weights, Kind::Key);
    let level = args[..inputs].iter().map(|arg| arg.level).min();
    args[inputs + weights..][..keys].iter().try_for_each(|key| key_fits(key, level.unwrap_or(0)))?;
    let good = inputs + weights + keys == args.len()
        && babies.min(giants) > 0
        && weights == inputs * babies * giants
        && keys == babies - 1 + usize::from(giants > 1);
    Ok(level.filter(|_| good).map(|level| (Kind::Encrypted, level)))
}

/// The result of [`Op::Bilinear`](super::Op::Bilinear); `None` if the kinds or the number of the
/// arguments are wrong.
pub(super) fn bilinear(args: &[Shape], [left, right, forms]: [usize; 3]) -> Result<Option<(Kind, u16)>, String> {
    let all = |args: &[Shape], kind| args.iter().all(|arg| arg.kind == kind);
    let (values, rest) = args.split_at(args.len().min(left + right));
    let [weights @ .., key] = rest else { return Ok(None) };
    let good = all(values, Kind::Encrypted) && all(weights, Kind::Plain) && key.kind == Kind::Key;
    if !good || weights.len() != forms || left.min(right).min(forms) == 0 {
        return Ok(None);
    }
    let level = values.iter().map(|arg| arg.level).min().unwrap_or(0);
    key_fits(key, level)?;
    let lower = level.checked_sub(1).ok_or("expected a level for products, found none left")?;
    Ok(Some((if forms > 1 { Kind::Several } else { Kind::Encrypted }, lower)))
}

/// The result of [`Op::RotateSum`](super::Op::RotateSum); `None` if the kinds or the number of the
/// arguments are wrong.
pub(super) fn rotate_sum(args: &[Shape], counts: [u8; 3]) -> Result<Option<(Kind, u16)>, String> {
    let turns = counts.iter().take_while(|count| **count > 0).count();
    let hoisted = counts.iter().copied().map(usize::from).sum::<usize>();
    let Some(plain) = args.len().checked_sub(hoisted + turns) else { return Ok(None) };
    let all = |args: &[Shape], kind| args.iter().all(|arg| arg.kind == kind);
    let (values, keys) = args.split_at(plain + hoisted);
    let good = turns > 0
        && counts[turns..].iter().all(|count| *count == 0)
        && all(&values[..plain], Kind::Encrypted)
        && all(&values[plain..], Kind::Hoisted)
        && all(keys, Kind::Key);
    let level = values.iter().map(|arg| arg.level).min().unwrap_or(0);
    if good {
        keys.iter().try_for_each(|key| key_fits(key, level))?;
    }
    Ok(good.then_some((Kind::Encrypted, level)))
}

/// The level of the result of [`Op::Polynomial`](super::Op::Polynomial).
pub(super) fn after_polynomial(args: &[Shape], length: u16) -> Result<u16, String> {
    let (present, used) = (args[0].level, u32::from(length).next_power_of_two().trailing_zeros() as u16);
    key_fits(&args[2], present)?;
    let left = present.checked_sub(used).filter(|_| length >= 2);
    left.ok_or_else(|| format!("expected two coefficients or more and {used} levels, found {length} and {present}"))
}

pub(super) fn key_fits(key: &Shape, level: u16) -> Result<(), String> {
    let fits = key.level >= level;
    fits.then_some(()).ok_or_else(|| format!("expected a key for level {level}, found one up to {}", key.level))
}
