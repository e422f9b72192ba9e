"""What would be done where, and why.

>>> from tobari import plan
>>> found = plan.infer(protect=["data"])
>>> found.steps[0].layer, found.steps[0].site
('conv1', 'enclave')
>>> print(found)                                                # doctest: +ELLIPSIS
conv1...

Plans are decided before anything runs, because nothing that runs depends on what is secret. The text is that of `tobari plan`, which measures what steps cost where this module does not.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Dict, Optional, Sequence, Tuple

from ._native import plan as _plan

__all__ = ["InferPlan", "MemoryPlan", "Relaxation", "Step", "infer", "matrix", "search", "sense"]


@dataclass(frozen=True)
class Step:
    """A layer of a network."""

    layer: str
    #: In which form it is done.
    way: str
    #: Where: in a plain process, or in an enclave.
    site: str
    #: What becomes of the data before it, if anything does.
    conversion: Optional[str]
    moving_seconds: float
    seconds: float


@dataclass(frozen=True)
class Relaxation:
    """A requirement that costs something."""

    gives_up: str
    #: Of the plan without it.
    seconds: float


@dataclass(frozen=True)
class InferPlan:
    """Where each layer of a network is done."""

    protect: str
    seconds: float
    steps: Tuple[Step, ...]
    #: What could be given up, the dearest requirement first.
    relaxations: Tuple[Relaxation, ...]
    text: str

    def __str__(self) -> str:
        return self.text.strip()


@dataclass(frozen=True)
class MemoryPlan:
    """What of a job lies in memory when."""

    job: str
    #: Bytes for values.
    memory: int
    #: Bytes of all inputs.
    inputs: int
    program_steps: int
    steps: int
    #: Steps that are done a second time.
    again: int
    #: Bytes that move from and to the tier.
    read: int
    written: int
    #: Most bytes of values at a time.
    peak: int
    #: Bytes in the tier at the end.
    kept: int
    text: str

    def __str__(self) -> str:
        return self.text.strip()


def infer(
    protect: Sequence[str] = ("data", "model"),
    side_channels: bool = False,
    active_host: bool = False,
    reset: str = "none",
    enclave: bool = True,
) -> InferPlan:
    """The cheapest place and form of each layer of the paper's network, by the paper's costs, that what is to be protected allows.

    `protect` names `data`, `model` and `integrity`; `reset` is `none`, `masked` or `plain`. Raises `tobari.Error` where there is no plan, with what would have to be given up for one.
    """
    text, explained = _plan.infer(list(protect), side_channels, active_host, reset, enclave)
    found: Dict[str, Any] = json.loads(text)
    steps = tuple(Step(**step) for step in found["steps"])
    relaxations = tuple(Relaxation(**way) for way in found["relaxations"])
    return InferPlan(found["protect"], found["seconds"], steps, relaxations, explained)


def matrix(vectors: int, diagonals: int, memory: int, cores: int = 1) -> MemoryPlan:
    """Encrypted vectors times a matrix of so many diagonals, within so many bytes for values: the reference job of `tobari plan memory`.

    Costs are not measured here, so that steps and bytes are the plan's, and seconds in its text are assumed, as it says.
    """
    return _paged(*_plan.matrix_product(vectors, diagonals, memory, cores))


def search(memory: int, length: int = 5, haplotypes: int = 2184, places: int = 1, cores: int = 1) -> MemoryPlan:
    """The paper's search of so many encrypted alleles, within so many bytes for values: the job of `tobari plan search`, which is not how `tobari.search` searches. As `matrix`."""
    return _paged(*_plan.search(length, haplotypes, places, memory, cores))


def sense(memory: int, cores: int = 1) -> MemoryPlan:
    """A batch of frames decrypted from AES-128 under encryption, within so many bytes for values: the job of `tobari plan sense`. As `matrix`."""
    return _paged(*_plan.sense(memory, cores))


def _paged(text: str, explained: str) -> MemoryPlan:
    found: Dict[str, Any] = json.loads(text)
    return MemoryPlan(text=explained, **found)
