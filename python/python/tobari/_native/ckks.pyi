from ..ckks import Ciphertext as Ciphertext
from ..ckks import EvaluationKeys as EvaluationKeys
from ..ckks import FloodBudget as FloodBudget
from ..ckks import Parameters as Parameters
from ..ckks import PublicKey as PublicKey
from ..ckks import Refresh as Refresh
from ..ckks import RefreshKeys as RefreshKeys
from ..ckks import SecretKey as SecretKey

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
