"""Servers compute on data that they cannot see.

>>> import tobari
>>> from tobari import bgv
>>> secret = bgv.SecretKey(bgv.Parameters())
>>> secret.decrypt(secret.encrypt([1, 2, 3]) * 2 + 1, count=3)
array([3, 5, 7])

The modules: `bgv` and `ckks` (encrypted vectors), `infer`, `search` and `sense` (the jobs), `plan`, and `scale` (many machines).
"""

from __future__ import annotations

from . import bgv, ckks, infer, plan, scale, search, sense
from ._native import DecodeError, Error, Refused, Withheld, __version__, parameter_sets

__all__ = [
    "DecodeError",
    "Error",
    "Refused",
    "Withheld",
    "__version__",
    "bgv",
    "ckks",
    "infer",
    "parameter_sets",
    "plan",
    "scale",
    "search",
    "sense",
]
