//! A sensor: it keeps its counter in flash memory, encrypts readings, and sends frames.
//!
//! Two parts of it are emulated, and each real board has its own in their place: `Flash`, which is
//! any memory with the traits of `embedded-storage`, and `send`, which prints a frame here.
//!
//! **The feature `factory` is for the program that stores a new key, and for no other.** It makes a
//! counter where there is none. The program that a sensor runs later has no feature: with the same
//! key and a new counter, counters would come twice. Emulated memory is empty at each start, so the
//! emulated program needs the feature.

#![no_std]
#![no_main]

use core::convert::Infallible;
use cortex_m_rt::entry;
use cortex_m_semihosting::{hprint, hprintln};
use embedded_storage::nor_flash::{ErrorType, NorFlash, ReadNorFlash};
use tobari_cortex_m4::board;
use tobari_device::{Device, DeviceNumber, FlashCounter, FlashError, Profile, READINGS, Root, Stamp, U28};

/// Emulated flash memory of two sectors.
struct Flash([u8; 8192]);

impl ErrorType for &mut Flash {
    type Error = Infallible;
}

impl ReadNorFlash for &mut Flash {
    const READ_SIZE: usize = 1;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Infallible> {
        bytes.copy_from_slice(&self.0[offset as usize..][..bytes.len()]);
        Ok(())
    }

    fn capacity(&self) -> usize {
        self.0.len()
    }
}

impl NorFlash for &mut Flash {
    const WRITE_SIZE: usize = 8;
    const ERASE_SIZE: usize = 4096;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), Infallible> {
        self.0[from as usize..to as usize].fill(0xff);
        Ok(())
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Infallible> {
        let words = &mut self.0[offset as usize..][..bytes.len()];
        words.iter_mut().zip(bytes).for_each(|(word, byte)| *word &= byte);
        Ok(())
    }
}

/// A real sensor gives the frame to its radio, in one piece.
fn send(frame: &[u8]) {
    frame.iter().for_each(|byte| hprint!("{:02x}", byte));
    hprintln!();
}

/// The beginning of the slice of a minute in which `now` is, in seconds since 1970.
fn slice(now: u64) -> Stamp {
    Stamp::new(now - now % 60, 0).expect("a time below 2^40 seconds")
}

#[entry]
fn main() -> ! {
    // a real sensor reads both from its token, which it got in the factory
    let (root, number) = (Root::from_bytes([7; 32]), DeviceNumber::new(12).expect("a number below 2^24"));
    let mut flash = Flash([0xff; 8192]);
    if cfg!(feature = "factory") && matches!(FlashCounter::open(&mut flash, 0), Err(FlashError::NoCounter)) {
        FlashCounter::create(&mut flash, 0).expect("two sectors");
    }
    for start in 0..3 {
        let counter = FlashCounter::open(&mut flash, 0).expect("a counter");
        let mut device = Device::<U28, _>::open(&root, number, counter).expect("a counter that can be read");
        let (readings, mut frame) = ([20 + start as u8; READINGS], U28::EMPTY);
        device.seal_at(slice(1_798_761_617 + 60 * start), &readings, &mut frame).expect("a counter that can be stored");
        send(&frame);
    }
    board::end()
}
