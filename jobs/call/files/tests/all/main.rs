//! Recordings: measurements of the conversion rule, every rejection, and malformed files.

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
