//! Children that announce themselves or fail to, and what can be read from a child's memory.
#![cfg(unix)]

#[cfg(test)]
mod children;
#[cfg(test)]
mod memory;
