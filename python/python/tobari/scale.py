"""The same jobs on many machines: shards of a table, batches of images, cohorts of sensors.

Work is split into independent pieces, and each piece is a pure function of bytes. So the results do not depend on the
worker of a piece or on repetitions, and a piece whose worker died runs again. `Local` runs the pieces one after the other,
`Ray` sends them to the workers of a Ray cluster (`pip install ray`).

>>> from tobari import scale, search
>>> table = search.Table.from_keys([(b"%d" % number, 1 + number % 7) for number in range(1000)])
>>> client = search.Client()
>>> shards = scale.ShardedSearch(table.shards(3), scale.Local())
>>> [shards.ask(client, key=str(number)).count for number in (5, 6, 1000)]
[6, 7, None]

Workers see the same data as the server of the job, and no secret.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

from . import infer as _infer
from . import search as _search
from . import sense as _sense
from ._native import Error
from ._native import search as _native_search
from ._native import sense as _native_sense
from ._progress import Progress, shown

__all__ = ["Local", "Ray", "ShardedInfer", "ShardedSearch", "ShardedSense"]


class Local:
    """All pieces in this process, one after the other."""

    def put(self, value: Any) -> Any:
        """A value that many pieces need."""
        return value

    def map(self, function: Callable[..., Any], pieces: Iterable[Tuple[Any, ...]], progress: Progress = None) -> List[Any]:
        """Applies the function to each piece, in the order of the pieces."""
        pieces = list(pieces)
        results = []
        with shown(progress, "pieces") as tell:
            for piece in pieces:
                results.append(function(*piece))
                if tell is not None:
                    tell(len(results), len(pieces))
        return results


class Ray:
    """Pieces as tasks of a Ray cluster, spread over its nodes. A task whose worker or node dies runs again, at most `retries` times."""

    def __init__(self, retries: int = 3, cpus: float = 1.0) -> None:
        """Uses the cluster that `ray.init` connected to; `cpus` is the number of CPUs for a task."""
        try:
            import ray  # type: ignore[import-not-found,import-untyped,unused-ignore]
        except ImportError:
            raise Error("expected Ray (pip install ray), found none") from None
        if not ray.is_initialized():
            raise Error("expected a Ray cluster that ray.init has reached, found none")
        self._ray = ray
        self._options = {"max_retries": retries, "num_cpus": cpus, "scheduling_strategy": "SPREAD"}

    def put(self, value: Any) -> Any:
        """A value that many pieces need: it is kept in the cluster's store, and sent to each node once."""
        return self._ray.put(value)

    def map(self, function: Callable[..., Any], pieces: Iterable[Tuple[Any, ...]], progress: Progress = None) -> List[Any]:
        """Applies the function to each piece, in the order of the pieces."""
        remote = self._ray.remote(function).options(**self._options)
        tasks = [remote.remote(*piece) for piece in pieces]
        waiting = list(tasks)
        with shown(progress, "pieces") as tell:
            try:
                while waiting:
                    _, waiting = self._ray.wait(waiting, num_returns=1, timeout=0.5)
                    if tell is not None:
                        tell(len(tasks) - len(waiting), len(tasks))
            except BaseException:
                for task in waiting:
                    self._ray.cancel(task)
                raise
        results: List[Any] = self._ray.get(tasks)
        return results


#: Objects that a worker keeps for later pieces, by the data they were made of; the oldest is dropped first.
_KEPT: "OrderedDict[Tuple[str, ...], Any]" = OrderedDict()
_MOST_KEPT = 8


def _kept(key: Tuple[str, ...], make: Callable[[], Any]) -> Any:
    found = _KEPT.pop(key, None)
    if found is None:
        found = make()
    _KEPT[key] = found
    while len(_KEPT) > _MOST_KEPT:
        _KEPT.popitem(last=False)
    return found


def _hash(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def answer_shard(table: bytes, name: bytes, set: str, registration: bytes, query: bytes) -> bytes:
    """A worker's task: a shard's answer to a query. The server that receives queries keeps the budgets, not the worker."""
    most = (1 << 62, 1 << 62, (1 << 32) - 1, 1 << 40)

    def serve() -> Any:
        server = _native_search.Server(*most)
        server.serve(_search.Table.from_bytes(table))
        return server

    server: _native_search.Server = _kept(("search", _hash(table)), serve)
    server.register(name, set, registration)
    return server.answer(query)


class ShardedSearch:
    """A table in shards: each query goes to all shards, and their counts are added up.

    Shards are those of `Table.shards` (keys), or panels of the same sites and of different haplotypes.
    """

    def __init__(self, shards: Sequence[_search.Table], workers: Any) -> None:
        if not shards:
            raise Error("expected at least one shard, found none")
        if len({shard.kind for shard in shards}) > 1:
            raise Error("expected shards of one kind, found several")
        self._workers = workers
        self.catalogues = [_search.Catalogue(shard.told()) for shard in shards]
        if shards[0].kind != "keys" and any(catalogue.min_count > 1 for catalogue in self.catalogues):
            raise Error("expected shards of a panel without a least count, found one: a pattern that is rare in each shard may be common in all")
        self._tables = [workers.put(shard.to_bytes()) for shard in shards]

    def ask(self, client: _search.Client, progress: Progress = None, **question: Any) -> _search.Found:
        """Like `client.ask`, for all shards together."""
        return self.ask_all(client, [question], progress)[0]

    def ask_all(
        self, client: _search.Client, questions: Sequence[Dict[str, Any]], progress: Progress = None
    ) -> List[_search.Found]:
        """Asks many questions, each given as keyword arguments of `client.ask`. All shards of all questions are pieces of one job."""
        asked, pieces = [], []
        for question in questions:
            for catalogue, table in zip(self.catalogues, self._tables):
                prepared = client.prepare(catalogue, **question)
                key = client.key(prepared.set)
                asked.append((prepared, key))
                pieces.append((table, client.name, key.set, key.registration, prepared.query(key, client.name)))
        answers = self._workers.map(answer_shard, pieces, progress)
        found = [prepared.read(key, answer) for (prepared, key), answer in zip(asked, answers)]
        size = len(self._tables)
        return [_added(found[start : start + size]) for start in range(0, len(found), size)]


def _added(found: Sequence[Tuple[bool, Optional[int], Optional[int]]]) -> _search.Found:
    """The combined answer of the shards."""
    here = [one for one in found if one[0]]
    if not here:
        return _search.Found(False)
    longest = max((alleles for _, _, alleles in here if alleles is not None), default=None)
    # the count of the most alleles: shards with fewer matching alleles do not contribute
    counts = [count for _, count, alleles in here if count is not None and alleles == longest]
    return _search.Found(True, sum(counts) if counts else None, longest)


def answer_images(model: bytes, layout: Optional[str], set: str, keys: bytes, questions: List[bytes]) -> List[bytes]:
    """A worker's task: the answers to some questions under one client's keys. Each worker prepares model and keys once."""

    def ready() -> Any:
        service = _infer.Model.from_bytes(model).compile(layout, set).service()
        return service.session(keys)

    answers: List[bytes] = _kept(("infer", _hash(model, keys), str(layout), set), ready).run(questions)
    return answers


class ShardedInfer:
    """A model and a client's keys on every worker; questions in batches."""

    def __init__(
        self, model: _infer.Model, keys: bytes, workers: Any, layout: Optional[str] = None, set: str = "infer-f"
    ) -> None:
        self._workers, self._layout, self._set = workers, layout, set
        self._model, self._keys = workers.put(model.to_bytes()), workers.put(keys)

    def run(self, questions: Sequence[bytes], batch: int = 16, progress: Progress = None) -> List[bytes]:
        """Answers questions, in their order; a worker processes `batch` questions at a time."""
        if batch < 1:
            raise Error(f"expected a batch of at least 1, found {batch}")
        batches = [list(questions[start : start + batch]) for start in range(0, len(questions), batch)]
        pieces = [(self._model, self._layout, self._set, self._keys, one) for one in batches]
        return [answer for answers in self._workers.map(answer_images, pieces, progress) for answer in answers]


def answer_part(
    bundle: bytes,
    keys: Dict[str, bytes],
    secrets: Dict[str, bytes],
    asked: Tuple[str, str, int, bool],
    frames: bytes,
) -> Optional[bytes]:
    """A worker's task: the result of a question for a window's frames, or for one cohort's. Each worker prepares keys and secrets once."""
    id, order, start_ms, part = asked
    names = _hash(bundle, *(name.encode() for name in sorted([*keys, *secrets])))

    def ready() -> Any:
        return _native_sense.Server(bundle, {**keys, **secrets})

    # a server refuses repeated frames as replays: so each piece has a new server with the same keys and no frames
    server: _native_sense.Server = _kept(("sense", names), ready).fresh()
    server.order(id, order)
    server.take(frames, start_ms)
    return server.answer(id, start_ms, None, part)


class ShardedSense:
    """A fleet's server on many workers: the frames of each cohort of each window are a piece, and the results of cohorts are added up under encryption.

    A worker gets the encrypted secrets of the cohorts that it converts, and no others. The result equals that of a single server,
    so the key holder decrypts it as usual. A question with declared parts is not divided.
    """

    def __init__(self, bundle: bytes, objects: Dict[str, bytes], workers: Any) -> None:
        named = json.loads(bundle)
        self._raw, self._workers, self._bundle = bundle, workers, workers.put(bundle)
        self._keys = workers.put({name: objects[name] for name in named["keys"].values()})
        self._objects, self._names = objects, named["cohorts"]
        self._secrets: Dict[Optional[int], Any] = {}

    def _secret(self, cohort: Optional[int]) -> Any:
        """The shared value with the secrets of a cohort, or of all cohorts."""
        if cohort not in self._secrets:
            names = sum(self._names, []) if cohort is None else self._names[cohort]
            self._secrets[cohort] = self._workers.put({name: self._objects[name] for name in names})
        return self._secrets[cohort]

    def answers(
        self, windows: Sequence[Tuple[_sense.Question, int, _sense.Frames]], progress: Progress = None
    ) -> List[Optional[bytes]]:
        """The results of windows, each given as question, start, and all frames of the window. None if too few devices have frames."""
        pieces: List[Tuple[Any, ...]] = []
        cohorts: List[List[Optional[int]]] = []
        for asked, start, frames in windows:
            parts = self._parts(asked, frames)
            cohorts.append([cohort for cohort, _ in parts])
            for cohort, part in parts:
                named = (asked.id, asked.order, start, cohort is not None)
                pieces.append((self._bundle, self._keys, self._secret(cohort), named, part))
        found = iter(self._workers.map(answer_part, pieces, progress))
        results: List[Optional[bytes]] = []
        for (asked, _, _), divided in zip(windows, cohorts):
            answers = [next(found) for _ in divided]
            there = [answer for answer in answers if answer is not None]
            whole = None in divided or not there
            results.append(answers[0] if whole and answers else self._merged(asked, there))
        return results

    def _merged(self, asked: _sense.Question, parts: List[bytes]) -> Optional[bytes]:
        return _native_sense.merge_parts(self._raw, asked.order, parts) if parts else None

    def _parts(self, asked: _sense.Question, frames: _sense.Frames) -> List[Tuple[Optional[int], bytes]]:
        joined = _sense._joined(frames)
        if json.loads(asked.order).get("part") is not None:
            return [(None, joined)]
        return list(_native_sense.split_frames(self._raw, joined).items())
