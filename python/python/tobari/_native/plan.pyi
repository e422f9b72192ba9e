from typing import Sequence, Tuple

__all__ = ["infer", "matrix_product", "search", "sense"]

def infer(
    protect: Sequence[str],
    side_channels: bool = False,
    active_host: bool = False,
    reset: str = "none",
    enclave: bool = True,
) -> Tuple[str, str]: ...
def matrix_product(vectors: int, diagonals: int, memory: int, cores: int = 1) -> Tuple[str, str]: ...
def search(length: int, haplotypes: int, places: int, memory: int, cores: int = 1) -> Tuple[str, str]: ...
def sense(memory: int, cores: int = 1) -> Tuple[str, str]: ...
