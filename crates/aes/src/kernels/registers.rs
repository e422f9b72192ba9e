//! AES-NI, one block in a register, and VAES with AVX2, two blocks in a register: for machines
//! without AVX-512.
//!
//! Eight registers of chains advance together, because a round has a latency of three or four
//! cycles and two rounds start in each cycle. The processor has sixteen registers, so round keys
//! come from memory: once a round where all chains have one key, otherwise for each register.
//!
//! Messages run in groups of as many as those registers hold, the longest first. A group encrypts
//! as many blocks as its shortest message has whole blocks. Then it encrypts one more block, which
//! is the padded block of every message that has no whole block left. Lanes without a message
//! repeat the work of the first lane: they write the same bytes to the same place.
//! bytes to the same place.

use super::schedule::{MAX_KEYS, RoundKeys, of_bytes, to_bytes};
use crate::{BLOCK_BYTES, Block, CbcMessage, Path, Schedule, last_block};
use std::arch::x86_64::*;
use std::cmp::Reverse;
use std::ops::Range;

/// Registers of chains that advance together.
const REGISTERS: usize = 8;
/// The highest number of chains, two in a register.
const MAX_LANES: usize = 2 * REGISTERS;

/// Blocks side by side, each an AES state. A value of the type proves that this machine has the
/// instructions.
trait Registers: Copy {
    /// One register.
    type V: Copy;
    /// Blocks in a register.
    const BLOCKS: usize;

    /// The same block everywhere.
    fn broadcast(self, block: __m128i) -> Self::V;
    /// The block of each place.
    fn gather(self, block: impl Fn(usize) -> __m128i) -> Self::V;
    /// Passes each place's block to `to`.
    fn scatter(self, v: Self::V, to: impl FnMut(usize, __m128i));
    fn xor(self, a: Self::V, b: Self::V) -> Self::V;
    fn encrypt(self, v: Self::V, key: Self::V) -> Self::V;
    fn encrypt_last(self, v: Self::V, key: Self::V) -> Self::V;
    fn decrypt(self, v: Self::V, key: Self::V) -> Self::V;
    fn decrypt_last(self, v: Self::V, key: Self::V) -> Self::V;

    #[inline(always)]
    fn zero(self) -> Self::V {
        self.broadcast(of_bytes(&[0; BLOCK_BYTES]))
    }
}

/// Proof that this machine has AES-NI.
#[derive(Clone, Copy)]
struct Singles(());

/// Proof that this machine has VAES on registers of AVX2.
#[derive(Clone, Copy)]
struct Pairs(());

/// Whether this machine has the instructions on two blocks (VAES with AVX2).
pub(crate) fn has_pairs() -> bool {
    super::schedule::detected() && is_x86_feature_detected!("avx2") && is_x86_feature_detected!("vaes")
}

/// One instruction, or a few, on registers.
macro_rules! instruction {
    ($body:expr) => {{
        // SAFETY: `self` is proof that the machine has the instructions
        unsafe { $body }
    }};
}

/// Methods that are one instruction on two registers.
macro_rules! operations {
    ($($name:ident = $intrinsic:ident;)*) => {
        $(
            #[inline(always)]
            fn $name(self, a: Self::V, b: Self::V) -> Self::V {
                instruction!($intrinsic(a, b))
            }
        )*
    };
}

impl Registers for Singles {
    type V = __m128i;
    const BLOCKS: usize = 1;

    operations! {
        xor = _mm_xor_si128;
        encrypt = _mm_aesenc_si128;
        encrypt_last = _mm_aesenclast_si128;
        decrypt = _mm_aesdec_si128;
        decrypt_last = _mm_aesdeclast_si128;
    }

    #[inline(always)]
    fn broadcast(self, block: __m128i) -> __m128i {
        block
    }

    #[inline(always)]
    fn gather(self, block: impl Fn(usize) -> __m128i) -> __m128i {
        block(0)
    }

    #[inline(always)]
    fn scatter(self, v: __m128i, mut to: impl FnMut(usize, __m128i)) {
        to(0, v);
    }
}

impl Registers for Pairs {
    type V = __m256i;
    const BLOCKS: usize = 2;

    operations! {
        xor = _mm256_xor_si256;
        encrypt = _mm256_aesenc_epi128;
        encrypt_last = _mm256_aesenclast_epi128;
        decrypt = _mm256_aesdec_epi128;
        decrypt_last = _mm256_aesdeclast_epi128;
    }

    #[inline(always)]
    fn broadcast(self, block: __m128i) -> __m256i {
        instruction!(_mm256_broadcastsi128_si256(block))
    }

    #[inline(always)]
    fn gather(self, block: impl Fn(usize) -> __m128i) -> __m256i {
        let (low, high) = (block(0), block(1));
        instruction!(_mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high))
    }

    #[inline(always)]
    fn scatter(self, v: __m256i, mut to: impl FnMut(usize, __m128i)) {
        to(0, instruction!(_mm256_castsi256_si128(v)));
        to(1, instruction!(_mm256_extracti128_si256::<1>(v)));
    }
}

/// Loops over sorted messages whose keys have one number of rounds. The second argument is the
/// number of messages side by side.
type Groups = unsafe fn(&mut [CbcMessage<'_>], usize);

/// Encrypts every message, one block in a register, up to `lanes` side by side, eight at most.
pub(crate) fn encrypt_singles(messages: &mut [CbcMessage<'_>], lanes: usize) {
    encrypt(messages, lanes.min(REGISTERS), [singles::<10>, singles::<12>, singles::<14>]);
}

/// Encrypts every message, two blocks in a register, up to `lanes` side by side, sixteen at most.
pub(crate) fn encrypt_pairs(messages: &mut [CbcMessage<'_>], lanes: usize) {
    encrypt(messages, lanes.min(MAX_LANES), [pairs::<10>, pairs::<12>, pairs::<14>]);
}

/// Sorts the messages, the longest first, and those of one length and one key together.
fn encrypt(messages: &mut [CbcMessage<'_>], lanes: usize, groups: [Groups; 3]) {
    let place = |message: &CbcMessage<'_>| (whole(message), std::ptr::from_ref(message.key).addr());
    let Some(first) = messages.first().map(place) else { return };
    // messages are often alike, and comparing them is cheaper than sorting them
    if messages.iter().any(|message| place(message) != first) {
        messages.sort_unstable_by_key(|message| (rounds(message), Reverse(place(message))));
    }
    let mut rest = messages;
    for (most, groups) in [10, 12, 14].into_iter().zip(groups) {
        let count = rest.partition_point(|message| rounds(message) <= most);
        let (now, later) = rest.split_at_mut(count);
        // SAFETY: messages have keys for these loops only where the instructions were detected
        unsafe { groups(now, lanes) };
        rest = later;
    }
}

fn round_keys<'a>(message: &CbcMessage<'a>) -> Option<&'a RoundKeys> {
    match &message.key.schedule {
        Schedule::Instructions(keys) => Some(keys),
        Schedule::Library(_) => None,
    }
}

fn rounds(message: &CbcMessage<'_>) -> usize {
    round_keys(message).map_or(0, |keys| keys.rounds)
}

/// Whole blocks of a message.
fn whole(message: &CbcMessage<'_>) -> usize {
    message.plaintext.len() / BLOCK_BYTES
}

#[target_feature(enable = "aes,sse4.1")]
fn singles<const R: usize>(messages: &mut [CbcMessage<'_>], lanes: usize) {
    in_groups::<_, R>(Singles(()), messages, lanes);
}

#[target_feature(enable = "aes,sse4.1,avx2,vaes")]
fn pairs<const R: usize>(messages: &mut [CbcMessage<'_>], lanes: usize) {
    in_groups::<_, R>(Pairs(()), messages, lanes);
}

#[inline(always)]
fn in_groups<S: Registers, const R: usize>(s: S, messages: &mut [CbcMessage<'_>], lanes: usize) {
    let mut group = Group::new(s);
    for messages in messages.chunks_mut(lanes) {
        group.encrypt::<R>(messages);
    }
    group.wipe();
}

/// Chains side by side, reused from one group to the next.
struct Group<S: Registers> {
    s: S,
    /// Round keys of all lanes if they have one key; `owner` is that key.
    one: [S::V; MAX_KEYS],
    owner: *const RoundKeys,
    /// Otherwise the round keys of each register.
    many: Option<Box<[[S::V; MAX_KEYS]; REGISTERS]>>,
    chains: [Block; MAX_LANES],
    paths: [Path; MAX_LANES],
    /// The last blocks, with their padding.
    tails: [Block; MAX_LANES],
}

impl<S: Registers> Group<S> {
    #[inline(always)]
    fn new(s: S) -> Self {
        Self {
            s,
            one: [s.zero(); MAX_KEYS],
            owner: std::ptr::null(),
            many: None,
            chains: [[0; BLOCK_BYTES]; MAX_LANES],
            paths: [Path { input: std::ptr::null(), output: std::ptr::null_mut() }; MAX_LANES],
            tails: [[0; BLOCK_BYTES]; MAX_LANES],
        }
    }

    /// Wipes keys, chains and tails. It writes whole registers, because writing byte by byte takes
    /// longer than encryption.
    #[inline(always)]
    fn wipe(&mut self) {
        let nothing = [self.s.zero(); MAX_KEYS];
        // SAFETY: a mutable reference is valid to be written to
        unsafe { std::ptr::write_volatile(&mut self.one, nothing) };
        if let Some(many) = &mut self.many {
            // SAFETY: as above
            unsafe { std::ptr::write_volatile(&mut **many, [nothing; REGISTERS]) };
        }
        // SAFETY: as above
        unsafe { std::ptr::write_volatile(&mut self.chains, [[0; BLOCK_BYTES]; MAX_LANES]) };
        // SAFETY: as above
        unsafe { std::ptr::write_volatile(&mut self.tails, [[0; BLOCK_BYTES]; MAX_LANES]) };
    }

    /// Encrypts at most one message for each lane. No message has more whole blocks than the
    /// message before it.
    #[inline(always)]
    fn encrypt<const R: usize>(&mut self, messages: &mut [CbcMessage<'_>]) {
        for (lane, message) in messages.iter_mut().enumerate() {
            self.paths[lane] = Path { input: message.plaintext.as_ptr(), output: message.ciphertext.as_mut_ptr() };
            (self.chains[lane], self.tails[lane]) = (*message.iv, last_block(message.plaintext));
        }
        let (mut active, mut done) = (messages.len(), 0);
        while active > 0 {
            let (one, shortest) = (self.expand::<R>(&messages[..active]), whole(&messages[active - 1]));
            let left = messages[..active].partition_point(|message| whole(message) > shortest);
            // SAFETY: every active message has so many whole blocks, and room for them
            unsafe { self.advance::<R>(one, active, done..shortest) };
            for lane in left..active {
                self.paths[lane].input = self.tails[lane].as_ptr().wrapping_sub(BLOCK_BYTES * shortest);
            }
            // SAFETY: and one block more, or a tail, and room for either
            unsafe { self.advance::<R>(one, active, shortest..shortest + 1) };
            (active, done) = (left, shortest + 1);
        }
    }

    /// Lays out round keys; lanes without a message get the first lane's keys. Returns whether all
    /// messages have one key.
    #[inline(always)]
    fn expand<const R: usize>(&mut self, messages: &[CbcMessage<'_>]) -> bool {
        let (s, Some(first)) = (self.s, messages.first()) else { return true };
        let Some(first_keys) = round_keys(first) else { return true };
        if messages.iter().all(|message| std::ptr::eq(message.key, first.key)) {
            if !std::ptr::eq(self.owner, first_keys) {
                self.owner = first_keys;
                for (wide, key) in self.one.iter_mut().zip(&first_keys.encrypt[..=R]) {
                    *wide = s.broadcast(of_bytes(key));
                }
            }
            return true;
        }
        let many = self.many.get_or_insert_with(|| Box::new([self.one; REGISTERS]));
        for (register, wide) in many.iter_mut().enumerate() {
            for (round, wide) in wide.iter_mut().enumerate().take(R + 1) {
                *wide = s.gather(|place| {
                    let message = messages.get(S::BLOCKS * register + place);
                    of_bytes(&message.and_then(round_keys).unwrap_or(first_keys).encrypt[round])
                });
            }
        }
        false
    }

    /// Encrypts these blocks of the first `active` lanes.
    ///
    /// # Safety
    /// Each of these lanes has these blocks to read and to write, counted from its path's start.
    #[inline(always)]
    unsafe fn advance<const R: usize>(&mut self, one: bool, active: usize, blocks: Range<usize>) {
        // fill the remaining lanes of the registers
        for lane in active..S::BLOCKS * REGISTERS {
            (self.chains[lane], self.paths[lane]) = (self.chains[0], self.paths[0]);
        }
        match (one, active.div_ceil(S::BLOCKS)) {
            // SAFETY: the caller's promise
            (true, 1) => unsafe { self.run::<R, 1, true>(blocks) },
            // SAFETY: as above
            (true, 2..=4) => unsafe { self.run::<R, 4, true>(blocks) },
            // SAFETY: as above
            (true, _) => unsafe { self.run::<R, REGISTERS, true>(blocks) },
            // SAFETY: as above
            (false, _) => unsafe { self.run::<R, REGISTERS, false>(blocks) },
        }
    }

    /// Encrypts these blocks of the first `Q` registers, under one key or one for each place.
    ///
    /// # Safety
    /// As [`Self::advance`], of all their lanes.
    #[inline(always)]
    unsafe fn run<const R: usize, const Q: usize, const ONE: bool>(&mut self, blocks: Range<usize>) {
        let s = self.s;
        let many = if ONE { None } else { self.many.as_deref().and_then(|many| many.first_chunk::<Q>()) };
        let key = |register: usize, round: usize| many.map_or(self.one[round], |many| many[register][round]);
        let mut chains = [s.zero(); Q];
        for (register, chain) in chains.iter_mut().enumerate() {
            *chain = s.gather(|place| of_bytes(&self.chains[S::BLOCKS * register + place]));
        }
        for block in blocks {
            let at = BLOCK_BYTES * block;
            for (register, chain) in chains.iter_mut().enumerate() {
                let input = s.gather(|place| {
                    let from = self.paths[S::BLOCKS * register + place].input.wrapping_add(at);
                    // SAFETY: the caller's promise
                    unsafe { _mm_loadu_si128(from.cast()) }
                });
                *chain = s.xor(*chain, s.xor(input, key(register, 0)));
            }
            for round in 1..R {
                for (register, chain) in chains.iter_mut().enumerate() {
                    *chain = s.encrypt(*chain, key(register, round));
                }
            }
            for (register, chain) in chains.iter_mut().enumerate() {
                *chain = s.encrypt_last(*chain, key(register, R));
                s.scatter(*chain, |place, block| {
                    let to = self.paths[S::BLOCKS * register + place].output.wrapping_add(at);
                    // SAFETY: the caller's promise
                    unsafe { _mm_storeu_si128(to.cast(), block) };
                });
            }
        }
        for (register, chain) in chains.into_iter().enumerate() {
            s.scatter(chain, |place, block| self.chains[S::BLOCKS * register + place] = to_bytes(block));
        }
    }
}

/// Decrypts whole blocks, one in a register.
pub(crate) fn decrypt_singles(schedule: &Schedule, iv: &Block, ciphertext: &[Block], plaintext: &mut [Block]) {
    decrypt(schedule, iv, ciphertext, plaintext, [back_singles::<10>, back_singles::<12>, back_singles::<14>]);
}

/// Decrypts whole blocks, two in a register.
pub(crate) fn decrypt_pairs(schedule: &Schedule, iv: &Block, ciphertext: &[Block], plaintext: &mut [Block]) {
    decrypt(schedule, iv, ciphertext, plaintext, [back_pairs::<10>, back_pairs::<12>, back_pairs::<14>]);
}

/// Loops over blocks; each block was encrypted after the one before it.
type Decrypt = unsafe fn(&RoundKeys, &Block, &[Block], &mut [Block]);

fn decrypt(schedule: &Schedule, iv: &Block, ciphertext: &[Block], plaintext: &mut [Block], loops: [Decrypt; 3]) {
    let Schedule::Instructions(keys) = schedule else { return };
    // SAFETY: there are such keys only where the instructions were detected
    unsafe { loops[(keys.rounds - 10) / 2](keys, iv, ciphertext, plaintext) };
}

#[target_feature(enable = "aes,sse4.1")]
fn back_singles<const R: usize>(keys: &RoundKeys, iv: &Block, ciphertext: &[Block], plaintext: &mut [Block]) {
    back::<_, R>(Singles(()), keys, iv, ciphertext, plaintext);
}

#[target_feature(enable = "aes,sse4.1,avx2,vaes")]
fn back_pairs<const R: usize>(keys: &RoundKeys, iv: &Block, ciphertext: &[Block], plaintext: &mut [Block]) {
    back::<_, R>(Pairs(()), keys, iv, ciphertext, plaintext);
}

/// Decrypts as many registers at a time as possible, then fewer.
#[inline(always)]
fn back<S: Registers, const R: usize>(
    s: S,
    keys: &RoundKeys,
    iv: &Block,
    ciphertext: &[Block],
    plaintext: &mut [Block],
) {
    let mut wide = [s.zero(); MAX_KEYS];
    for (wide, key) in wide.iter_mut().zip(&keys.decrypt[..=R]) {
        *wide = s.broadcast(of_bytes(key));
    }
    let mut work = Back { wide: &wide, before: *iv, from: ciphertext, to: plaintext };
    work.blocks::<S, R, REGISTERS>(s);
    work.blocks::<S, R, 2>(s);
    work.blocks::<S, R, 1>(s);
    // fewer than a register: the last block alone
    if let ([block], [out]) = (work.from, work.to) {
        let mut x = s.xor(s.broadcast(of_bytes(block)), wide[0]);
        for key in &wide[1..R] {
            x = s.decrypt(x, *key);
        }
        let x = s.xor(s.decrypt_last(x, wide[R]), s.broadcast(of_bytes(&work.before)));
        s.scatter(x, |_, block| *out = to_bytes(block));
    }
    // SAFETY: a local variable is valid to be written to
    unsafe { std::ptr::write_volatile(&raw mut wide, [s.zero(); MAX_KEYS]) };
}

/// The blocks left to decrypt, and the block before them.
struct Back<'a, V> {
    wide: &'a [V; MAX_KEYS],
    before: Block,
    from: &'a [Block],
    to: &'a mut [Block],
}

impl<V: Copy> Back<'_, V> {
    /// Decrypts while there are blocks for `Q` registers.
    #[inline(always)]
    fn blocks<S: Registers<V = V>, const R: usize, const Q: usize>(&mut self, s: S) {
        let count = S::BLOCKS * Q;
        while self.from.len().min(self.to.len()) >= count {
            let (now, later) = self.from.split_at(count);
            let (out, rest) = std::mem::take(&mut self.to).split_at_mut(count);
            back_blocks::<S, R, Q>(s, self.wide, &self.before, now, out);
            (self.before, self.from, self.to) = (now[count - 1], later, rest);
        }
    }
}

/// Decrypts `Q` registers of blocks, of which the first block follows `before`.
#[inline(always)]
fn back_blocks<S: Registers, const R: usize, const Q: usize>(
    s: S,
    keys: &[S::V; MAX_KEYS],
    before: &Block,
    from: &[Block],
    to: &mut [Block],
) {
    let count = S::BLOCKS * Q;
    let (from, to) = (&from[..count], &mut to[..count]);
    // reads keys again for every group of states: keys in registers would push states out of them
    let keys = std::hint::black_box(keys);
    let mut states = [s.zero(); Q];
    for (register, state) in states.iter_mut().enumerate() {
        *state = s.xor(s.gather(|place| of_bytes(&from[S::BLOCKS * register + place])), keys[0]);
    }
    for key in &keys[1..R] {
        for state in &mut states {
            *state = s.decrypt(*state, *key);
        }
    }
    for (register, state) in states.into_iter().enumerate() {
        let under =
            s.gather(|place| of_bytes((S::BLOCKS * register + place).checked_sub(1).map_or(before, |at| &from[at])));
        s.scatter(s.xor(s.decrypt_last(state, keys[R]), under), |place, block| {
            to[S::BLOCKS * register + place] = to_bytes(block);
        });
    }
}
