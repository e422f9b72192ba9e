//! The disk tier: round trips compared with a map, faulty disks, full disks, and the end of a
//! store.

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
