//! Recordings: the rule of conversion, measured; every refusal; and files nobody would write.

#[cfg(test)]
mod build;
#[cfg(test)]
mod conversion;
#[cfg(test)]
mod mutation;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod resampling;
