//! One direction of a link: items arrive once and in order, over a bus that may lose, repeat and
//! reorder messages.
//!
//! Items are cut into pieces that any broker carries, and pieces are numbered. With every tick both
//! ends tell each other how many pieces they have sent and received. Pieces that are not confirmed
//! for a while are sent again, all of them from there on. The receiver takes pieces in order, and
//! keeps a few that arrive before their turn.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use super::messages::Word;
use crate::live::group::MAX_GROUP_BYTES;

/// Bytes of a piece. By default NATS carries a mebibyte.
const PIECE: usize = 128 << 10;
/// The longest item: the longest message to a member, and a head.
const MAX_ITEM: usize = MAX_GROUP_BYTES + 1024;
/// The most pieces and bytes that may be unconfirmed.
const MOST_PIECES: usize = 1 << 13;
const MOST_BYTES: usize = 4 * MAX_ITEM;
/// How far before its turn a piece may arrive. Together such pieces have no more bytes than an
/// item.
const AHEAD: u32 = 64;
/// Time without confirmation after which pieces are sent again.
const AGAIN: Duration = Duration::from_millis(60);

/// The other end sent something that no server sends.
#[derive(Debug)]
pub(super) struct Broken;

/// Both halves of one end: the items sent to the other, and the items received from there.
#[derive(Default)]
pub(super) struct Line {
    /// Unconfirmed pieces, by number, ascending without a gap.
    unheard: VecDeque<(u32, bool, Vec<u8>)>,
    bytes: usize,
    said: u32,
    /// The number of the last piece on its way, and the time it was sent.
    sent: u32,
    at: Duration,
    heard: u32,
    coming: Vec<u8>,
    /// Pieces that arrived before their turn.
    ahead: BTreeMap<u32, (bool, Vec<u8>)>,
}

impl Line {
    /// Queues an item; [`Line::word`] returns its pieces.
    pub(super) fn say(&mut self, item: &[u8]) {
        let mut pieces = item.chunks(PIECE).peekable();
        while let Some(piece) = pieces.next() {
            self.said = self.said.saturating_add(1);
            self.bytes += piece.len();
            self.unheard.push_back((self.said, pieces.peek().is_none(), piece.to_vec()));
        }
    }

    /// Does the other end receive nothing, or not fast enough?
    pub(super) fn is_clogged(&self) -> bool {
        self.unheard.len() > MOST_PIECES || self.bytes > MOST_BYTES || self.said == u32::MAX
    }

    /// How many pieces were queued.
    pub(super) fn said(&self) -> u32 {
        self.said
    }

    /// How many pieces were received.
    pub(super) fn heard(&self) -> u32 {
        self.heard
    }

    /// The next piece to send.
    pub(super) fn word(&mut self, link: u32, now: Duration) -> Option<Word> {
        let (first, _, _) = self.unheard.front()?;
        let at = self.sent.saturating_add(1).saturating_sub(*first);
        let (number, last, piece) = self.unheard.get(at as usize)?;
        (self.sent, self.at) = (*number, now);
        Some(Word { link, number: *number, last: *last, piece: piece.clone() })
    }

    /// The other end confirms this many pieces.
    pub(super) fn confirm(&mut self, heard: u32, now: Duration) {
        while self.unheard.front().is_some_and(|(number, _, _)| *number <= heard) {
            self.bytes -= self.unheard.pop_front().map_or(0, |(_, _, piece)| piece.len());
        }
        if let Some((first, _, _)) = self.unheard.front()
            && now >= self.at + AGAIN
        {
            self.sent = self.sent.min(first - 1);
        }
    }

    /// Takes a piece, and returns the items that it completes.
    pub(super) fn take(&mut self, word: &Word) -> Result<Vec<Vec<u8>>, Broken> {
        if word.piece.len() > PIECE {
            return Err(Broken);
        }
        let bytes = word.piece.len() + self.ahead.values().map(|(_, piece)| piece.len()).sum::<usize>();
        let before = word.number.checked_sub(self.heard).and_then(|next| next.checked_sub(1));
        match before {
            Some(0) => {}
            Some(1..AHEAD) if bytes <= MAX_ITEM => {
                self.ahead.insert(word.number, (word.last, word.piece.clone()));
                return Ok(Vec::new());
            }
            // received already, or will be sent again
            _ => return Ok(Vec::new()),
        }
        let mut items = Vec::new();
        let mut next = Some((word.last, word.piece.clone()));
        while let Some((last, piece)) = next {
            if self.coming.len() + piece.len() > MAX_ITEM {
                return Err(Broken);
            }
            self.heard += 1;
            self.coming.extend_from_slice(&piece);
            if last {
                items.push(std::mem::take(&mut self.coming));
            }
            next = self.heard.checked_add(1).and_then(|number| self.ahead.remove(&number));
        }
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_item_longer_than_a_piece_comes_whole_and_one_that_never_ends_does_not() {
        let (mut one, mut other) = (Line::default(), Line::default());
        let item: Vec<u8> = (0..PIECE * 2 + 5).map(|i| i as u8).collect();
        one.say(&item);
        let mut came = Vec::new();
        while let Some(word) = one.word(1, Duration::ZERO) {
            assert!(came.is_empty());
            came = other.take(&word).unwrap();
        }
        assert!(came == [item] && other.heard() == 3);
        let endless = |number| Word { link: 1, number, last: false, piece: vec![0; PIECE] };
        assert!((4..200).any(|number| other.take(&endless(number)).is_err()));
        let long = Word { link: 1, number: 9, last: true, piece: vec![0; PIECE + 1] };
        assert!(other.take(&long).is_err());
    }

    #[test]
    fn what_comes_before_its_turn_is_kept_within_bounds() {
        let (mut one, mut other) = (Line::default(), Line::default());
        (0..5).for_each(|item| one.say(&[item]));
        let words: Vec<Word> = std::iter::from_fn(|| one.word(1, Duration::ZERO)).collect();
        assert!(words[1..].iter().rev().all(|word| other.take(word).unwrap().is_empty()));
        assert_eq!(other.take(&words[0]).unwrap(), (0..5).map(|item| vec![item]).collect::<Vec<_>>());
        assert!(other.heard() == 5 && other.ahead.is_empty());
        let far = |number, length| Word { link: 1, number, last: false, piece: vec![0; length] };
        (7..20_000).for_each(|number| assert!(other.take(&far(number, 1)).unwrap().is_empty()));
        assert_eq!(other.ahead.len(), AHEAD as usize - 1);
        let mut other = Line::default();
        (2..60).for_each(|number| assert!(other.take(&far(number, PIECE)).unwrap().is_empty()));
        assert!(other.ahead.len() * PIECE <= MAX_ITEM);
    }

    #[test]
    fn what_nobody_hears_clogs() {
        let mut line = Line::default();
        (0..=MOST_PIECES).for_each(|_| line.say(&[1]));
        assert!(line.is_clogged());
        line.confirm(line.said(), Duration::ZERO);
        assert!(!line.is_clogged() && line.bytes == 0);
    }

    proptest! {
        #[test]
        fn items_arrive_once_and_in_order_whatever_the_bus_does(seed in any::<u64>(), loss in 0u64..70, count in 1usize..60) {
            let mut dice = seed | 1;
            let mut roll = move |sides: u64| {
                dice ^= dice << 13;
                dice ^= dice >> 7;
                dice ^= dice << 17;
                dice % sides
            };
            let (mut one, mut other) = (Line::default(), Line::default());
            let (mut bus, mut came, mut next) = (Vec::new(), Vec::new(), 0u8);
            for round in 0..20_000u64 {
                let now = Duration::from_millis(round * 5);
                if usize::from(next) < count && roll(3) == 0 {
                    one.say(&[next; 9]);
                    next += 1;
                }
                while let Some(word) = one.word(1, now) {
                    if roll(100) >= loss {
                        bus.push(word.clone());
                    }
                    if roll(10) == 0 {
                        bus.push(word);
                    }
                }
                if !bus.is_empty() {
                    let word = bus.swap_remove(roll(bus.len() as u64) as usize);
                    came.extend(other.take(&word).unwrap());
                }
                if roll(100) >= loss {
                    one.confirm(other.heard(), now);
                }
                if came.len() == count {
                    break;
                }
            }
            prop_assert_eq!(came, (0..count as u8).map(|i| vec![i; 9]).collect::<Vec<_>>());
        }
    }
}
