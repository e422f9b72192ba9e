"""What the lattice-estimator says of a device's frames: one attack a line, as the base-2 logarithm of its operations.

    pip install passagemath-standard
    PYTHONPATH=LATTICE-ESTIMATOR python bench/estimator/frames.py

LATTICE-ESTIMATOR is a checkout of https://github.com/malb/lattice-estimator; any Sage will do for the package.
"""

from math import log2

from estimator import LWE, ND, RC

# the estimator compares a hybrid attack with the plain one, which has to be estimated with it
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

for name, n, q in (("p1", 768, 65_537), ("u25", 1024, 33_292_289)):
    noise = ND.CenteredBinomial(3)
    # four times what a device may seal
    frame = LWE.Parameters(n=n, q=q, Xs=noise, Xe=noise, m=2**40, tag=name)
    for attack, needed in ATTACKS.items():
        left_out = [other for other in ATTACKS if other not in (attack, *needed)]
        found = LWE.estimate(frame, red_cost_model=RC.MATZOV, deny_list=left_out, quiet=True)[attack]
        print(f"{name} {attack}: 2^{log2(found['rop']):.2f} ({found!r})", flush=True)
    found = LWE.arora_gb(frame)
    print(f"{name} arora-gb, nothing guessed: 2^{log2(found['rop']):.2f} ({found!r})", flush=True)
