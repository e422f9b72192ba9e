//! A counter in flash memory, through the traits of `embedded-storage`.
//!
//! Flash turns ones into zeros word by word, and zeros into ones only by erasing a whole sector. A
//! power loss can leave a word half written, and a sector half erased. The counter lives in two
//! sectors:
//!
//! - **A record** is the number and its complement. So each bit has a partner, and exactly one of
//!   the two is zero. A write that was cut off leaves a pair of ones. An erasure that was cut off
//!   makes pairs of ones or of zeros. A cell that lost its charge makes a pair of ones. None of
//!   these makes a number of another.
//! - **Records are appended.** The largest number counts. If a sector is full, the other one is
//!   erased and takes the next record, twice; the full one still has the newest number meanwhile.
//! - **A record that cannot be read counts as [`BLOCK`]**, which is the most that a record adds. A
//!   record of a power loss was never used, so this skips counters and repeats none. If the newest
//!   record decays, or an error-correcting memory reports it, no counter comes twice either. Two
//!   records that decay before a third is written may be too much. An erasure that was cut off may
//!   skip a whole sector of blocks: 32,768 counters with sectors of 4 KiB.
//! - **Erased memory is no counter.** A device begins with [`FlashCounter::create`], together with
//!   its key. [`FlashCounter::open`] refuses memory without a record: a device whose flash was
//!   erased needs a new key.
//!
//! **What the memory must do:** erased words read as `0xff`, and a word that cannot be read is an
//! error of `read`. Some memories with error correction stop the processor instead: their driver
//! must catch that, or the device does not start after a write that was cut off.
//!
//! With sectors of 4 KiB, a sector is erased once in 65,408 frames.

use crate::counter::{BLOCK, CounterStore, FRAME_LIMIT};
use core::fmt;
use embedded_storage::nor_flash::NorFlash;

/// The sectors of a counter.
const SECTORS: u32 = 2;
/// The number and its complement.
const NUMBER: usize = 8;
/// The longest word of a flash memory that is supported: a record has at least one.
const LONGEST: usize = 64;

/// The counter of a device's key, in two sectors of flash memory.
///
/// ```
/// # use tobari_device::{CounterStore, FlashCounter};
/// # use embedded_storage::nor_flash::NorFlash;
/// /// The first start of a device, with a new key. The counter has the two sectors from `offset`.
/// fn first_start<F: NorFlash>(flash: F, offset: u32) -> Option<FlashCounter<F>> {
///     FlashCounter::create(flash, offset).ok()
/// }
/// /// Every other start.
/// fn start<F: NorFlash>(flash: F, offset: u32) -> Option<FlashCounter<F>> {
///     FlashCounter::open(flash, offset).ok()
/// }
/// ```
pub struct FlashCounter<F> {
    flash: F,
    offset: u32,
    /// The newest number.
    newest: u32,
    place: Place,
}

/// Where the next record goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// To this record of this sector.
    At { sector: u32, record: u32 },
    /// To the beginning of this sector, which is erased first.
    Erased { sector: u32 },
    /// A write failed: the memory is read again first.
    Unknown,
}

/// Why there is no counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashError<E> {
    /// The memory failed.
    Flash(E),
    /// The sectors have no counter: the device needs a new key, and [`FlashCounter::create`].
    NoCounter,
    /// The offset is not the beginning of a sector, the memory ends before the second sector, or
    /// its words are longer than 64 bytes.
    Sectors,
    /// The memory does not keep what was written.
    Unkept,
}

impl<E: fmt::Debug> fmt::Display for FlashError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flash(error) => write!(f, "the flash memory failed: {error:?}"),
            Self::NoCounter => f.write_str("the flash memory has no counter: give the device a new key"),
            Self::Sectors => f.write_str("expected two whole sectors for the counter"),
            Self::Unkept => f.write_str("the flash memory does not keep what was written"),
        }
    }
}

impl<E: fmt::Debug> core::error::Error for FlashError<E> {}

/// What a sector has.
#[derive(Default)]
struct Sector {
    /// The largest number.
    newest: Option<u32>,
    /// The records in front of the blank end.
    used: u32,
    /// Records that cannot be read, behind the largest number.
    unread: u32,
    /// Was any record read?
    answers: bool,
}

impl<F: NorFlash> FlashCounter<F> {
    /// Bytes of a record.
    const RECORD: u32 = if F::WRITE_SIZE > NUMBER { F::WRITE_SIZE as u32 } else { NUMBER as u32 };
    /// Records of a sector.
    const RECORDS: u32 = F::ERASE_SIZE as u32 / Self::RECORD;

    /// Erases both sectors and starts from 0, **for a new key only**: with an old key, counters
    /// would come twice. Store the new key first, and delete the old one: where the power fails
    /// here, the sectors may have an older counter of the old key.
    ///
    /// # Errors
    /// [`FlashError`]; call it again before the key is used.
    pub fn create(flash: F, offset: u32) -> Result<Self, FlashError<F::Error>> {
        let mut counter = Self::over(flash, offset)?;
        let end = counter.address(SECTORS, 0);
        counter.flash.erase(offset, end).map_err(FlashError::Flash)?;
        counter.write(0, 0, 0)?;
        counter.write(0, 1, 0)?;
        counter.place = Place::At { sector: 0, record: 2 };
        Ok(counter)
    }

    /// Finds the counter of an earlier start.
    ///
    /// # Errors
    /// [`FlashError`].
    pub fn open(flash: F, offset: u32) -> Result<Self, FlashError<F::Error>> {
        let mut counter = Self::over(flash, offset)?;
        counter.read()?;
        Ok(counter)
    }

    /// The memory, for other uses of it.
    pub fn into_flash(self) -> F {
        self.flash
    }

    fn over(flash: F, offset: u32) -> Result<Self, FlashError<F::Error>> {
        let sector = u32::try_from(F::ERASE_SIZE).map_err(|_| FlashError::Sectors)?;
        let end = sector.checked_mul(SECTORS).and_then(|both| offset.checked_add(both));
        let fits = offset.is_multiple_of(sector)
            && end.is_some_and(|end| end as usize <= flash.capacity())
            && F::WRITE_SIZE.is_power_of_two()
            && F::WRITE_SIZE <= LONGEST
            && Self::RECORDS >= 4
            && Self::RECORD.is_multiple_of(F::READ_SIZE as u32);
        if !fits {
            return Err(FlashError::Sectors);
        }
        Ok(Self { flash, offset, newest: 0, place: Place::Unknown })
    }

    /// The place behind a record.
    fn behind(sector: u32, record: u32) -> Place {
        if record + 1 == Self::RECORDS {
            Place::Erased { sector: 1 - sector }
        } else {
            Place::At { sector, record: record + 1 }
        }
    }

    fn address(&self, sector: u32, record: u32) -> u32 {
        self.offset + sector * F::ERASE_SIZE as u32 + record * Self::RECORD
    }

    /// Reads both sectors.
    fn read(&mut self) -> Result<(), FlashError<F::Error>> {
        let mut error = None;
        let sectors = [self.sector(0, &mut error), self.sector(1, &mut error)];
        let current = u32::from(sectors[1].newest > sectors[0].newest);
        let [this, other] = if current == 0 { sectors.each_ref() } else { [&sectors[1], &sectors[0]] };
        let Some(newest) = this.newest else {
            return Err(error.map_or(FlashError::NoCounter, FlashError::Flash));
        };
        let is_full = this.used == Self::RECORDS;
        // the other sector is erased only if this one is full: else its numbers may be newer
        if !is_full && !other.answers {
            return Err(error.map_or(FlashError::NoCounter, FlashError::Flash));
        }
        let unread = this.unread + if is_full { other.unread } else { 0 };
        self.newest = newest.saturating_add(unread.saturating_mul(BLOCK)).min(FRAME_LIMIT);
        self.place = if !is_full {
            Place::At { sector: current, record: this.used }
        } else {
            Place::Erased { sector: 1 - current }
        };
        Ok(())
    }

    fn sector(&mut self, sector: u32, error: &mut Option<F::Error>) -> Sector {
        let mut found = Sector::default();
        for record in 0..Self::RECORDS {
            let read = self.record(sector, record);
            found.answers |= read.is_ok();
            let number = match read {
                Ok(Record::Blank) => continue,
                Ok(Record::Number(number)) => Some(number),
                Ok(Record::Unreadable) => None,
                Err(e) => {
                    *error = Some(e);
                    None
                }
            };
            found.used = record + 1;
            match number {
                Some(number) if Some(number) >= found.newest => (found.newest, found.unread) = (Some(number), 0),
                Some(_) => {}
                None => found.unread += 1,
            }
        }
        found
    }

    fn record(&mut self, sector: u32, record: u32) -> Result<Record, F::Error> {
        let mut bytes = [0; LONGEST];
        let bytes = &mut bytes[..Self::RECORD as usize];
        let address = self.address(sector, record);
        self.flash.read(address, bytes)?;
        let (pair, rest) = bytes.split_at(NUMBER);
        let word = |at: usize| u32::from_le_bytes([pair[at], pair[at + 1], pair[at + 2], pair[at + 3]]);
        let (number, complement) = (word(0), word(4));
        let blank_rest = rest.iter().all(|byte| *byte == 0xff);
        Ok(if number == !complement && blank_rest {
            Record::Number(number)
        } else if number == u32::MAX && complement == u32::MAX && blank_rest {
            Record::Blank
        } else {
            Record::Unreadable
        })
    }

    /// Writes a record, and reads it again.
    fn write(&mut self, sector: u32, record: u32, number: u32) -> Result<(), FlashError<F::Error>> {
        let mut bytes = [0xff; LONGEST];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        bytes[4..NUMBER].copy_from_slice(&(!number).to_le_bytes());
        let address = self.address(sector, record);
        self.flash.write(address, &bytes[..Self::RECORD as usize]).map_err(FlashError::Flash)?;
        match self.record(sector, record).map_err(FlashError::Flash)? {
            Record::Number(kept) if kept == number => Ok(()),
            _ => Err(FlashError::Unkept),
        }
    }
}

enum Record {
    Blank,
    Number(u32),
    Unreadable,
}

impl<F: NorFlash> CounterStore for FlashCounter<F> {
    type Error = FlashError<F::Error>;

    fn load(&mut self) -> Result<u32, Self::Error> {
        if self.place == Place::Unknown {
            self.read()?;
        }
        Ok(self.newest)
    }

    fn store(&mut self, next: u32) -> Result<(), Self::Error> {
        if self.place == Place::Unknown {
            self.read()?;
        }
        let place = core::mem::replace(&mut self.place, Place::Unknown);
        let (sector, record) = match place {
            Place::At { sector, record } => {
                // a word that takes nothing must not stop the next attempt
                self.place = Self::behind(sector, record);
                self.write(sector, record, next)?;
                (sector, record + 1)
            }
            Place::Erased { sector } => {
                let from = self.address(sector, 0);
                self.flash.erase(from, from + F::ERASE_SIZE as u32).map_err(FlashError::Flash)?;
                self.write(sector, 0, next)?;
                // the erased records may have skipped counters: one that decays must not undo it
                self.write(sector, 1, next)?;
                (sector, 2)
            }
            Place::Unknown => return Err(FlashError::NoCounter),
        };
        self.newest = next;
        self.place = Self::behind(sector, record - 1);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
