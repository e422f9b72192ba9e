#!/usr/bin/env python3
"""Opens every sealed file of v1/ and age/ with an independent reader: Python's standard library; AES, GHASH, X25519 and ChaCha20-Poly1305 by their definitions.

Prints one line a file; exit 0 only if every file opens and has the content that its name promises.
"""

import base64
import hashlib
import hmac
import pathlib
import struct
import sys

KEY_FILE = bytes([7]) * 32
CONTENT = {"empty": 0, "short": 11, "chunks": 9000, "full": 8192, "sparse": 12, "link": 6, "folder": 0,
           "stream": 5000, "passphrase": 20}


# ---- AES, FIPS 197 ----
def times2(a):
    return (a << 1 ^ (0x11B if a & 0x80 else 0)) & 0xFF


def product(a, b):
    out = 0
    while b:
        if b & 1:
            out ^= a
        a, b = times2(a), b >> 1
    return out


def make_sbox():
    box = [0x63] * 256
    inverse = {a: b for a in range(1, 256) for b in range(1, 256) if product(a, b) == 1}
    for a in range(256):
        b = inverse.get(a, 0)
        out = 0x63
        for turn in range(5):
            out ^= (b << turn | b >> (8 - turn)) & 0xFF
        box[a] = out
    return box


SBOX = make_sbox()
INVERSE = [SBOX.index(a) for a in range(256)]
PRODUCTS = {k: [product(a, k) for a in range(256)] for k in (2, 3, 9, 11, 13, 14)}


def expand(key):
    words = [list(key[i:i + 4]) for i in range(0, len(key), 4)]
    count, constant = len(words), 1
    while len(words) < 4 * (count + 7):
        word = list(words[-1])
        if len(words) % count == 0:
            word = [SBOX[a] for a in word[1:] + word[:1]]
            word[0] ^= constant
            constant = times2(constant)
        elif count == 8 and len(words) % 8 == 4:
            word = [SBOX[a] for a in word]
        words.append([a ^ b for a, b in zip(word, words[-count])])
    return [sum(words[i:i + 4], []) for i in range(0, len(words), 4)]


def xor(a, b):
    return bytes(x ^ y for x, y in zip(a, b))


def encrypt_block(keys, block):
    state = [a ^ b for a, b in zip(block, keys[0])]
    for number, key in enumerate(keys[1:], 1):
        state = [SBOX[state[(i + 4 * (i % 4)) % 16]] for i in range(16)]
        if number < len(keys) - 1:
            mixed = []
            for c in range(0, 16, 4):
                a, b, d, e = state[c:c + 4]
                two, three = PRODUCTS[2], PRODUCTS[3]
                mixed += [two[a] ^ three[b] ^ d ^ e, a ^ two[b] ^ three[d] ^ e,
                          a ^ b ^ two[d] ^ three[e], three[a] ^ b ^ d ^ two[e]]
            state = mixed
        state = [a ^ b for a, b in zip(state, key)]
    return bytes(state)


def decrypt_block(keys, block):
    state = [a ^ b for a, b in zip(block, keys[-1])]
    for number in range(len(keys) - 2, -1, -1):
        state = [INVERSE[state[(i - 4 * (i % 4)) % 16]] for i in range(16)]
        state = [a ^ b for a, b in zip(state, keys[number])]
        if number:
            mixed = []
            for c in range(0, 16, 4):
                v = state[c:c + 4]
                for row in range(4):
                    mixed.append(PRODUCTS[14][v[row]] ^ PRODUCTS[11][v[(row + 1) % 4]]
                                 ^ PRODUCTS[13][v[(row + 2) % 4]] ^ PRODUCTS[9][v[(row + 3) % 4]])
            state = mixed
    return bytes(state)


# ---- GCM, SP 800-38D ----
def ghash(key, data):
    h, y = int.from_bytes(key, "big"), 0
    for i in range(0, len(data), 16):
        y ^= int.from_bytes(data[i:i + 16].ljust(16, b"\0"), "big")
        z, v = 0, h
        for bit in range(127, -1, -1):
            if y >> bit & 1:
                z ^= v
            v = v >> 1 ^ (0xE1 << 120 if v & 1 else 0)
        y = z
    return y.to_bytes(16, "big")


def pad(data):
    return data + bytes(-len(data) % 16)


def gcm_open(key, nonce, data, sealed):
    keys, (text, tag) = expand(key), (sealed[:-16], sealed[-16:])
    lengths = struct.pack(">QQ", 8 * len(data), 8 * len(text))
    digest = ghash(encrypt_block(keys, bytes(16)), pad(data) + pad(text) + lengths)
    if xor(digest, encrypt_block(keys, nonce + b"\0\0\0\1")) != tag:
        raise ValueError("tag")
    out = b""
    for i in range(0, len(text), 16):
        out += xor(text[i:i + 16], encrypt_block(keys, nonce + struct.pack(">I", 2 + i // 16)))
    return out


# ---- an age file with one X25519 recipient: age-encryption.org/v1, RFC 7748, RFC 8439 ----
CHARSET = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"


def identity(text):
    bits = "".join(format(CHARSET.index(c), "05b") for c in text.strip().lower().rsplit("1", 1)[1][:-6])
    return bytes(int(bits[i:i + 8], 2) for i in range(0, 256, 8))


def x25519(scalar, u):
    p, k = 2**255 - 19, int.from_bytes(scalar, "little")
    k = k & ~7 & (1 << 254) - 1 | 1 << 254
    x1 = int.from_bytes(u, "little") & (1 << 255) - 1
    x2, z2, x3, z3 = 1, 0, x1, 1
    for bit in range(254, -1, -1):
        if k >> bit & 1:
            x2, z2, x3, z3 = x3, z3, x2, z2
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        x3, z3 = (d * a + c * b)**2 % p, x1 * (d * a - c * b)**2 % p
        x2, z2 = a * a * b * b % p, (a * a - b * b) * (a * a + 121665 * (a * a - b * b)) % p
        if k >> bit & 1:
            x2, z2, x3, z3 = x3, z3, x2, z2
    return (x2 * pow(z2, p - 2, p) % p).to_bytes(32, "little")


def chacha(key, nonce, counter):
    state = list(struct.unpack("<4I", b"expand 32-byte k") + struct.unpack("<8I", key) + (counter,) + struct.unpack("<3I", nonce))
    x = state[:]
    for _ in range(10):
        for a, b, c, d in ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
                           (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)):
            for i, j, k, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                x[i] = x[i] + x[j] & 0xFFFFFFFF
                y = x[k] ^ x[i]
                x[k] = (y << turn | y >> (32 - turn)) & 0xFFFFFFFF
    return struct.pack("<16I", *(a + b & 0xFFFFFFFF for a, b in zip(x, state)))


def chacha_open(key, nonce, sealed):
    text, tag, once = sealed[:-16], sealed[-16:], chacha(key, nonce, 0)
    r, h = int.from_bytes(once[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF, 0
    for block in [pad(text)[i:i + 16] for i in range(0, len(pad(text)), 16)] + [struct.pack("<QQ", 0, len(text))]:
        h = (h + int.from_bytes(block + b"\1", "little")) * r % (2**130 - 5)
    if (h + int.from_bytes(once[16:32], "little")) % 2**128 != int.from_bytes(tag, "little"):
        raise ValueError("tag")
    return b"".join(xor(text[i:i + 64], chacha(key, nonce, 1 + i // 64)) for i in range(0, len(text), 64))


def expand_key(salt, secret, info):
    return hmac.digest(hmac.digest(salt or bytes(32), secret, "sha256"), info + b"\1", "sha256")


def age_open(file, secret):
    decode = lambda text: base64.b64decode(text + "=" * (-len(text) % 4))
    head, _, payload = file.partition(b"\n--- ")
    mac, payload = payload[:43], payload[44:]
    lines = head.decode().split("\n")
    assert lines[0] == "age-encryption.org/v1"
    at = next(i for i, line in enumerate(lines) if line.startswith("-> X25519 "))
    share = decode(lines[at].split()[2])
    public = x25519(secret, (9).to_bytes(32, "little"))
    wrap = expand_key(share + public, x25519(secret, share), b"age-encryption.org/v1/X25519")
    key = chacha_open(wrap, bytes(12), decode(lines[at + 1]))
    assert decode(mac.decode()) == hmac.digest(expand_key(b"", key, b"header"), head + b"\n---", "sha256")
    return chacha_open(expand_key(payload[:16], key, b"payload"), bytes(11) + b"\1", payload[16:])


# ---- the format ----
def derive(salt, secret, name, length):
    prk, out, block, count = hmac.digest(salt, secret, "sha256"), b"", b"", 1
    while len(out) < length:
        block = hmac.digest(prk, block + b"tobari-seal/1/" + name.encode() + bytes([count]), "sha256")
        out, count = out + block, count + 1
    return out[:length]


class Reader:
    def __init__(self, data):
        self.data = data
        fixed = struct.unpack(">11sBBB32sIH", data[:52])
        magic, version, self.suite, self.log2, self.salt, meta_bytes, stanza_bytes = fixed
        assert magic == b"tobari-seal" and version == 1 and self.suite in (1, 2) and 12 <= self.log2 <= 22
        self.header = data[:52 + stanza_bytes]
        mac = data[len(self.header):len(self.header) + 32]
        self.set = self.unwrap(self.header[52:])
        assert mac == hmac.digest(self.key("header"), self.header, "sha256")
        at = len(self.header) + 32
        digest = hashlib.sha256(b"tobari-seal/1/header" + self.header + mac).digest()
        sealed_meta = data[at:at + meta_bytes]
        self.meta = self.open_record("meta", digest, 0, True, sealed_meta)
        self.context = hashlib.sha256(b"tobari-seal/1/context" + digest + sealed_meta).digest()
        self.begin, self.at = digest + sealed_meta, at + meta_bytes

    def key(self, name, length=32):
        return derive(self.salt, self.set, name, length)

    @staticmethod
    def unwrap(stanzas):
        while stanzas:
            kind, length = struct.unpack(">BH", stanzas[:3])
            body, stanzas = stanzas[3:3 + length], stanzas[3 + length:]
            if kind == 1:
                wrap = derive(body[:32], KEY_FILE, "wrap by key file", 32)
                return gcm_open(wrap, bytes(12), b"tobari-seal/1/wrapped key", body[32:])
            if kind == 3:
                return age_open(body, identity((pathlib.Path(__file__).parent / "age/identity.txt").read_text()))
        raise ValueError("no stanza of a key file or a recipient")

    def open_record(self, name, context, number, last, sealed):
        place = struct.pack(">IB", number, last)
        if self.suite == 1:
            nonce = self.key(name + " nonce", 7) + place
            return gcm_open(self.key(name + " encrypt"), nonce, context, sealed)
        body, tag = sealed[:-32], sealed[-32:]
        if hmac.digest(self.key(name + " mac"), context + place + body, "sha256") != tag:
            raise ValueError("mac")
        keys, out = expand(self.key(name + " encrypt")), b""
        for i in range(16, len(body), 16):
            out += xor(decrypt_block(keys, body[i:i + 16]), body[i - 16:i])
        assert 1 <= out[-1] <= 16 and out.endswith(bytes([out[-1]]) * out[-1])
        return out[:-out[-1]]

    def sealed_bytes(self, length):
        return length + 16 if self.suite == 1 else 16 + length // 16 * 16 + 16 + 32

    def content(self):
        end = self.sealed_bytes(12) + 32
        full, tag = self.sealed_bytes(1 << self.log2), 16 if self.suite == 1 else 32
        mac, out, number, last = hmac.new(self.key("file"), self.begin, "sha256"), b"", 0, False
        while not last:
            last = len(self.data) - self.at <= full + end
            length = len(self.data) - self.at - end if last else full
            sealed = self.data[self.at:self.at + length]
            text = self.open_record("content", self.context, number, last, sealed)
            assert len(text) == 1 << self.log2 or last and (text or not number)
            mac.update(struct.pack(">II", number, length) + sealed[-tag:])
            self.at, number, out = self.at + length, number + 1, out + text
        record = self.data[self.at:-32]
        mac.update(record)
        assert mac.digest() == self.data[-32:]
        trailer = self.open_record("trailer", self.context, 0, True, record)
        assert trailer == struct.pack(">IQ", number, len(out))
        return out


def main():
    folder, right = pathlib.Path(__file__).parent / "v1", 0
    for path in sorted(folder.glob("*.seal")) + sorted((folder.parent / "age").glob("*.seal")):
        reader = Reader(path.read_bytes())
        length = CONTENT[path.stem.split("-", 1)[1]] if path.parent == folder else 700
        expected = bytes((31 * i + i // 251) % 256 for i in range(length))
        fits = reader.content() == expected
        right += fits
        print(f"{path.name}: {'right' if fits else 'WRONG'}, {length} bytes, {len(reader.meta)} about the source")
    return 0 if right == 20 else 1


sys.exit(main())
