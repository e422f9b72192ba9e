"""Plans of computations, with their reasons.

>>> from tobari import plan
>>> found = plan.infer(protect=["data"])
>>> found.steps[0].layer, found.steps[0].site
('conv1', 'enclave')
>>> print(found)                                                # doctest: +ELLIPSIS
conv1...

A plan is made before the run, because no step depends on secret data. The text is that of `tobari plan`, but that command
measures the costs of steps, and this module does not.
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
    #: The form of its computation.
    way: str
    #: The place: a plain process, or an enclave.
    site: str
    #: The change of the data before the layer, if there is one.
    conversion: Optional[str]
    moving_seconds: float
    seconds: float


@dataclass(frozen=True)
class Relaxation:
    """A requirement that costs something."""

    gives_up: str
    #: The cost of the plan without the requirement.
    seconds: float


@dataclass(frozen=True)
class InferPlan:
    """The place of each layer of a network."""

    protect: str
    seconds: float
    steps: Tuple[Step, ...]
    #: The requirements that could be given up, the most expensive first.
    relaxations: Tuple[Relaxation, ...]
    text: str

    def __str__(self) -> str:
        return self.text.strip()


@dataclass(frozen=True)
class MemoryPlan:
    """The use of memory during a job."""

    job: str
    #: Bytes for values.
    memory: int
    #: Bytes of all inputs.
    inputs: int
    program_steps: int
    steps: int
    #: Repeated steps.
    again: int
    #: Bytes moved from and to the tier.
    read: int
    written: int
    #: The most bytes of values at one time.
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
    """The cheapest allowed place and form of each layer of the paper's network, by the paper's costs.

    `protect` names `data`, `model` and `integrity`; `reset` is `none`, `masked` or `plain`. If there is no plan, raises
    `tobari.Error` with the requirements to give up.
    """
    text, explained = _plan.infer(list(protect), side_channels, active_host, reset, enclave)
    found: Dict[str, Any] = json.loads(text)
    steps = tuple(Step(**step) for step in found["steps"])
    relaxations = tuple(Relaxation(**way) for way in found["relaxations"])
    return InferPlan(found["protect"], found["seconds"], steps, relaxations, explained)


def matrix(vectors: int, diagonals: int, memory: int, cores: int = 1) -> MemoryPlan:
    """Encrypted vectors times a matrix, within `memory` bytes for values: the reference job of `tobari plan memory`.

    Costs are not measured here: steps and bytes are the plan's, and the text says that its seconds are assumed.
    """
    return _paged(*_plan.matrix_product(vectors, diagonals, memory, cores))


def search(memory: int, length: int = 5, haplotypes: int = 2184, places: int = 1, cores: int = 1) -> MemoryPlan:
    """The paper's search of encrypted alleles, within `memory` bytes for values: the job of `tobari plan search`. As `matrix`.

    `tobari.search` uses another algorithm.
    """
    return _paged(*_plan.search(length, haplotypes, places, memory, cores))


def sense(memory: int, cores: int = 1) -> MemoryPlan:
    """A batch of frames, decrypted from AES-128 under encryption within `memory` bytes for values: the job of `tobari plan sense`. As `matrix`."""
    return _paged(*_plan.sense(memory, cores))


def _paged(text: str, explained: str) -> MemoryPlan:
    found: Dict[str, Any] = json.loads(text)
    return MemoryPlan(text=explained, **found)
