"""Known answers for CKKS from Microsoft SEAL, through TenSEAL 0.3.18: python tenseal_ckks.py FOLDER

SEAL's generator has a fixed seed, so that the output is the same to the byte. No file is written over."""

import sys
from pathlib import Path

import tenseal
import tenseal.sealapi as seal

DIGITS = 10  # primes have at most 40 bits
SCALE = 30
STEPS = [1, 2, -5]


def hexadecimal(words):
    return "".join(f"{word:0{DIGITS}x}" for word in words)


def numbers(slots):
    """Doubles as Python writes them: the shortest decimals that are read as the same bits."""
    return ",".join(f"{z.real!r}:{z.imag!r}" for z in map(complex, slots))


def new(kind, operation, *arguments):
    result = kind()
    operation(*arguments, result)
    return result


def make(path, degree, bits, keep, operations):
    parms = seal.EncryptionParameters(seal.SCHEME_TYPE.CKKS)
    parms.set_poly_modulus_degree(degree)
    parms.set_coeff_modulus(seal.CoeffModulus.Create(degree, bits))
    parms.set_random_generator(seal.Blake2xbPRNGFactory([degree, 2, 3, 4, 5, 6, 7, 8]))
    context = seal.SEALContext(parms, True, seal.SEC_LEVEL_TYPE.NONE)
    assert context.parameters_set()
    primes = [prime.value() for prime in parms.coeff_modulus()]
    keys = seal.KeyGenerator(context)
    public, relinearisation, galois = seal.PublicKey(), seal.RelinKeys(), seal.GaloisKeys()
    keys.create_public_key(public)
    keys.create_relin_keys(relinearisation)
    keys.create_galois_keys(STEPS + [0], galois)  # 0: the conjugation
    secret_key = keys.secret_key()  # named, because `secret` below refers to its memory
    encoder, evaluator = seal.CKKSEncoder(context), seal.Evaluator(context)
    encryptor, decryptor = seal.Encryptor(context, public), seal.Decryptor(context, secret_key)

    header = seal.Serialization.SEALHeader()
    version = f"{header.version_major}.{header.version_minor}"
    lines = [
        f"# made by tenseal_ckks.py: TenSEAL {tenseal.__version__}, Microsoft SEAL 4.3.3 (it says {version}); "
        "a toy that protects nothing",
        f"degree {degree}",
        f"primes {' '.join(map(str, primes))}",
    ]
    secret = secret_key.data()
    rows = [hexadecimal(secret[row * degree + i] for i in range(degree)) for row in range(keep)]
    lines.append(f"secret {' '.join(rows)}")

    inputs = {
        "a": [complex((37 * i % 101) / 64 - 0.75, (53 * i % 103) / 128 - 0.375) for i in range(degree // 2)],
        "b": [complex((29 * i % 97) / 64 - 0.625, 0.25 - (41 * i % 89) / 128) for i in range(degree // 2)],
    }
    ciphertexts = {}
    for name, slots in inputs.items():
        plaintext = new(seal.Plaintext, encoder.encode, slots, 2.0**SCALE)
        level = len(primes) - 1
        words = [plaintext[i] for i in range(plaintext.coeff_count())]
        assert plaintext.is_ntt_form() and len(words) == level * degree
        lines.append(f"slots {name} {numbers(slots)}")
        kept = min(level, keep)
        lines.append(f"plaintext {name} {kept} {SCALE} {hexadecimal(words[: kept * degree])}")
        ciphertexts[name] = new(seal.Ciphertext, encryptor.encrypt, plaintext)

    for name, ciphertext in operations(evaluator, relinearisation, galois, **ciphertexts):
        level, parts = ciphertext.coeff_modulus_size(), ciphertext.size()
        array = ciphertext.dyn_array()
        size = level * degree
        halves = [hexadecimal(array[part * size + i] for i in range(size)) for part in range(parts)]
        lines.append(f"ciphertext {name} {level} {ciphertext.scale!r} {' '.join(halves)}")
        decrypted = new(seal.Plaintext, decryptor.decrypt, ciphertext)
        lines.append(f"slots {name} {numbers(encoder.decode_complex(decrypted))}")
    with path.open("x") as file:
        file.write("\n".join(lines) + "\n")


def all_operations(evaluator, relinearisation, galois, a, b):
    product = new(seal.Ciphertext, evaluator.multiply, a, b)
    relinearised = new(seal.Ciphertext, evaluator.relinearize, product, relinearisation)
    rescaled = new(seal.Ciphertext, evaluator.rescale_to_next, relinearised)
    rotated = [(f"rotated{step}", new(seal.Ciphertext, evaluator.rotate_vector, a, step, galois)) for step in STEPS]
    conjugate = new(seal.Ciphertext, evaluator.complex_conjugate, a, galois)
    named = [("fresh-a", a), ("fresh-b", b), ("product", product), ("relinearised", relinearised)]
    return named + [("rescaled", rescaled), *rotated, ("conjugate", conjugate)]


def one_after_another(evaluator, relinearisation, galois, a, b):
    result = new(seal.Ciphertext, evaluator.multiply, a, b)
    evaluator.relinearize_inplace(result, relinearisation)
    evaluator.rescale_to_next_inplace(result)
    result = new(seal.Ciphertext, evaluator.rotate_vector, result, -5, galois)
    evaluator.mod_switch_to_next_inplace(result)
    return [("product-rotated-5", result)]


folder = Path(sys.argv[1])
make(folder / "seal-ckks-64.txt", 64, [40, 30, 30, 40], 4, all_operations)
make(folder / "seal-ckks-1024.txt", 1024, [40, 30, 30, 40], 1, one_after_another)
