//! A second writer of sets, which checks nothing: it writes sets that an attacker with the key
//! could write, but this program cannot. It follows `book/src/reference/seal-format.md` and shares
//! no code with the product.

use ring::{aead, digest, hkdf, hmac};
use std::fs;
use std::path::Path;

pub(super) const FILE: u8 = 1;
pub(super) const FOLDER: u8 = 2;
pub(super) const LINK: u8 = 3;
const LIST: u8 = 5;
const MARK: u8 = 6;
/// The key of the set, and the key file that decrypts it.
const SET_KEY: [u8; 32] = [3; 32];
pub(super) const KEY_FILE: [u8; 32] = [9; 32];

/// An entry, as its record and the list describe it.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) kind: u8,
    pub(super) path: Vec<u8>,
    /// A file's bytes, or the target of a link.
    pub(super) content: Vec<u8>,
}

pub(super) fn item(kind: u8, path: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> Item {
    Item { kind, path: path.as_ref().to_vec(), content: content.as_ref().to_vec() }
}

struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn derive(salt: &[u8], secret: &[u8], name: &str, length: usize) -> Vec<u8> {
    let mut out = vec![0; length];
    let parts = [&b"tobari-seal/1/"[..], name.as_bytes()];
    let key = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(secret);
    key.expand(&parts, Length(length)).unwrap().fill(&mut out).unwrap();
    out
}

fn gcm(key: &[u8], nonce: [u8; 12], context: &[u8], text: &[u8]) -> Vec<u8> {
    let key = aead::LessSafeKey::new(aead::UnboundKey::new(&aead::AES_256_GCM, key).unwrap());
    let mut bytes = text.to_vec();
    key.seal_in_place_append_tag(aead::Nonce::assume_unique_for_key(nonce), aead::Aad::from(context), &mut bytes)
        .unwrap();
    bytes
}

fn hmac_of(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), &parts.concat()).as_ref().to_vec()
}

fn hash(parts: &[&[u8]]) -> Vec<u8> {
    digest::digest(&digest::SHA256, &parts.concat()).as_ref().to_vec()
}

fn piece(salt: &[u8], part: &str, context: &[u8], text: &[u8]) -> Vec<u8> {
    let mut nonce = [0; 12];
    nonce[..7].copy_from_slice(&derive(salt, &SET_KEY, &format!("{part} nonce"), 7));
    nonce[11] = 1;
    gcm(&derive(salt, &SET_KEY, &format!("{part} encrypt"), 32), nonce, context, text)
}

fn header(salt: &[u8], record: usize) -> Vec<u8> {
    let wrapping = derive(&[5; 32], &KEY_FILE, "wrap by key file", 32);
    let wrapped = gcm(&wrapping, [0; 12], b"tobari-seal/1/wrapped key", &SET_KEY);
    let stanza = [&[1, 0, 80][..], &[5; 32], &wrapped].concat();
    let mut head = [b"tobari-seal", &[1, 1, 16][..], salt].concat();
    head.extend_from_slice(&(record as u32).to_be_bytes());
    head.extend_from_slice(&(stanza.len() as u16).to_be_bytes());
    [head, stanza].concat()
}

fn record(item: &Item) -> Vec<u8> {
    let (has_length, bytes) = (matches!(item.kind, FILE | LINK), item.content.len() as u64);
    let mode: u32 = if item.kind == FOLDER { 0o755 } else { 0o644 };
    let mut out = vec![item.kind];
    out.extend_from_slice(&mode.to_be_bytes());
    out.extend_from_slice(&1_000_000_000_i64.to_be_bytes());
    out.extend_from_slice(&0_u32.to_be_bytes());
    out.extend_from_slice(&(if has_length { bytes } else { 0 }).to_be_bytes());
    out.extend_from_slice(&(item.path.len() as u16).to_be_bytes());
    out.extend_from_slice(&item.path);
    let ranges = u32::from(has_length && bytes > 0);
    out.extend_from_slice(&ranges.to_be_bytes());
    if ranges > 0 {
        out.extend_from_slice(&0_u64.to_be_bytes());
        out.extend_from_slice(&bytes.to_be_bytes());
    }
    out
}

/// A sealed file, and its MAC. The content is one chunk.
fn sealed(item: &Item, salt: [u8; 32]) -> (Vec<u8>, Vec<u8>) {
    let record = record(item);
    let head = header(&salt, record.len() + 16);
    let mac = hmac_of(&derive(&salt, &SET_KEY, "header", 32), &[&head]);
    let first = hash(&[b"tobari-seal/1/header", &head, &mac]);
    let record = piece(&salt, "meta", &first, &record);
    let context = hash(&[b"tobari-seal/1/context", &first, &record]);
    let chunk = piece(&salt, "content", &context, &item.content);
    let end = [&1_u32.to_be_bytes()[..], &(item.content.len() as u64).to_be_bytes()].concat();
    let trailer = piece(&salt, "trailer", &context, &end);
    let (number, length) = (0_u32.to_be_bytes(), (chunk.len() as u32).to_be_bytes());
    let parts: [&[u8]; 6] = [&first, &record, &number, &length, &chunk[chunk.len() - 16..], &trailer];
    let file = hmac_of(&derive(&salt, &SET_KEY, "file", 32), &parts);
    ([head, mac, record, chunk, trailer, file.clone()].concat(), file)
}

/// Writes a set of these entries, in this order, into a new folder.
pub(super) fn set(folder: &Path, items: &[Item]) {
    let mut list = Vec::new();
    for (number, item) in items.iter().enumerate() {
        let mut salt = [7; 32];
        salt[..8].copy_from_slice(&(number as u64).to_be_bytes());
        let (bytes, mac) = sealed(item, salt);
        // two entries with the same path are two files
        let tag = hmac_of(&derive(b"names", &SET_KEY, "output names", 32), &[&item.path]);
        let hex: String = tag[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        let mut name = format!("{}/{}.seal", &hex[..2], &hex[2..]);
        if folder.join(&name).exists() {
            name = format!("{}/{}{number:02x}.seal", &hex[..2], &hex[2..30]);
        }
        fs::create_dir_all(folder.join(&hex[..2])).unwrap();
        fs::write(folder.join(&name), bytes).unwrap();
        list.push(item.kind);
        for text in [&item.path[..], name.as_bytes()] {
            list.extend_from_slice(&(text.len() as u16).to_be_bytes());
            list.extend_from_slice(text);
        }
        list.extend_from_slice(&[&salt[..], &mac, &(item.content.len() as u64).to_be_bytes()].concat());
    }
    let of = |kind, content: &[u8], salt| sealed(&item(kind, b"", content), [salt; 32]).0;
    fs::write(folder.join("set.seal"), of(MARK, b"", 1)).unwrap();
    fs::write(folder.join("manifest.seal"), of(LIST, &list, 2)).unwrap();
}
