//! VAES with AVX-512: a register holds one block of each of four chains, and one instruction does
//! one round of all four.
//!
//! Up to eight registers of chains advance together: while a round of one register is unfinished,
//! the unit starts rounds of the others. Every chain has its own key: round key `r` of four
//! neighbouring chains is one register in memory. The loop reads four blocks of a message at once,
//! which is a cache line, and transposes sixteen blocks of four messages. Reading one block of each
//! message at a time would touch every line four times. Where messages lie a multiple of 4 KiB
//! apart, the line would have left the first-level cache before the next touch.
//!
//! Runs of messages of one key and one length go to `even512`.

use super::even512::{EVEN, encrypt_even};
use super::schedule::{MAX_KEYS, RoundKeys, of_bytes, to_bytes};
use crate::{BLOCK_BYTES, Block, CbcMessage, Path, Schedule, last_block};
use std::arch::x86_64::*;

/// Blocks in a register.
pub(crate) const QUAD: usize = 4;
/// The highest number of chains.
const MAX_LANES: usize = 32;

/// Whether this machine has the instructions.
pub(crate) fn detected() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("aes")
        && is_x86_feature_detected!("vaes")
        && is_x86_feature_detected!("sse4.1")
}

/// The round keys of four chains: register `r` has round key `r` of each.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct QuadKeys([[Block; QUAD]; MAX_KEYS]);

/// Four blocks, as a register holds them.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Quad(pub(crate) [Block; QUAD]);

impl QuadKeys {
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn round(&self, round: usize) -> __m512i {
        // SAFETY: four blocks are 64 bytes on a boundary of 64
        unsafe { _mm512_load_si512(self.0[round].as_ptr().cast()) }
    }
}

/// The work left for a lane: whole blocks of the message, then the last block.
#[derive(Clone, Copy)]
struct Lane {
    input: Input,
    output: *mut u8,
    /// Blocks from input to output until this part is done.
    blocks: usize,
}

#[derive(Clone, Copy)]
enum Input {
    /// The message from here on.
    Message(*const u8),
    /// The lane's entry of `tails`.
    Tail,
}

/// Chains side by side: the first `active` are at work.
struct Lanes {
    keys: [QuadKeys; MAX_LANES / QUAD],
    /// The owners of those keys: where messages share a key, it is copied once.
    owners: [*const RoundKeys; MAX_LANES],
    chains: [Quad; MAX_LANES / QUAD],
    lanes: [Lane; MAX_LANES],
    /// The last blocks, with their padding.
    tails: [Block; MAX_LANES],
    active: usize,
    rounds: usize,
}

/// Encrypts every message, up to `lanes` side by side. Runs of messages of one key and one length
/// go in groups, all others lane by lane.
pub(crate) fn encrypt(messages: &mut [CbcMessage<'_>], lanes: usize) {
    let (mut from, mut at) = (0, 0);
    while at < messages.len() && lanes >= EVEN {
        let run = alike(&messages[at..]);
        if run < EVEN {
            at += run;
            continue;
        }
        let whole = run / EVEN * EVEN;
        encrypt_uneven(&mut messages[from..at], lanes);
        encrypt_even(&mut messages[at..at + whole]);
        at += whole;
        from = at;
    }
    encrypt_uneven(&mut messages[from..], lanes);
}

/// How many messages, from the first on, have the first one's key and length.
fn alike(messages: &[CbcMessage<'_>]) -> usize {
    let Some(first) = messages.first() else { return 0 };
    let same = |message: &&CbcMessage<'_>| {
        std::ptr::eq(message.key, first.key) && message.plaintext.len() == first.plaintext.len()
    };
    messages.iter().take_while(same).count()
}

/// Encrypts messages of any keys and lengths.
fn encrypt_uneven(messages: &mut [CbcMessage<'_>], lanes: usize) {
    let mut state: Option<Box<Lanes>> = None;
    for rounds in [10, 12, 14] {
        let mut waiting = messages.iter_mut().filter_map(|message| match &message.key.schedule {
            Schedule::Instructions(key) if key.rounds == rounds => {
                Some((&**key, message.iv, message.plaintext, &mut *message.ciphertext))
            }
            _ => None,
        });
        let Some(first) = waiting.next() else { continue };
        let state = state.get_or_insert_with(|| Box::new(Lanes::new()));
        state.rounds = rounds;
        let mut next = Some(first);
        loop {
            while state.active < lanes.min(MAX_LANES) {
                let Some((key, iv, plaintext, ciphertext)) = next.take().or_else(|| waiting.next()) else { break };
                state.begin(key, iv, plaintext, ciphertext);
            }
            if state.active == 0 {
                break;
            }
            state.advance();
        }
    }
    if let Some(mut state) = state {
        state.wipe();
    }
}

impl Lanes {
    fn new() -> Self {
        Self {
            keys: [QuadKeys([[[0; 16]; QUAD]; MAX_KEYS]); MAX_LANES / QUAD],
            owners: [std::ptr::null(); MAX_LANES],
            chains: [Quad([[0; 16]; QUAD]); MAX_LANES / QUAD],
            lanes: [Lane { input: Input::Tail, output: std::ptr::null_mut(), blocks: 0 }; MAX_LANES],
            tails: [[0; 16]; MAX_LANES],
            active: 0,
            rounds: 0,
        }
    }

    /// Wipes keys, chains and tails. It writes the keys of a whole register at once, because
    /// writing byte by byte takes longer than encryption.
    fn wipe(&mut self) {
        let used = self.owners.iter().rposition(|owner| !owner.is_null()).map_or(0, |lane| lane / QUAD + 1);
        for keys in &mut self.keys[..used] {
            // SAFETY: a mutable reference is valid to be written to
            unsafe { std::ptr::write_volatile(keys, QuadKeys([[[0; 16]; QUAD]; MAX_KEYS])) };
        }
        // SAFETY: as above
        unsafe { std::ptr::write_volatile(&mut self.chains, [Quad([[0; 16]; QUAD]); MAX_LANES / QUAD]) };
        // SAFETY: as above
        unsafe { std::ptr::write_volatile(&mut self.tails, [[0; 16]; MAX_LANES]) };
    }

    /// Puts a message into the next lane.
    fn begin(&mut self, key: &RoundKeys, iv: &Block, plaintext: &[u8], ciphertext: &mut [u8]) {
        let lane = self.active;
        let (quad, place) = (lane / QUAD, lane % QUAD);
        if !std::ptr::eq(self.owners[lane], key) {
            self.owners[lane] = key;
            for (to, from) in self.keys[quad].0.iter_mut().zip(&key.encrypt[..=self.rounds]) {
                to[place] = *from;
            }
        }
        self.chains[quad].0[place] = *iv;
        self.tails[lane] = last_block(plaintext);
        let (input, output) = (Input::Message(plaintext.as_ptr()), ciphertext.as_mut_ptr());
        self.lanes[lane] = Lane { input, output, blocks: plaintext.len() / BLOCK_BYTES };
        self.active += 1;
        if self.lanes[lane].blocks == 0 {
            self.go_to_tail(lane);
        }
    }

    /// Moves the lane on to its message's last block. `CbcMessage` has room for it behind the whole
    /// blocks.
    fn go_to_tail(&mut self, lane: usize) {
        self.lanes[lane].input = Input::Tail;
        self.lanes[lane].blocks = 1;
    }

    /// Encrypts as many blocks of every chain as the shortest part has, and frees the lanes that
    /// are done.
    fn advance(&mut self) {
        let Some(blocks) = self.lanes[..self.active].iter().map(|lane| lane.blocks).min() else { return };
        // Lanes that fill up the last register repeat the work of its first lane: they write the
        // same bytes to the same place.
        let (first, end) = (self.active / QUAD * QUAD, self.active.next_multiple_of(QUAD));
        for lane in self.active..end {
            self.copy(first, lane);
        }
        let mut quad = 0;
        while quad < end / QUAD {
            quad += self.run(quad, end / QUAD - quad, blocks);
        }
        for lane in (0..self.active).rev() {
            self.pass(lane, blocks);
        }
    }

    /// Records that the lane has encrypted so many blocks.
    fn pass(&mut self, lane: usize, blocks: usize) {
        let Lane { input, output, blocks: left } = &mut self.lanes[lane];
        *left -= blocks;
        *output = output.wrapping_add(blocks * BLOCK_BYTES);
        let ended = match input {
            Input::Message(at) => {
                *at = at.wrapping_add(blocks * BLOCK_BYTES);
                if *left == 0 {
                    self.go_to_tail(lane);
                }
                false
            }
            Input::Tail => true,
        };
        if ended {
            self.active -= 1;
            if lane != self.active {
                self.copy(self.active, lane);
            }
        }
    }

    /// Makes lane `to` a copy of lane `from`.
    fn copy(&mut self, from: usize, to: usize) {
        if !std::ptr::eq(self.owners[to], self.owners[from]) {
            self.owners[to] = self.owners[from];
            for round in 0..=self.rounds {
                self.keys[to / QUAD].0[round][to % QUAD] = self.keys[from / QUAD].0[round][from % QUAD];
            }
        }
        self.chains[to / QUAD].0[to % QUAD] = self.chains[from / QUAD].0[from % QUAD];
        self.lanes[to] = self.lanes[from];
        self.tails[to] = self.tails[from];
    }

    /// Advances up to `quads` registers of chains from register `quad` on; returns how many.
    fn run(&mut self, quad: usize, quads: usize, blocks: usize) -> usize {
        let mut paths = [Path { input: std::ptr::null(), output: std::ptr::null_mut() }; MAX_LANES];
        let end = QUAD * (quad + quads);
        for ((path, lane), tail) in paths.iter_mut().zip(&self.lanes[..end]).zip(&self.tails) {
            let input = match lane.input {
                Input::Message(at) => at,
                Input::Tail => tail.as_ptr(),
            };
            *path = Path { input, output: lane.output };
        }
        let (keys, chains, paths) = (&self.keys[quad..], &mut self.chains[quad..], &paths[QUAD * quad..]);
        let advance: Advance = match (self.rounds, quads) {
            (10, 8..) => advance::<10, 8>,
            (10, 4..) => advance::<10, 4>,
            (10, 2..) => advance::<10, 2>,
            (10, _) => advance::<10, 1>,
            (12, 8..) => advance::<12, 8>,
            (12, 4..) => advance::<12, 4>,
            (12, 2..) => advance::<12, 2>,
            (12, _) => advance::<12, 1>,
            (_, 8..) => advance::<14, 8>,
            (_, 4..) => advance::<14, 4>,
            (_, 2..) => advance::<14, 2>,
            _ => advance::<14, 1>,
        };
        // SAFETY: there are lanes only where `detected` found the instructions, and each of them
        // has `blocks` blocks to read and to write: those of a message and its room, both borrowed
        // until the end of `encrypt`, or one of `tails`
        unsafe { advance(keys, chains, paths, blocks) }
    }
}

/// [`advance`] for some number of rounds and registers.
type Advance = unsafe fn(&[QuadKeys], &mut [Quad], &[Path], usize) -> usize;

/// Advances `Q` registers of chains by `blocks` blocks, `R` rounds each. Returns `Q`.
///
/// # Safety
/// The machine has the instructions, and each path has so many blocks to read and to write.
#[target_feature(enable = "avx512f,vaes")]
unsafe fn advance<const R: usize, const Q: usize>(
    keys: &[QuadKeys],
    state: &mut [Quad],
    paths: &[Path],
    blocks: usize,
) -> usize {
    let (Some(keys), Some(state)) = (keys.first_chunk::<Q>(), state.first_chunk_mut::<Q>()) else { return Q };
    let Some(paths) = paths.as_chunks::<QUAD>().0.first_chunk::<Q>() else { return Q };
    let mut chains = [_mm512_setzero_si512(); Q];
    for (chain, from) in chains.iter_mut().zip(state.iter()) {
        // SAFETY: four blocks are 64 bytes on a boundary of 64
        *chain = unsafe { _mm512_load_si512(from.0.as_ptr().cast()) };
    }
    let fours = blocks / QUAD;
    for four in 0..fours {
        let mut x = [[_mm512_setzero_si512(); QUAD]; Q];
        for (x, paths) in x.iter_mut().zip(paths) {
            for (x, path) in x.iter_mut().zip(paths) {
                // SAFETY: the caller's promise: `4 · fours` blocks may be read
                *x = unsafe { _mm512_loadu_si512(path.input.wrapping_add(64 * four).cast()) };
            }
            *x = transpose(*x);
        }
        for block in 0..QUAD {
            let mut input = [_mm512_setzero_si512(); Q];
            for (input, x) in input.iter_mut().zip(&x) {
                *input = x[block];
            }
            chain_blocks::<R, Q>(keys, &mut chains, &input);
            for (x, chain) in x.iter_mut().zip(chains) {
                x[block] = chain;
            }
        }
        for (x, paths) in x.into_iter().zip(paths) {
            for (x, path) in transpose(x).into_iter().zip(paths) {
                // SAFETY: the caller's promise: `4 · fours` blocks may be written
                unsafe { _mm512_storeu_si512(path.output.wrapping_add(64 * four).cast(), x) };
            }
        }
    }
    for block in QUAD * fours..blocks {
        let mut input = [_mm512_setzero_si512(); Q];
        for (input, paths) in input.iter_mut().zip(paths) {
            // SAFETY: the caller's promise: `blocks` blocks may be read
            *input = unsafe { gather(paths, block) };
        }
        chain_blocks::<R, Q>(keys, &mut chains, &input);
        for (chain, paths) in chains.iter().zip(paths) {
            // SAFETY: the caller's promise: `blocks` blocks may be written
            unsafe { scatter(*chain, paths, block) };
        }
    }
    for (chain, to) in chains.iter().zip(state) {
        // SAFETY: four blocks are 64 bytes on a boundary of 64
        unsafe { _mm512_store_si512(to.0.as_mut_ptr().cast(), *chain) };
    }
    Q
}

/// Block `block` of four paths.
///
/// # Safety
/// It may be read.
#[target_feature(enable = "avx512f")]
#[inline]
pub(crate) unsafe fn gather(paths: &[Path; QUAD], block: usize) -> __m512i {
    let mut parts = [_mm_setzero_si128(); QUAD];
    for (part, path) in parts.iter_mut().zip(paths) {
        // SAFETY: the caller's promise
        *part = unsafe { _mm_loadu_si128(path.input.wrapping_add(BLOCK_BYTES * block).cast()) };
    }
    let low = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(parts[0]), parts[1]);
    _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(low, parts[2]), parts[3])
}

/// Writes block `block` of four paths.
///
/// # Safety
/// It may be written.
#[target_feature(enable = "avx512f")]
#[inline]
pub(crate) unsafe fn scatter(blocks: __m512i, paths: &[Path; QUAD], block: usize) {
    let parts = [
        _mm512_castsi512_si128(blocks),
        _mm512_extracti32x4_epi32::<1>(blocks),
        _mm512_extracti32x4_epi32::<2>(blocks),
        _mm512_extracti32x4_epi32::<3>(blocks),
    ];
    for (part, path) in parts.into_iter().zip(paths) {
        // SAFETY: the caller's promise
        unsafe { _mm_storeu_si128(path.output.wrapping_add(BLOCK_BYTES * block).cast(), part) };
    }
}

/// Encrypts one block of each chain.
#[target_feature(enable = "avx512f,vaes")]
#[inline]
fn chain_blocks<const R: usize, const Q: usize>(keys: &[QuadKeys; Q], chains: &mut [__m512i; Q], input: &[__m512i; Q]) {
    for ((chain, input), keys) in chains.iter_mut().zip(input).zip(keys) {
        *chain = _mm512_ternarylogic_epi64::<0x96>(*chain, *input, keys.round(0)); // the exclusive or of all three
    }
    for round in 1..R {
        for (chain, keys) in chains.iter_mut().zip(keys) {
            *chain = _mm512_aesenc_epi128(*chain, keys.round(round));
        }
    }
    for (chain, keys) in chains.iter_mut().zip(keys) {
        *chain = _mm512_aesenclast_epi128(*chain, keys.round(R));
    }
}

/// Transposes four by four blocks.
#[target_feature(enable = "avx512f")]
#[inline]
pub(crate) fn transpose([a, b, c, d]: [__m512i; QUAD]) -> [__m512i; QUAD] {
    // 0x88 takes the even quarters of both, 0xdd the odd ones; 0x44 the lower two, 0xee the upper
    // two
    let (low_ab, low_cd) = (_mm512_shuffle_i64x2::<0x44>(a, b), _mm512_shuffle_i64x2::<0x44>(c, d));
    let (high_ab, high_cd) = (_mm512_shuffle_i64x2::<0xee>(a, b), _mm512_shuffle_i64x2::<0xee>(c, d));
    [
        _mm512_shuffle_i64x2::<0x88>(low_ab, low_cd),
        _mm512_shuffle_i64x2::<0xdd>(low_ab, low_cd),
        _mm512_shuffle_i64x2::<0x88>(high_ab, high_cd),
        _mm512_shuffle_i64x2::<0xdd>(high_ab, high_cd),
    ]
}

pub(crate) fn decrypt_cbc(schedule: &Schedule, iv: &Block, ciphertext: &[Block], plaintext: &mut [Block]) {
    let Schedule::Instructions(keys) = schedule else { return };
    let decrypt: unsafe fn(&RoundKeys, &Block, &[Block], &mut [Block]) = match keys.rounds {
        10 => decrypt::<10>,
        12 => decrypt::<12>,
        _ => decrypt::<14>,
    };
    // SAFETY: these loops are reached only where `detected` found the instructions
    unsafe { decrypt(keys, iv, ciphertext, plaintext) };
}

/// Registers of blocks that are decrypted together.
const SIDE_BY_SIDE: usize = 8;

/// Decrypts every block by itself, 32 at a time.
#[target_feature(enable = "avx512f,vaes,aes,sse4.1")]
fn decrypt<const R: usize>(keys: &RoundKeys, iv: &Block, ciphertext: &[Block], plaintext: &mut [Block]) {
    let mut before = *iv;
    let (groups, _) = ciphertext.as_chunks::<{ QUAD * SIDE_BY_SIDE }>();
    let (outputs, _) = plaintext.as_chunks_mut::<{ QUAD * SIDE_BY_SIDE }>();
    let done = groups.len().min(outputs.len()) * QUAD * SIDE_BY_SIDE;
    for (group, output) in groups.iter().zip(outputs) {
        let mut previous = [Quad([[0; 16]; QUAD]); SIDE_BY_SIDE];
        let mut x = [_mm512_setzero_si512(); SIDE_BY_SIDE];
        previous[0].0 = [before, group[0], group[1], group[2]];
        for (quad, previous) in previous.iter_mut().enumerate().skip(1) {
            previous.0.copy_from_slice(&group[QUAD * quad - 1..QUAD * quad + QUAD - 1]);
        }
        for (x, blocks) in x.iter_mut().zip(group.as_chunks::<QUAD>().0) {
            // SAFETY: four blocks are 64 bytes
            let blocks = unsafe { _mm512_loadu_si512(blocks.as_ptr().cast()) };
            *x = _mm512_xor_si512(blocks, _mm512_broadcast_i32x4(of_bytes(&keys.decrypt[0])));
        }
        for key in &keys.decrypt[1..R] {
            let key = _mm512_broadcast_i32x4(of_bytes(key));
            for x in &mut x {
                *x = _mm512_aesdec_epi128(*x, key);
            }
        }
        let key = _mm512_broadcast_i32x4(of_bytes(&keys.decrypt[R]));
        for ((x, previous), output) in x.iter().zip(&previous).zip(output.as_chunks_mut::<QUAD>().0) {
            // SAFETY: four blocks are 64 bytes on a boundary of 64
            let previous = unsafe { _mm512_load_si512(previous.0.as_ptr().cast()) };
            let whole = _mm512_xor_si512(_mm512_aesdeclast_epi128(*x, key), previous);
            // SAFETY: four blocks are 64 bytes
            unsafe { _mm512_storeu_si512(output.as_mut_ptr().cast(), whole) };
        }
        before = group[QUAD * SIDE_BY_SIDE - 1];
    }
    for (block, output) in ciphertext[done..].iter().zip(&mut plaintext[done..]) {
        let mut x = _mm_xor_si128(of_bytes(block), of_bytes(&keys.decrypt[0]));
        for key in &keys.decrypt[1..R] {
            x = _mm_aesdec_si128(x, of_bytes(key));
        }
        *output = to_bytes(_mm_xor_si128(_mm_aesdeclast_si128(x, of_bytes(&keys.decrypt[R])), of_bytes(&before)));
        before = *block;
    }
}
