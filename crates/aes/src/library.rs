//! The loops of the `aes` crate: chains of one key side by side, one block of each at a time.

use super::{AesError, BLOCK_BYTES, CbcMessage, Schedule, last_block};
use aes::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Aes192, Aes256};

type Block = aes::Block;

/// The highest number of chains side by side.
const MAX_LANES: usize = 32;

/// The keys of the crate, which wipes them when they are dropped.
pub(super) enum LibraryKey {
    Short(Box<Aes128>),
    Middle(Box<Aes192>),
    Long(Box<Aes256>),
}

impl LibraryKey {
    pub(super) fn new(key: &[u8]) -> Result<Self, AesError> {
        let wrong = |_| AesError::KeyLength(key.len());
        match key.len() {
            16 => Aes128::new_from_slice(key).map(|key| Self::Short(Box::new(key))).map_err(wrong),
            24 => Aes192::new_from_slice(key).map(|key| Self::Middle(Box::new(key))).map_err(wrong),
            _ => Aes256::new_from_slice(key).map(|key| Self::Long(Box::new(key))).map_err(wrong),
        }
    }

    fn encrypt_blocks(&self, blocks: &mut [Block]) {
        match self {
            Self::Short(key) => key.encrypt_blocks(blocks),
            Self::Middle(key) => key.encrypt_blocks(blocks),
            Self::Long(key) => key.encrypt_blocks(blocks),
        }
    }

    fn decrypt_blocks(&self, blocks: &mut [Block]) {
        match self {
            Self::Short(key) => key.decrypt_blocks(blocks),
            Self::Middle(key) => key.decrypt_blocks(blocks),
            Self::Long(key) => key.decrypt_blocks(blocks),
        }
    }
}

pub(super) fn decrypt_cbc(
    schedule: &Schedule,
    iv: &super::Block,
    ciphertext: &[super::Block],
    plaintext: &mut [super::Block],
) {
    #[allow(irrefutable_let_patterns, reason = "where there are no AES instructions, there is no other kind of key")]
    let Schedule::Library(key) = schedule else { return };
    let mut before = *iv;
    for (from, to) in ciphertext.chunks(MAX_LANES).zip(plaintext.chunks_mut(MAX_LANES)) {
        let mut blocks = [Block::default(); MAX_LANES];
        let blocks = &mut blocks[..from.len()];
        for (block, from) in blocks.iter_mut().zip(from) {
            *block = Array(*from);
        }
        key.decrypt_blocks(blocks);
        for ((to, block), from) in to.iter_mut().zip(blocks).zip(from) {
            *to = exclusive_or(block.0, before);
            before = *from;
        }
    }
}

fn exclusive_or(a: [u8; BLOCK_BYTES], b: [u8; BLOCK_BYTES]) -> [u8; BLOCK_BYTES] {
    (u128::from_ne_bytes(a) ^ u128::from_ne_bytes(b)).to_ne_bytes()
}

/// Encrypts messages. Neighbours under one key run side by side.
pub(super) fn encrypt(mut messages: &mut [CbcMessage<'_>], lanes: usize) {
    while let Some(first) = messages.first() {
        let key = first.key;
        let together = |message: &&CbcMessage<'_>| std::ptr::eq(message.key, key);
        let count = messages.iter().take(lanes.min(MAX_LANES)).take_while(together).count();
        let (group, rest) = messages.split_at_mut(count);
        #[allow(
            irrefutable_let_patterns,
            reason = "where there are no AES instructions, there is no other kind of key"
        )]
        if let Schedule::Library(key) = &key.schedule {
            encrypt_group(key, group);
        }
        messages = rest;
    }
}

/// Sorts the longest first, so that messages with blocks left are always the first ones.
fn encrypt_group(key: &LibraryKey, group: &mut [CbcMessage<'_>]) {
    group.sort_unstable_by_key(|message| std::cmp::Reverse(message.plaintext.len()));
    let mut chains = [Block::default(); MAX_LANES];
    for (chain, message) in chains.iter_mut().zip(group.iter()) {
        *chain = Array(*message.iv);
    }
    let blocks = group.first().map_or(0, |message| message.ciphertext.len() / BLOCK_BYTES);
    let mut active = group.len();
    for at in 0..blocks {
        while active > 0 && group[active - 1].ciphertext.len() / BLOCK_BYTES <= at {
            active -= 1;
        }
        for (chain, message) in chains[..active].iter_mut().zip(group.iter()) {
            let block = message.plaintext.as_chunks().0.get(at).copied();
            chain.0 = exclusive_or(chain.0, block.unwrap_or_else(|| last_block(message.plaintext)));
        }
        key.encrypt_blocks(&mut chains[..active]);
        for (chain, message) in chains[..active].iter().zip(group.iter_mut()) {
            if let Some(block) = message.ciphertext.as_chunks_mut().0.get_mut(at) {
                *block = chain.0;
            }
        }
    }
}
