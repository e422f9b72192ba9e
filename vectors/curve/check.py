#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks every line of every known-answer file beside it with schoolbook arithmetic.

    python3 check.py [DIRECTORY]

Affine chord-and-tangent formulas on plain integers; the standard library alone. It shares nothing with make.c, with
OpenSSL or with the project's own code but parameters.json, whose curves it checks first. Exits 1 at any mismatch, and
where a curve's file is absent or lacks a case that ../README.md promises.
"""

import hashlib
import json
import pathlib
import re
import sys
from collections import Counter
from dataclasses import dataclass, field

# How many records of each kind NAME.txt has at least.
AT_LEAST = {"mul": 91, "add": 29, "var": 10, "sec1": 8, "off": 8, "nosqrt": 8, "elgamal": 13}
INF = None


class Mismatch(Exception):
    pass


def require(condition, what):
    if not condition:
        raise Mismatch(what)


# ---- The curve: y^2 = x^3 + ax + b over the integers modulo p, a point is (x, y) or INF ----


@dataclass
class Curve:
    name: str
    p: int
    a: int
    b: int
    g: tuple
    n: int

    def width(self):
        return (self.p.bit_length() + 7) // 8

    def right_side(self, x):
        return (x**3 + self.a * x + self.b) % self.p

    def contains(self, point):
        if point is INF:
            return True
        x, y = point
        return 0 <= x < self.p and 0 <= y < self.p and y * y % self.p == self.right_side(x)

    def negate(self, point):
        return INF if point is INF else (point[0], -point[1] % self.p)

    def add(self, left, right):
        if left is INF:
            return right
        if right is INF:
            return left
        (x1, y1), (x2, y2) = left, right
        if x1 == x2 and (y1 + y2) % self.p == 0:
            return INF
        if left == right:
            slope = (3 * x1 * x1 + self.a) * pow(2 * y1, -1, self.p)
        else:
            slope = (y2 - y1) * pow(x2 - x1, -1, self.p)
        x3 = (slope * slope - x1 - x2) % self.p
        return x3, (slope * (x1 - x3) - y1) % self.p

    def times(self, k, point):
        """Right to left, for any integer k >= 0: k is not reduced modulo n."""
        result = INF
        while k:
            if k & 1:
                result = self.add(result, point)
            point = self.add(point, point)
            k >>= 1
        return result


def is_prime(candidate):
    """Miller-Rabin to the first 40 primes as bases."""
    small = [q for q in range(2, 174) if all(q % d for d in range(2, q))]
    if any(candidate % q == 0 for q in small):
        return candidate in small
    odd, twos = candidate - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in small:
        x = pow(base, odd, candidate)
        if x != 1 and all(pow(x, 2**i, candidate) != candidate - 1 for i in range(twos)):
            return False
    return True


def read_curves(path):
    """The distinct curves by name; entries with the parameters of an earlier one are its other names."""
    curves = {}
    for entry in json.loads(path.read_text()):
        p, a, b, gx, gy, n = (int(entry[key], 16) for key in ("p", "a", "b", "gx", "gy", "n"))
        curve = Curve(entry["name"], p, a, b, (gx, gy), n)
        require(entry["bits"] == p.bit_length(), f"{curve.name}: bits")
        require(entry["security_bits"] == n.bit_length() // 2, f"{curve.name}: security_bits")
        if not any((c.p, c.a, c.b, c.g, c.n) == (p, a, b, curve.g, n) for c in curves.values()):
            check_curve(curve)
            curves[curve.name] = curve
    return curves


def check_curve(c):
    require(is_prime(c.p) and is_prime(c.n), f"{c.name}: p or n is not prime")
    require((4 * c.a**3 + 27 * c.b**2) % c.p != 0, f"{c.name}: singular")
    require(c.contains(c.g), f"{c.name}: the generator is not on the curve")
    require(c.times(c.n, c.g) is INF, f"{c.name}: n times the generator is not the identity")
    # The number of points is within 2 sqrt(p) of p + 1 (Hasse). n is, and 4 sqrt(p) < n, so it is n: the cofactor is 1.
    require((c.n - c.p - 1) ** 2 <= 4 * c.p and 16 * c.p < c.n**2, f"{c.name}: cofactor")


def draw(c, use, counter):
    labels = (f"tobari/vectors/curve/1 {c.name} {use} {counter} {block}" for block in (0, 1))
    return 1 + int.from_bytes(b"".join(hashlib.sha256(label.encode()).digest() for label in labels), "big") % (c.n - 1)


# ---- Fields ----


def scalar(c, text):
    require(re.fullmatch("0|[1-9a-f][0-9a-f]*", text), f"not a scalar: {text}")
    require(int(text, 16) <= c.n, f"scalar above n: {text}")
    return int(text, 16)


def decimal(text):
    require(re.fullmatch("0|-?[1-9][0-9]*", text), f"not a decimal: {text}")
    return int(text)


def coordinate(c, text):
    require(re.fullmatch(f"[0-9a-f]{{{2 * c.width()}}}", text), f"not a coordinate of {c.width()} bytes: {text}")
    return int(text, 16)


def pair(c, text):
    require(text.count(",") == 1, f"not a pair: {text}")
    x, y = text.split(",")
    return coordinate(c, x), coordinate(c, y)


def point(c, text):
    if text == "inf":
        return INF
    require(c.contains(pair(c, text)), f"not on the curve: {text}")
    return pair(c, text)


# ---- Records: each function takes the curve and the fields, and returns what `seen` collects ----


def check_mul(c, k, result):
    k, result = scalar(c, k), point(c, result)
    require(c.times(k, c.g) == result, "K*G is another point")
    return k


def check_add(c, left, right, result):
    left, right, result = point(c, left), point(c, right), point(c, result)
    require(c.add(left, right) == result, "the sum is another point")
    return left, right


def check_var(c, k, base, result):
    k, base, result = scalar(c, k), point(c, base), point(c, result)
    require(base not in (INF, c.g), "the base is the identity or the generator")
    require(c.times(k, base) == result, "K times the point is another point")
    return k, base


def check_sec1(c, affine, compressed, uncompressed):
    x, y = affine.split(",")
    require(point(c, affine) is not INF, "the identity")
    require(compressed == ("03" if int(y, 16) % 2 else "02") + x, "compressed encoding")
    require(uncompressed == "04" + x + y, "uncompressed encoding")
    return pair(c, affine)


def check_off(c, affine):
    require(not c.contains(pair(c, affine)), "on the curve")
    return pair(c, affine)


def check_nosqrt(c, x):
    x = coordinate(c, x)
    require(x < c.p, "x is not below p")
    require(pow(c.right_side(x), (c.p - 1) // 2, c.p) == c.p - 1, "x has a point")
    return x


def check_elgamal(c, key, r, m, s_point, r_point):
    key, r, m = scalar(c, key), scalar(c, r), decimal(m)
    s_point, r_point = point(c, s_point), point(c, r_point)
    require(0 < key < c.n and 0 < r < c.n, "key or randomness out of range")
    message = c.times(abs(m), c.g) if m >= 0 else c.negate(c.times(-m, c.g))
    require(r_point == c.times(r, c.g), "R is not rP")
    require(s_point == c.add(message, c.times(r, c.times(key, c.g))), "S is not mP + r(sP)")
    require(c.add(s_point, c.negate(c.times(key, r_point))) == message, "S - sR is not mP")
    return key, r, m


CHECKS = {
    "mul": check_mul, "add": check_add, "var": check_var, "sec1": check_sec1,
    "off": check_off, "nosqrt": check_nosqrt, "elgamal": check_elgamal,
}  # fmt: skip
FIELDS = {"mul": 2, "add": 3, "var": 3, "sec1": 3, "off": 1, "nosqrt": 1, "elgamal": 5}


# ---- The cases that NAME.txt must hold ----


@dataclass
class Seen:
    records: dict = field(default_factory=lambda: {kind: [] for kind in CHECKS})

    def counts(self):
        return {kind: len(records) for kind, records in self.records.items()}


def check_cases(c, seen, generators):
    n, records = c.n, seen.records
    for kind, least in AT_LEAST.items():
        require(len(records[kind]) >= least, f"{len(records[kind])} {kind} records, expected {least} or more")
        require(len(set(records[kind])) == len(records[kind]), f"a {kind} record stands twice")
    edges = {*range(21), n, n - 1, n - 2, n - 3, (n - 1) // 2, (n + 1) // 2}
    edges |= {2**i + d for i in (6, 8, 12, 126) for d in (-1, 0, 1)}
    edges |= {2**i for i in (31, 32, 63, 64, 127, 128, 159, 160, 191, 192, 255, 256, 319, 320, 383) if 2**i < n}
    edges |= {draw(c, "mul", i) for i in range(32)}
    require(edges <= set(records["mul"]), "mul lacks a case")
    check_add_cases(c, records["add"])
    require({0, 1, 2, n - 2, n - 1, n} <= {k for k, _ in records["var"]}, "var lacks a case")
    require({y % 2 for _, y in records["sec1"]} == {0, 1}, "sec1 lacks a parity")
    check_off_cases(c, records["off"], generators)
    messages = {0, 1, -1, 12345, -12345, 32767, 32768, -32768, 2**25, -(2**25)}
    require(messages <= {m for _, _, m in records["elgamal"]}, "elgamal lacks a message")
    require({1, n - 1} <= {r for _, r, _ in records["elgamal"]}, "elgamal lacks a case of r")
    require(1 in {key for key, _, _ in records["elgamal"]}, "elgamal lacks a case of the key")


def check_add_cases(c, pairs):
    finite = [(left, right) for left, right in pairs if left is not INF and right is not INF]
    cases = {
        "P+P": any(left == right for left, right in finite),
        "P+(-P)": any(left == c.negate(right) for left, right in finite),
        "P+inf": any(left is not INF and right is INF for left, right in pairs),
        "inf+P": any(left is INF and right is not INF for left, right in pairs),
        "inf+inf": (INF, INF) in pairs,
        "G+2G": (c.g, c.add(c.g, c.g)) in pairs,
        "equal y": any(l[1] == r[1] and l[0] != r[0] for l, r in finite),
        "opposite y": any((l[1] + r[1]) % c.p == 0 and l[0] != r[0] for l, r in finite),
        "random": all((c.times(draw(c, "add-left", i), c.g), c.times(draw(c, "add-right", i), c.g)) in pairs
                      for i in range(16)),
    }  # fmt: skip
    for case, present in cases.items():
        require(present, f"add lacks {case}")


def check_off_cases(c, pairs, generators):
    def reduces(x, y):
        return c.contains((x % c.p, y % c.p))

    def squares(value):
        return pow(value, (c.p - 1) // 2, c.p) == 1

    require(any(x >= c.p and reduces(x, y) for x, y in pairs), "off lacks x + p")
    require(any(y >= c.p and reduces(x, y) for x, y in pairs), "off lacks y + p")
    require((0, 0) in pairs, "off lacks zero and zero")
    require((c.g[0], (c.g[1] + 1) % c.p) in pairs, "off lacks the generator's y plus one")
    require(any((y * y - c.right_side(x)) % c.p == 1 for x, y in pairs), "off lacks a point for b + 1")
    require((draw(c, "off-order-2", 0) % c.p, 0) in pairs, "off lacks a point of order 2")
    require(any(not squares(c.right_side(x)) and y == c.g[1] for x, y in pairs), "off lacks an x without a point")
    require(generators & set(pairs), "off lacks another curve's generator")


# ---- Files ----


def check_line(c, line, seen):
    kind, *fields = line.split(" ")
    require(kind in CHECKS, f"unknown record: {kind}")
    require(len(fields) == FIELDS[kind], f"{kind} has {FIELDS[kind]} fields, found {len(fields)}")
    seen.records[kind].append(CHECKS[kind](c, *fields))


def check_file(c, path, generators):
    text = path.read_bytes().decode("ascii")
    require(text.endswith("\n") and "\r" not in text, "not lines that each end in a line feed")
    seen = Seen()
    for number, line in enumerate(text[:-1].split("\n"), 1):
        try:
            if not line.startswith("#"):
                check_line(c, line, seen)
        except (Mismatch, ValueError) as error:
            raise Mismatch(f"line {number}: {error}") from error
    if path.stem == c.name:
        check_cases(c, seen, generators)
    return seen.counts()


def check_all(directory, curves):
    """Checks NAME.txt of every curve and every later NAME-MORE.txt; returns how many files failed."""
    failed, total, generators = 0, Counter(), {c.g for c in curves.values()}
    for path in sorted({directory / f"{name}.txt" for name in curves} | set(directory.glob("*.txt"))):
        try:
            name = path.stem.split("-")[0]
            require(name in curves, f"no curve of the name {name}")
            counts = check_file(curves[name], path, generators)
            total.update(counts)
            print(f"{path.name}: ok:", " ".join(f"{kind} {count}" for kind, count in counts.items()))
        except (Mismatch, OSError, UnicodeError) as error:
            print(f"{path.name}: FAILED: {error}")
            failed += 1
    print("total:", " ".join(f"{kind} {count}" for kind, count in total.items()), f"in all {sum(total.values())}")
    return failed


def main(arguments):
    here = pathlib.Path(__file__).resolve().parent
    try:
        curves = read_curves(here / "parameters.json")
    except (Mismatch, OSError, ValueError, KeyError) as error:
        print(f"parameters.json: FAILED: {error}")
        return 1
    return 1 if check_all(pathlib.Path(arguments[0]) if arguments else here, curves) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
