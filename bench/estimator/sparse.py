"""Prints the lattice-estimator's costs of attacks on the key to a sparse secret.

Each line is one attack, as the base-2 logarithm of its operations. The secret has 32 coefficients of
-1 or 1, and the modulus is one data prime times one special prime.

    pip install passagemath-standard
    PYTHONPATH=LATTICE-ESTIMATOR python bench/estimator/sparse.py [DEGREE:BITS ...]

LATTICE-ESTIMATOR is a checkout of https://github.com/malb/lattice-estimator. Any Sage works in
place of the package.
"""

import sys
from math import log2

from estimator import LWE, ND, RC

WEIGHT = 32
ATTACKS = {
    "usvp": [],
    "bdd": [],
    "dual": [],
    "dual_hybrid": [],
    "bdd_hybrid": ["bdd"],
    "bdd_mitm_hybrid": ["bdd", "bdd_hybrid"],
}

for case in sys.argv[1:] or ["15:100", "16:100"]:
    log, bits = map(int, case.split(":"))
    degree = 2**log
    key = LWE.Parameters(
        n=degree,
        q=2**bits,
        Xs=ND.SparseTernary(WEIGHT // 2, WEIGHT // 2, n=degree),
        Xe=ND.DiscreteGaussian(3.2),
        m=2 * degree,
        tag=f"2^{log}, {bits} bits",
    )
    for attack, needed in ATTACKS.items():
        left_out = [other for other in [*ATTACKS, "bkw", "arora-gb"] if other not in (attack, *needed)]
        found = LWE.estimate(key, red_cost_model=RC.MATZOV, deny_list=left_out, quiet=True).get(attack)
        cost = float(found["rop"]) if found is not None else float("inf")
        cost = f"2^{log2(cost):.1f}" if cost < float("inf") else "-"
        print(f"{key.tag} {attack}: {cost}", flush=True)
