//! The disk tier: round trips against a map, what a faulty disk does, what a full one does, and how
//! a store ends.

#[cfg(test)]
mod faults;
#[cfg(test)]
mod full;
#[cfg(test)]
mod life;
#[cfg(test)]
mod round_trips;
#[cfg(test)]
mod setup;
