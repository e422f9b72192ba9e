#!/usr/bin/env python3
"""The packaged OpenFHE on the task of `tobari-bench lattice`, on one thread.

    ./packaged.py SET [WHAT,WHAT...]   prints one JSON line for each operation, and nothing for an
                                       unknown set; bench/README.md has the shape of a line

Needs the package `openfhe`, which holds the current release of the library, compiled for all
processors and without HEXL. Parameters are those of `bench.cpp`. A call through Python costs about
a microsecond more than one in C++. The package has no decryption without decoding, so `open` is
both together, as elsewhere.
"""
import os

os.environ["OMP_NUM_THREADS"] = "1"
# glibc keeps memory, which makes the library faster; it reads this before the interpreter starts
TUNABLES = "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=4294967296"

import importlib.metadata
import json
import random
import statistics
import sys
import time

if os.environ.get("GLIBC_TUNABLES") != TUNABLES:
    os.environ["GLIBC_TUNABLES"] = TUNABLES
    os.execv(sys.executable, [sys.executable, *sys.argv])

import openfhe as fhe

SETS = {  # scheme, degree, primes, bits of all but the first, digits
    "A": ("ckks", 1 << 14, 6, 30, 3),
    "B": ("ckks", 1 << 15, 13, 49, 5),
    "C": ("bgv", 1 << 14, 6, 50, 3),
}
PLAIN_MODULUS = 65537
HOISTED = 8


def check(right, what):
    if not right:
        sys.exit(f"wrong: {what}")


class Bench:
    def __init__(self, name, wanted):
        self.name, self.wanted = name, wanted
        self.scheme, self.degree, self.primes, bits, self.digits = SETS[name]
        parameters = fhe.CCParamsBGVRNS() if self.scheme == "bgv" else fhe.CCParamsCKKSRNS()
        parameters.SetRingDim(self.degree)
        parameters.SetMultiplicativeDepth(self.primes - 1)
        parameters.SetFirstModSize(50)
        parameters.SetScalingModSize(bits)
        parameters.SetScalingTechnique(fhe.ScalingTechnique.FIXEDMANUAL)
        parameters.SetKeySwitchTechnique(fhe.KeySwitchTechnique.HYBRID)
        parameters.SetNumLargeDigits(self.digits)
        parameters.SetSecurityLevel(fhe.SecurityLevel.HEStd_128_classic)
        if self.scheme == "bgv":
            parameters.SetPlaintextModulus(PLAIN_MODULUS)
        else:
            parameters.SetBatchSize(self.degree // 2)
        self.context = fhe.GenCryptoContext(parameters)
        for feature in (fhe.PKE, fhe.KEYSWITCH, fhe.LEVELEDSHE):
            self.context.Enable(feature)
        check(self.context.GetRingDimension() == self.degree, "the ring")
        self.keys = self.context.KeyGen()
        self.context.EvalMultKeyGen(self.keys.secretKey)
        self.context.EvalRotateKeyGen(self.keys.secretKey, list(range(1, HOISTED + 1)))

    def measure(self, what, work, operations=1):
        if self.wanted and what not in self.wanted:
            return
        times = []
        while len(times) < 11 or (sum(times[2:]) < 2e8 and len(times) < 20000):
            start = time.perf_counter_ns()
            work()
            times.append(time.perf_counter_ns() - start)
        times = [ns / operations for ns in times[2:]]  # the first two warm up
        print(json.dumps({
            "job": "lattice", "what": what,
            "engine": f"openfhe {importlib.metadata.version('openfhe')} packaged",
            "params": {"set": self.name, "scheme": self.scheme, "n": self.degree,
                       "level": self.primes, "dnum": self.digits, "log_qp": 0},
            "backend": "packaged", "threads": 1, "unit": "ns",
            "median": statistics.median(times), "min": min(times), "max": max(times),
            "runs": len(times), "labels": [],
        }), flush=True)

    def run(self):
        context, keys = self.context, self.keys
        generator = random.Random(1)
        if self.scheme == "ckks":
            slots = self.degree // 2
            x, y = ([generator.uniform(-1, 1) for _ in range(slots)] for _ in range(2))
            encode = context.MakeCKKSPackedPlaintext
        else:
            slots, half = self.degree, PLAIN_MODULUS // 2
            x, y = ([generator.randint(-half, half) for _ in range(slots)] for _ in range(2))
            encode = context.MakePackedPlaintext
        plain, factor = encode(x), encode(y)

        def expect(ciphertext, what, value):
            opened = context.Decrypt(keys.secretKey, ciphertext)
            if self.scheme == "ckks":
                found = opened.GetRealPackedValue()
                right = all(abs(found[i] - value(i)) < 0.02 for i in range(slots))
            else:
                found = opened.GetPackedValue()
                right = all((found[i] - value(i)) % PLAIN_MODULUS == 0 for i in range(slots))
            check(right, what)

        def rotated(step):
            half = slots if self.scheme == "ckks" else slots // 2
            return lambda i: x[i // half * half + (i + step) % half]

        a = context.Encrypt(keys.publicKey, plain)
        b = context.Encrypt(keys.publicKey, factor)
        tensor = context.EvalMultNoRelin(a, b)
        relinearized = context.Relinearize(tensor)

        def rotate_hoisted():
            digits = context.EvalFastRotationPrecompute(a)
            for step in range(1, HOISTED + 1):
                out = context.EvalFastRotation(a, step, 2 * self.degree, digits)
            return out

        def mul():
            return context.ModReduce(context.EvalMult(a, b))

        expect(a, "encrypt_public", lambda i: x[i])
        expect(context.EvalAdd(a, b), "add", lambda i: x[i] + y[i])
        expect(context.EvalMult(a, factor), "mul_plain", lambda i: x[i] * y[i])
        expect(relinearized, "relinearize", lambda i: x[i] * y[i])
        expect(mul(), "mul", lambda i: x[i] * y[i])
        expect(context.EvalRotate(a, 1), "rotate", rotated(1))
        expect(rotate_hoisted(), "rotate_hoisted_8", rotated(HOISTED))

        total = context.EvalAdd(a, b)
        self.measure("encrypt_public", lambda: context.Encrypt(keys.publicKey, plain))
        self.measure("add", lambda: context.EvalAddInPlace(total, b))
        self.measure("mul_plain", lambda: context.EvalMult(a, factor))
        self.measure("tensor", lambda: context.EvalMultNoRelin(a, b))
        self.measure("mul", mul)
        self.measure("relinearize", lambda: context.Relinearize(tensor))
        self.measure("rescale", lambda: context.ModReduce(relinearized))
        self.measure("rotate", lambda: context.EvalRotate(a, 1))
        self.measure("rotate_hoisted_8", rotate_hoisted, HOISTED)
        self.measure("open", lambda: context.Decrypt(keys.secretKey, a))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(f"usage: {sys.argv[0]} SET [WHAT,WHAT...]")
    if sys.argv[1] in SETS:
        Bench(sys.argv[1], sys.argv[2].split(",") if len(sys.argv) == 3 else None).run()
