"""Vectors of approximate numbers under encryption (CKKS).

>>> import numpy as np
>>> from tobari import ckks
>>> secret = ckks.SecretKey(ckks.Parameters("ckks-a"))
>>> keys = secret.evaluation_keys(sums=4)
>>> x = secret.encrypt(np.array([0.5, 1.5, -2.0]), range=2, keys=keys)
>>> secret.decrypt(x * x * 0.5, bits=10)
array([0.125, 1.125, 2.   ])
>>> secret.decrypt((x * x).sum(), bits=10)
array([6.5])

`range` declares the largest absolute value of the numbers (1 if nothing is said). Operations refuse results that could
be too large for the modulus, instead of giving wrong ones.

A person who sees a ciphertext and its exact decryption can compute the key. `decrypt(..., bits=...)` returns only as many
bits as the purpose needs: this limits the damage, but proves nothing. `decrypt(..., flood=...)` hides the error, with
a proof, within a `FloodBudget`.
"""

from ._native import ckks as _ckks

Ciphertext = _ckks.Ciphertext
EvaluationKeys = _ckks.EvaluationKeys
FloodBudget = _ckks.FloodBudget
Parameters = _ckks.Parameters
PublicKey = _ckks.PublicKey
Refresh = _ckks.Refresh
RefreshKeys = _ckks.RefreshKeys
SecretKey = _ckks.SecretKey

__all__ = [
    "Ciphertext",
    "EvaluationKeys",
    "FloodBudget",
    "Parameters",
    "PublicKey",
    "Refresh",
    "RefreshKeys",
    "SecretKey",
]
