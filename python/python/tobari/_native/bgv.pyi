from ..bgv import Ciphertext as Ciphertext
from ..bgv import EvaluationKeys as EvaluationKeys
from ..bgv import Parameters as Parameters
from ..bgv import PublicKey as PublicKey
from ..bgv import SecretKey as SecretKey

__all__ = ["Ciphertext", "EvaluationKeys", "Parameters", "PublicKey", "SecretKey"]
