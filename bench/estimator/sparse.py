"""Prints the lattice-estimator's costs of attacks on the key to a sparse secret.

Each line is one attack, as the base-2 logarithm of its operations. The secret has 32 coefficients of
-1 or 1, and the modulus is one data prime times one special prime. `-`: the attack on a whole
lattice of this degree costs more than the estimator computes.

    pip install passagemath-standard
    PYTHONPATH=LATTICE-ESTIMATOR python bench/estimator/sparse.py [DEGREE:BITS ...]

LATTICE-ESTIMATOR is a checkout of https://github.com/malb/lattice-estimator. Any Sage works in
place of the package.
"""

import sys
from math import log2

from estimator import LWE, ND, RC
from estimator.lwe_dual import dual_hybrid

WEIGHT = 32
PRIMAL = {"usvp": [], "bdd": [], "bdd_hybrid": ["bdd"], "bdd_mitm_hybrid": ["bdd", "bdd_hybrid"]}
OTHERS = ["dual", "dual_hybrid", "bkw", "arora-gb"]


def show(tag, attack, found):
    cost = float(found["rop"]) if found is not None else float("inf")
    print(f"{tag} {attack}: " + (f"2^{log2(cost):.1f}" if cost < float("inf") else "-"), flush=True)


for case in sys.argv[1:] or ["16:100"]:
    log, bits = map(int, case.split(":"))
    degree, tag = 2**log, f"2^{log}, {bits} bits"
    key = LWE.Parameters(
        n=degree,
        q=2**bits,
        Xs=ND.SparseTernary(WEIGHT // 2, WEIGHT // 2, n=degree),
        Xe=ND.DiscreteGaussian(3.2),
        m=2 * degree,
    )
    found = dual_hybrid(key, red_cost_model=RC.MATZOV, mitm_optimization=True)
    show(tag, "dual_mitm_hybrid", found)
    for attack, needed in PRIMAL.items():
        left_out = [other for other in [*PRIMAL, *OTHERS] if other not in (attack, *needed)]
        found = LWE.estimate(key, red_cost_model=RC.MATZOV, deny_list=left_out, quiet=True)
        show(tag, attack, found.get(attack))
