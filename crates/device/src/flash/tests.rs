use super::*;
use crate::counter::Counters;
use embedded_storage::nor_flash::{ErrorType, NorFlashError, NorFlashErrorKind, ReadNorFlash};
use std::vec;
use std::vec::Vec;

/// Flash memory of two sectors and one more, whose power fails after some work. Words of `WORD`
/// bytes, sectors of `SECTOR`.
struct Memory<const WORD: usize, const SECTOR: usize> {
    bytes: Vec<u8>,
    /// Whether each word can be read: error-correcting memory refuses words that were cut off.
    legible: Vec<bool>,
    corrects: bool,
    /// A word that takes no write.
    stuck: Option<usize>,
    /// Writes and erasures until the power fails.
    left: u32,
    on: bool,
    random: u64,
    erased: u32,
}

#[derive(Debug, PartialEq, Eq)]
enum Fault {
    Power,
    Word,
    Place,
}

impl NorFlashError for Fault {
    fn kind(&self) -> NorFlashErrorKind {
        NorFlashErrorKind::Other
    }
}

impl<const WORD: usize, const SECTOR: usize> Memory<WORD, SECTOR> {
    fn new(random: u64, corrects: bool) -> Self {
        // what was in the memory before
        let bytes = vec![0x5a; 3 * SECTOR];
        let legible = vec![true; bytes.len() / WORD];
        Self { bytes, legible, corrects, stuck: None, left: u32::MAX, on: true, random, erased: 0 }
    }

    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random >> 33
    }

    /// Whether the power fails during this work.
    fn fails(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.on = self.left > 0;
        !self.on
    }

    /// Changes `byte` to `new`, or each bit of it by chance.
    fn change(&mut self, at: usize, new: u8, cut: bool) {
        let chosen = if cut { self.next() as u8 } else { 0xff };
        self.bytes[at] = (self.bytes[at] & !chosen) | (new & chosen);
    }
}

impl<const WORD: usize, const SECTOR: usize> ErrorType for &mut Memory<WORD, SECTOR> {
    type Error = Fault;
}

impl<const WORD: usize, const SECTOR: usize> ReadNorFlash for &mut Memory<WORD, SECTOR> {
    const READ_SIZE: usize = 1;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Fault> {
        let range = offset as usize..offset as usize + bytes.len();
        if !self.on {
            return Err(Fault::Power);
        }
        if self.corrects && range.clone().any(|at| !self.legible[at / WORD]) {
            return Err(Fault::Word);
        }
        bytes.copy_from_slice(&self.bytes[range]);
        Ok(())
    }

    fn capacity(&self) -> usize {
        self.bytes.len()
    }
}

impl<const WORD: usize, const SECTOR: usize> NorFlash for &mut Memory<WORD, SECTOR> {
    const WRITE_SIZE: usize = WORD;
    const ERASE_SIZE: usize = SECTOR;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), Fault> {
        if !self.on {
            return Err(Fault::Power);
        }
        if !from.is_multiple_of(SECTOR as u32) || !to.is_multiple_of(SECTOR as u32) || to as usize > self.bytes.len() {
            return Err(Fault::Place);
        }
        for start in (from as usize..to as usize).step_by(SECTOR) {
            let cut = self.fails();
            (start..start + SECTOR).for_each(|at| self.change(at, 0xff, cut));
            (start / WORD..(start + SECTOR) / WORD).for_each(|word| self.legible[word] = !cut);
            self.erased += 1;
            if cut {
                return Err(Fault::Power);
            }
        }
        Ok(())
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Fault> {
        if !self.on {
            return Err(Fault::Power);
        }
        if !(offset as usize).is_multiple_of(WORD) || !bytes.len().is_multiple_of(WORD) {
            return Err(Fault::Place);
        }
        if self.stuck == Some(offset as usize) {
            return Err(Fault::Word);
        }
        let cut = self.fails();
        for (at, byte) in (offset as usize..).zip(bytes) {
            assert!(self.bytes[at] == 0xff, "a word is written once");
            self.change(at, *byte, cut);
            self.legible[at / WORD] = !cut;
        }
        if cut { Err(Fault::Power) } else { Ok(()) }
    }
}

/// Counters over many starts with power losses. With `decays`, the newest record loses a bit now
/// and then, but no second one before a record was written.
fn lives<const WORD: usize, const SECTOR: usize>(seed: u64, corrects: bool, decays: bool) -> (u32, u32) {
    let mut memory = Memory::<WORD, SECTOR>::new(seed, corrects);
    let offset = SECTOR as u32;
    FlashCounter::create(&mut memory, offset).unwrap();
    let (mut last, mut cuts, mut decayed) = (None, 0, None);
    for life in 0..60 {
        memory.on = true;
        memory.left = if memory.next().is_multiple_of(4) { u32::MAX } else { 1 + (memory.next() % 12) as u32 };
        let frames = memory.next() % 600;
        if decays && memory.next().is_multiple_of(3) && last > decayed.map(|at| at + BLOCK) {
            decay(&mut memory, offset);
            decayed = last;
        }
        let counter = FlashCounter::open(&mut memory, offset).unwrap_or_else(|e| panic!("{seed} life {life}: {e}"));
        let mut counters = Counters::open(counter).unwrap();
        for _ in 0..frames {
            match counters.take() {
                Ok(counter) => {
                    assert!(last < Some(counter), "{seed} life {life}: {counter} after {last:?}");
                    last = Some(counter);
                }
                Err(_) => {
                    cuts += 1;
                    break;
                }
            }
        }
    }
    (cuts, memory.erased)
}

/// A bit of the newest record becomes one, or the record becomes illegible.
fn decay<const WORD: usize, const SECTOR: usize>(memory: &mut Memory<WORD, SECTOR>, offset: u32) {
    let record = WORD.max(NUMBER);
    let places = (offset as usize..offset as usize + 2 * SECTOR).step_by(record);
    let number = |at: usize| {
        let word = |at: usize| u32::from_le_bytes(memory.bytes[at..at + 4].try_into().unwrap());
        (word(at) == !word(at + 4)).then_some(word(at))
    };
    let newest = places.filter(|at| number(*at).is_some()).max_by_key(|at| number(*at)).unwrap();
    let bit = memory.next() as usize % 64;
    memory.bytes[newest + bit / 8] |= 1 << (bit % 8);
    memory.legible[newest / WORD] = memory.next().is_multiple_of(2);
}

#[test]
fn no_counter_comes_twice_wherever_the_power_fails() {
    let (mut cuts, mut erased) = (0, 0);
    for seed in 0..400 {
        for corrects in [false, true] {
            for (cut, erasures) in [
                lives::<1, 256>(seed, corrects, false),
                lives::<4, 64>(seed, corrects, false),
                lives::<8, 64>(seed, corrects, false),
                lives::<32, 256>(seed, corrects, false),
            ] {
                cuts += cut;
                erased += erasures;
            }
        }
    }
    assert!(cuts > 50_000 && erased > 50_000, "{cuts} power losses, {erased} erasures");
}

#[test]
fn no_counter_comes_twice_if_the_newest_record_decays() {
    for seed in 0..1000 {
        lives::<4, 64>(seed, false, true);
        lives::<8, 256>(seed, true, true);
    }
}

#[test]
fn memory_without_a_counter_is_refused_and_another_place_is_left_alone() {
    let mut memory = Memory::<4, 64>::new(1, false);
    assert_eq!(FlashCounter::open(&mut memory, 64).map(|_| ()), Err(FlashError::NoCounter));
    // erased memory is not a counter of 0
    (&mut memory).erase(0, 192).unwrap();
    assert_eq!(FlashCounter::open(&mut memory, 64).map(|_| ()), Err(FlashError::NoCounter));
    // a place that is not two sectors
    for offset in [4, 128, 192, u32::MAX - 63] {
        assert_eq!(FlashCounter::create(&mut memory, offset).map(|_| ()), Err(FlashError::Sectors), "{offset}");
    }
    let mut counter = FlashCounter::create(&mut memory, 64).unwrap();
    assert_eq!((counter.load(), counter.store(64), counter.load()), (Ok(0), Ok(()), Ok(64)));
    assert!(counter.into_flash().bytes[..64].iter().all(|byte| *byte == 0xff), "the sector before");
    // a memory that cannot be read is not one without a counter
    memory.on = false;
    assert_eq!(FlashCounter::open(&mut memory, 64).map(|_| ()), Err(FlashError::Flash(Fault::Power)));
}

#[test]
fn a_word_that_takes_nothing_stops_one_write() {
    for record in [2, 7] {
        let mut memory = Memory::<4, 64>::new(1, false);
        memory.stuck = Some(8 * record);
        let mut counter = FlashCounter::create(&mut memory, 0).unwrap();
        let mut failed = 0;
        for next in (64..64 * 20).step_by(64) {
            while counter.store(next).is_err() {
                failed += 1;
                assert!(failed < 4, "one failure in a round of the sectors");
            }
        }
        assert_eq!(FlashCounter::open(&mut memory, 0).unwrap().load(), Ok(64 * 19));
    }
}

#[test]
fn a_sector_that_does_not_answer_is_an_error_unless_it_was_being_erased() {
    for (stores, expected) in [(3, None), (11, Some(64 * 6 + 64 * 8))] {
        let mut memory = Memory::<8, 64>::new(1, true);
        let mut counter = FlashCounter::create(&mut memory, 0).unwrap();
        (1..=stores).for_each(|store| counter.store(64 * store).unwrap());
        memory.legible[8..16].fill(false);
        let found = FlashCounter::open(&mut memory, 0).map(|mut counter| counter.load().unwrap());
        // every record that cannot be read counts as a block, and so the counter is not behind
        assert_eq!(found, expected.ok_or(FlashError::Flash(Fault::Word)), "{stores}");
        assert!(expected.is_none_or(|found| found >= 64 * stores));
    }
}

#[test]
fn a_creation_over_an_old_counter_that_was_cut_off_has_none_or_an_old_one() {
    for left in 1..5 {
        let mut memory = Memory::<4, 64>::new(left.into(), false);
        let mut counter = FlashCounter::create(&mut memory, 0).unwrap();
        (64..64 * 12).step_by(64).for_each(|next| counter.store(next).unwrap());
        memory.left = left;
        assert!(FlashCounter::create(&mut memory, 0).is_err() || left > 3);
        (memory.on, memory.left) = (true, u32::MAX);
        // never a counter that is ahead, and never a failure to start again
        let found = FlashCounter::open(&mut memory, 0).map(|mut counter| counter.load().unwrap());
        assert!(found.as_ref().is_ok_and(|found| *found <= 64 * 11 + 64 * 8) || found == Err(FlashError::NoCounter));
        assert_eq!(FlashCounter::create(&mut memory, 0).unwrap().load(), Ok(0));
    }
}

#[test]
fn a_creation_that_was_cut_off_is_refused_or_complete() {
    for left in 1..5 {
        for seed in 0..200 {
            let mut memory = Memory::<4, 64>::new(seed, false);
            memory.left = left;
            let created = FlashCounter::create(&mut memory, 0).is_ok();
            (memory.on, memory.left) = (true, u32::MAX);
            match FlashCounter::open(&mut memory, 0) {
                Ok(mut counter) => assert!(counter.load().unwrap() <= BLOCK),
                Err(error) => assert!(!created && error == FlashError::NoCounter),
            }
            assert_eq!(FlashCounter::create(&mut memory, 0).unwrap().load(), Ok(0));
        }
    }
}
