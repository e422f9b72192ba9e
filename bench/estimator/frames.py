"""Prints the lattice-estimator's costs of attacks on a device's frames.

Each line is one attack, as the base-2 logarithm of its operations.

    pip install passagemath-standard
    PYTHONPATH=LATTICE-ESTIMATOR python bench/estimator/frames.py [SAMPLES ...]

LATTICE-ESTIMATOR is a checkout of https://github.com/malb/lattice-estimator. Any Sage works in
place of the package. SAMPLES are powers of two; 40 is four times a device's limit. Beyond the first
number, only Arora-Ge is estimated, because the number matters most for it.
"""

import sys
from math import log2

from estimator import LWE, ND, RC

# the estimator compares a hybrid attack with the plain one, so both are estimated together
ATTACKS = {
    "usvp": [],
    "bdd": [],
    "dual": [],
    "dual_hybrid": [],
    "bdd_hybrid": ["bdd"],
    "bdd_mitm_hybrid": ["bdd", "bdd_hybrid"],
    "bkw": [],
    "arora-gb": [],
}

first, *others = map(int, sys.argv[1:] or ["40"])

for name, n, q in (("p1", 768, 65_537), ("u25", 1024, 33_292_289), ("u28", 1280, 268_042_241)):

    def frame(samples):
        noise = ND.CenteredBinomial(3)
        return LWE.Parameters(n=n, q=q, Xs=noise, Xe=noise, m=2**samples, tag=name)

    def estimate(samples, attack):
        left_out = [other for other in ATTACKS if other not in (attack, *ATTACKS[attack])]
        found = LWE.estimate(frame(samples), red_cost_model=RC.MATZOV, deny_list=left_out, quiet=True)[attack]
        print(f"{name}, 2^{samples} samples, {attack}: 2^{log2(found['rop']):.2f} ({found!r})", flush=True)

    for attack in ATTACKS:
        estimate(first, attack)
    found = LWE.arora_gb(frame(first))
    print(f"{name}, 2^{first} samples, arora-gb, nothing guessed: 2^{log2(found['rop']):.2f} ({found!r})", flush=True)
    for samples in others:
        estimate(samples, "arora-gb")
