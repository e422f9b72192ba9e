//! Children with and without an announcement, and searches of a child's memory.
#![cfg(unix)]

#[cfg(test)]
mod children;
#[cfg(test)]
mod memory;
