"""Vectors of integers under encryption (BGV): exact, modulo a prime.

>>> import numpy as np
>>> from tobari import bgv
>>> secret = bgv.SecretKey(bgv.Parameters("bgv-c"))
>>> keys = secret.evaluation_keys(rotations=[1], sums=8)
>>> x, y = secret.encrypt(np.arange(8), keys=keys), secret.public_key().encrypt([3] * 8)
>>> secret.decrypt(x * y - 1)
array([-1,  2,  5,  8, 11, 14, 17, 20])
>>> secret.decrypt((x * y).sum())
array([84])
>>> secret.decrypt(keys.rotate(x, 1))
array([1, 2, 3, 4, 5, 6, 7, 0])

A server has the parameters, the evaluation keys and ciphertexts, all as bytes, and nothing that
decrypts:

>>> def serve(request: bytes, evaluation_keys: bytes) -> bytes:
...     parameters = bgv.Parameters("bgv-c")
...     theirs = bgv.EvaluationKeys.from_bytes(parameters, evaluation_keys)
...     return theirs.rotate(bgv.Ciphertext.from_bytes(parameters, request), 1).to_bytes()
>>> result = serve(x.to_bytes(), keys.to_bytes())

Bytes prove nothing about their noise, so the client declares what it knows of the computation:

>>> expected = keys.rotate(x, 1).noise
>>> rotated = bgv.Ciphertext.from_bytes(bgv.Parameters("bgv-c"), result, noise=expected)
>>> secret.decrypt(rotated, count=3)
array([1, 2, 3])
"""

from ._native import bgv as _bgv

Ciphertext = _bgv.Ciphertext
EvaluationKeys = _bgv.EvaluationKeys
Parameters = _bgv.Parameters
PublicKey = _bgv.PublicKey
SecretKey = _bgv.SecretKey

__all__ = ["Ciphertext", "EvaluationKeys", "Parameters", "PublicKey", "SecretKey"]
