"""Answers of OpenFHE for the tests of BGV and CKKS: run it with a folder for the files. Elements are written by
coefficients, modulo each prime. Its randomness is new in each run."""

import json
import sys

import openfhe as fhe


def found(tree, name):
    """All values of this name, in their order."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key == name:
                yield value
            yield from found(value, name)
    elif isinstance(tree, list):
        for value in tree:
            yield from found(value, name)


def reverse(number, bits):
    return int(format(number, f"0{bits}b")[::-1], 2)


def coefficients(values, prime, root):
    """The inverse of the transform: place i has the value at root^(2 rev(i) + 1)."""
    degree, log = len(values), len(values).bit_length() - 1
    half = pow(2, -1, prime)
    level = list(values)
    # undo x_i, x_i+d -> x_i + w x_i+d, x_i - w x_i+d, from the last stage to the first
    for stage in range(log - 1, -1, -1):
        blocks, width = 1 << stage, degree >> (stage + 1)
        for block in range(blocks):
            inverse = pow(root, -reverse(blocks + block, log), prime)
            start = 2 * width * block
            for i in range(start, start + width):
                a, b = level[i], level[i + width]
                level[i], level[i + width] = (a + b) * half % prime, (a - b) * half * inverse % prime
    return level


def towers(element, roots):
    """The coefficients of an element in JSON, one list for each prime."""
    rows = []
    for tower in element["v"]:
        vector = tower["v"]["ptr_wrapper"]["data"]
        prime = vector["m"]["v"]
        values = vector["v"]
        # format 0 is that of values
        rows.append(coefficients(values, prime, roots[prime]) if tower["f"] == 0 else values)
    return rows


def primes_of(text):
    """The primes and OpenFHE's roots of order 2N, from the parameters in a serialised object."""
    elements = next(found(json.loads(text), "elp"))["ptr_wrapper"]["data"]["p"]
    towers = [one["ptr_wrapper"]["data"]["value0"] for one in elements]
    return {one["cm"]["v"]: one["ru"]["v"] for one in towers}


def special(degree, primes):
    """A prime for our evaluation keys."""
    def is_prime(n):
        return all(pow(base, n - 1, n) == 1 for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37))
    candidate = 2**40 - 2 * degree + 1
    while not is_prime(candidate) or candidate in primes:
        candidate -= 2 * degree
    return candidate


class File:
    def __init__(self, path, context, keys):
        self.out, self.context, self.keys = open(path, "w"), context, keys
        text = fhe.Serialize(keys.secretKey, fhe.JSON)
        self.roots = primes_of(text)
        degree = context.GetRingDimension()
        primes = list(self.roots)
        self.out.write(f"degree {degree}\nprimes {' '.join(map(str, [*primes, special(degree, primes)]))}\n")
        element = next(tree for tree in found(json.loads(text), "s"))
        row = towers(element, self.roots)[0]
        centred = [value - primes[0] if value > primes[0] // 2 else value for value in row]
        assert set(centred) == {-1, 0, 1}
        self.out.write(f"secret {','.join(map(str, centred))}\n")

    def ciphertext(self, name, ciphertext):
        data = json.loads(fhe.Serialize(ciphertext, fhe.JSON))["value0"]["ptr_wrapper"]["data"]
        parts = ["".join(f"{x:010x}" for row in towers(part, self.roots) for x in row) for part in data["v"]]
        level = len(data["v"][0]["v"])
        self.out.write(f"ciphertext {name} {level} {ciphertext.GetScalingFactorInt()} {' '.join(parts)}\n")

    def slots(self, name, slots):
        self.out.write(f"slots {name} {','.join(map(str, slots))}\n")


def context(parameters, degree):
    parameters.SetSecurityLevel(fhe.SecurityLevel.HEStd_NotSet)
    parameters.SetRingDim(degree)
    parameters.SetScalingTechnique(fhe.ScalingTechnique.FIXEDMANUAL)
    parameters.SetKeySwitchTechnique(fhe.KeySwitchTechnique.HYBRID)
    parameters.SetMultiplicativeDepth(2)
    made = fhe.GenCryptoContext(parameters)
    for feature in (fhe.PKESchemeFeature.PKE, fhe.PKESchemeFeature.KEYSWITCH, fhe.PKESchemeFeature.LEVELEDSHE):
        made.Enable(feature)
    keys = made.KeyGen()
    made.EvalMultKeyGen(keys.secretKey)
    made.EvalRotateKeyGen(keys.secretKey, [1, 2, -5])
    return made, keys


def write_all(file, cc, a, b):
    product = cc.EvalMultNoRelin(a, b)
    relinearised = cc.EvalMult(a, b)
    file.ciphertext("fresh-a", a)
    file.ciphertext("fresh-b", b)
    file.ciphertext("product", product)
    file.ciphertext("relinearised", relinearised)
    for step in (1, 2, -5):
        file.ciphertext(f"rotated{step}", cc.EvalRotate(a, step))
    return relinearised


def exact(path, degree, t, whole):
    parameters = fhe.CCParamsBGVRNS()
    parameters.SetPlaintextModulus(t)
    parameters.SetFirstModSize(40)
    parameters.SetScalingModSize(40)
    cc, keys = context(parameters, degree)
    file = File(path, cc, keys)
    file.out.write(f"modulus {t}\n")
    half = t // 2
    a = [(i * i * 7 + i * 3) % t - half for i in range(degree)]
    b = [half - (i * 11 + 5) % t for i in range(degree)]
    a, b = (cc.Encrypt(keys.publicKey, cc.MakePackedPlaintext(slots)) for slots in (a, b))
    if not whole:
        file.ciphertext("product-rotated-5", cc.ModReduce(cc.EvalRotate(cc.ModReduce(cc.EvalMult(a, b)), -5)))
        return
    switched = cc.ModReduce(write_all(file, cc, a, b))
    file.ciphertext("switched", switched)
    plaintext = cc.Decrypt(switched, keys.secretKey)
    plaintext.SetLength(degree)
    file.slots("switched", plaintext.GetPackedValue())


def approximate(path, degree, whole):
    parameters = fhe.CCParamsCKKSRNS()
    parameters.SetFirstModSize(40)
    parameters.SetScalingModSize(30)
    cc, keys = context(parameters, degree)
    file = File(path, cc, keys)

    def of(i, period, phase):
        return (i * 13 + phase) % period / period * 2 - 1
    a = [of(i, 101, 0) for i in range(degree // 2)]
    b = [of(i, 97, 3) for i in range(degree // 2)]
    a, b = (cc.Encrypt(keys.publicKey, cc.MakeCKKSPackedPlaintext(slots)) for slots in (a, b))
    if not whole:
        rotated = cc.EvalRotate(cc.Rescale(cc.EvalMult(a, b)), -5)
        file.ciphertext("product-rotated-5", cc.LevelReduce(rotated, None, 1))
        return
    file.ciphertext("rescaled", cc.Rescale(write_all(file, cc, a, b)))


if __name__ == "__main__":
    folder = sys.argv[1]
    exact(f"{folder}/openfhe-bgv-64.txt", 64, 257, True)
    exact(f"{folder}/openfhe-bgv-16384.txt", 1 << 14, 65537, False)
    approximate(f"{folder}/openfhe-ckks-64.txt", 64, True)
    approximate(f"{folder}/openfhe-ckks-16384.txt", 1 << 14, False)
