"""Statistics over sensors whose readings the server never sees.

>>> import tempfile
>>> from pathlib import Path
>>> from tobari import sense
>>> schema = {"profile": "u25", "channel": [{"name": "temperature", "least": -40, "step": 0.5, "edges": [0, 20]}]}
>>> question = {"name": "climate", "window": {"length": "1m"}, "statistic": [
...     {"kind": "mean", "channel": "temperature"}, {"kind": "histogram", "channel": "temperature"}]}

The key holder takes devices in, says what may be known, and gives the server what it computes with:

>>> holder = sense.KeyHolder(schema)
>>> folder = Path(tempfile.mkdtemp())
>>> devices = {name: holder.device(name, folder / name) for name in ["attic", "cellar", "hall", "kitchen", "office"]}
>>> asked = holder.register(question)
>>> server = sense.Server(*holder.bundle())
>>> server.order(asked)

Devices seal readings into frames; the server computes; the key holder opens:

>>> readings = {"attic": 31.5, "cellar": 12, "hall": 19, "kitchen": 22.5, "office": 21}
>>> for name, reading in readings.items():
...     counts = server.take(devices[name].seal([[reading]]), time_ms=60_000)
>>> result = server.answer(asked, 60_000)
>>> assert result is not None                   # it is where too few devices have frames
>>> release = holder.open(asked, 60_000, result)
>>> round(release.rows()[0]["value"], 6), release.rows()[1]["counts"]
(21.2, [0, 2, 3])

Schemas and questions are those of `tobari sense` (its TOML as a dictionary), and `Remote` is a `tobari serve --sense`. **The server is trusted to compute what it was told**, and a device may say anything.
"""

from __future__ import annotations

import hashlib
import json
import ssl
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple, Union

from . import _files, _http
from ._native import Error, Withheld
from ._native import sense as _sense
from ._progress import Progress

Device = _sense.Device

__all__ = ["Device", "Frames", "KeyHolder", "Question", "Release", "Remote", "Server"]

Frames = Union[bytes, Iterable[bytes]]
Json = Union[str, Mapping[str, Any]]


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _joined(frames: Frames) -> bytes:
    return bytes(frames) if isinstance(frames, (bytes, bytearray)) else b"".join(frames)


def _now() -> int:
    return time.time_ns() // 1_000_000


class Question(NamedTuple):
    """A question that is registered."""

    #: Its name between key holder and server.
    id: str
    #: What the server is told: numbers of devices, and no name. JSON.
    order: str
    #: What the key holder keeps. JSON.
    registered: str

    @property
    def name(self) -> str:
        """What releases are called."""
        return str(json.loads(self.registered)["question"]["name"])


@dataclass(frozen=True)
class Release:
    """What an analyst is given of a window: figures of groups, exact beside their value."""

    question: str
    id: str
    start_ms: int
    end_ms: int
    groups: List[Dict[str, Any]]
    too_few: List[str]
    left_out: int

    @classmethod
    def from_json(cls, text: str) -> "Release":
        return cls(**json.loads(text))

    def rows(self) -> List[Dict[str, Any]]:
        """A row for each figure of each group, all with the same columns."""
        columns = ("kind", "statistic", "channel", "value", "exact", "edges", "counts", "threshold", "count", "alarm")
        about = {"question": self.question, "start_ms": self.start_ms, "end_ms": self.end_ms}
        rows = []
        for group in self.groups:
            whose = {name: group[name] for name in ("group", "devices", "frames")}
            rows += [{**about, **whose, **{c: figure.get(c) for c in columns}} for figure in group["figures"]]
        return rows

    def to_pandas(self) -> Any:
        """`rows` as a data frame, with times as timestamps. Needs pandas (`pip install pandas`)."""
        import pandas  # type: ignore[import-untyped,unused-ignore]

        frame = pandas.DataFrame(self.rows())
        for column in ("start", "end"):
            frame[column] = pandas.to_datetime(frame.pop(f"{column}_ms"), unit="ms", utc=True)
        return frame

    def to_arrow(self) -> Any:
        """`rows` as a table of Arrow. Needs pyarrow (`pip install pyarrow`)."""
        import pyarrow  # type: ignore[import-untyped,unused-ignore]

        time_type, counts = pyarrow.timestamp("ms", tz="UTC"), pyarrow.list_(pyarrow.int64())
        types = {
            "question": pyarrow.string(),
            "start_ms": time_type,
            "end_ms": time_type,
            "group": pyarrow.string(),
            "devices": pyarrow.int64(),
            "frames": pyarrow.int64(),
            "kind": pyarrow.string(),
            "statistic": pyarrow.string(),
            "channel": pyarrow.string(),
            "value": pyarrow.float64(),
            "exact": pyarrow.string(),
            "edges": pyarrow.list_(pyarrow.float64()),
            "counts": counts,
            "threshold": pyarrow.float64(),
            "count": pyarrow.int64(),
            "alarm": pyarrow.bool_(),
        }
        rows = self.rows()
        return pyarrow.table({name: pyarrow.array([row[name] for row in rows], type=of) for name, of in types.items()})


class KeyHolder:
    """Whoever holds the only key that opens results: devices' secrets, questions, releases.

    One with a folder (`save`, `load`) keeps what changes there: devices, questions, and what became of each result, so that none is opened again after a restart. The folder is that of `tobari sense`.
    """

    def __init__(self, schema: Json) -> None:
        """With a new key, for a fleet whose readings mean what the schema says."""
        self._adopt(_sense.KeyHolder(_text(schema)))

    def _adopt(self, holder: _sense.KeyHolder) -> None:
        self._holder = holder
        self._folder: Optional[Path] = None
        #: What is registered, by the name of the question.
        self.questions: Dict[str, Question] = {}

    @classmethod
    def load(cls, folder: _files.PathLike) -> "KeyHolder":
        """The one of a folder of `save`, or of `tobari sense keygen`, with its questions."""
        folder = Path(folder)
        card = json.loads((folder / "fleet.json").read_text())
        key, registry = (folder / "holder.key").read_bytes(), (folder / "devices").read_bytes()
        holder = cls.__new__(cls)
        holder._adopt(_sense.KeyHolder.from_parts(key, registry, json.dumps(card["schema"])))
        if holder.fleet != card["fleet"]:
            raise Error("expected the card of this folder's key, found another's")
        for path in sorted((folder / "questions").glob("*.json")):
            asked = Question(*holder._holder.take_up(path.read_text()))
            holder.questions[asked.name] = asked
            for release in (folder / "releases" / asked.id).glob("*.json"):
                holder._holder.note_opened(asked.id, int(release.stem))
        holder._folder = folder
        return holder

    def save(self, folder: _files.PathLike) -> None:
        """Writes a new folder, whose files are secret, and keeps what changes there from now on."""
        folder = Path(folder)
        folder.mkdir(mode=0o700)
        for name in ("questions", "releases", "server"):
            (folder / name).mkdir(mode=0o700)
        _files.write(folder / "holder.key", self._holder.holder_bytes(), secret=True)
        _files.write(folder / "devices", self._holder.registry_bytes(), secret=True)
        _files.write(folder / "fleet.json", self.card().encode())
        self._folder = folder
        for question in self.questions.values():
            self._keep(question)

    def _keep(self, question: Question) -> None:
        if self._folder is not None:
            path = self._folder / "questions" / f"{question.id}.json"
            _files.write(path, question.registered.encode(), secret=True)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """While devices change: alone, from what is written to what is written then."""
        if self._folder is None:
            yield
            return
        import fcntl

        with open(self._folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._holder.take_up_registry((self._folder / "devices").read_bytes())
            yield
            _files.write(self._folder / "devices", self._holder.registry_bytes(), secret=True, replace=True)

    def __repr__(self) -> str:
        return f"<{self._holder!r}>"

    @property
    def fleet(self) -> str:
        """The fleet's name."""
        return self._holder.fleet

    def card(self) -> str:
        """What everybody may know of the fleet, as JSON."""
        return self._holder.card()

    def add(self, name: str, tenant: str = "") -> str:
        """Takes a device in: its token, secret. The server has to be given the bundle again."""
        with self._changing():
            return self._holder.add(name, tenant)

    def device(self, name: str, counter: _files.PathLike, tenant: str = "") -> Device:
        """Takes a device in, and is that device: for simulations. Its counter is a new file."""
        return Device(self.add(name, tenant), self._holder.schema(), str(counter), new=True)

    def open_device(self, token: str, counter: _files.PathLike, new: bool = False) -> Device:
        """The device of a token."""
        return Device(token, self._holder.schema(), str(counter), new=new)

    def rotate(self, name: str) -> str:
        """A new key for a device: its new token."""
        with self._changing():
            return self._holder.rotate(name)

    def revoke(self, name: str) -> int:
        """No more of this device: its number."""
        with self._changing():
            return self._holder.revoke(name)

    def devices(self) -> List[Tuple[str, int, str, str]]:
        """Name, number, state and tenant of every device."""
        return self._holder.devices()

    def register(self, question: Json) -> Question:
        """Registers a question with the devices that are active now.

        Raises `tobari.Error` if it might overflow with all of them at full scale.
        """
        asked = Question(*self._holder.register(_text(question)))
        if asked.name in self.questions and self.questions[asked.name].id != asked.id:
            raise Error(f"expected a question of a new name, found one that is the name of another: {asked.name}")
        if asked.name not in self.questions:
            self.questions[asked.name] = asked
            self._keep(asked)
        return asked

    def bundle(self, progress: Progress = None) -> Tuple[bytes, Dict[str, bytes]]:
        """What a server is given: a bundle, and objects by their SHA-256. Nothing in it decrypts."""
        return self._holder.bundle(progress)

    def open(self, question: Question, start_ms: int, result: bytes) -> Release:
        """Opens what a server says is the result of a question for the window that begins then: once, whatever comes of it.

        Raises `tobari.Withheld`, for every reason there is.
        """
        try:
            text = self._holder.open(question.id, start_ms, result)
        except Withheld:
            self._note(question.id, start_ms, json.dumps({"withheld": True, "id": question.id, "start_ms": start_ms}))
            raise
        self._note(question.id, start_ms, text)
        return Release.from_json(text)

    def _note(self, id: str, start_ms: int, text: str) -> None:
        """Keeps what became of a result: the first time, whatever that was."""
        if self._folder is None:
            return
        path = self._folder / "releases" / id / f"{start_ms}.json"
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if not path.exists():
            _files.write(path, text.encode(), secret=True)


class Server:
    """The half that has frames and no key, in memory. `tobari serve --sense` keeps frames on the disk."""

    def __init__(self, bundle: bytes, objects: Mapping[str, bytes]) -> None:
        self._server = _sense.Server(bundle, dict(objects))

    def __repr__(self) -> str:
        return f"<{self._server!r}>"

    @property
    def fleet(self) -> str:
        """The fleet's name."""
        return self._server.fleet

    def take(self, frames: Frames, time_ms: Optional[int] = None) -> Dict[str, int]:
        """Takes frames that came now, or at a time in milliseconds since 1970: how many are new, and how many were refused for which reason."""
        return self._server.take(_joined(frames), _now() if time_ms is None else time_ms)

    def counts(self) -> Dict[str, int]:
        """What became of all frames so far."""
        return self._server.counts()

    def order(self, question: Question) -> None:
        """Learns what to compute."""
        self._server.order(question.id, question.order)

    def windows(self, question: Question) -> List[int]:
        """When windows begin that have frames."""
        return sorted(self._server.windows(question.id))

    def answer(self, question: Question, start_ms: int, progress: Progress = None) -> Optional[bytes]:
        """The result for a window; none where too few devices have frames in it."""
        return self._server.answer(question.id, start_ms, progress)


class Remote:
    """A `tobari serve --sense`, over HTTP, for one fleet."""

    def __init__(
        self,
        url: str,
        fleet: str,
        token: Optional[str] = None,
        context: Optional[ssl.SSLContext] = None,
    ) -> None:
        self._connection = _http.Connection(url, token, context)
        self.fleet = fleet
        self._base = f"/sense/v1/fleets/{fleet}"

    def give(self, bundle: bytes, objects: Mapping[str, bytes]) -> int:
        """Gives the server what it lacks: how many objects there were."""
        known = self._connection.send(self._base)
        if known.refusal != "fleet" and known.json()["bundle"] == hashlib.sha256(bundle).hexdigest():
            return 0
        sent = 0
        for name, data in objects.items():
            has = self._connection.send(f"{self._base}/objects/{name}")
            if has.refusal == "object":
                self._connection.send(f"{self._base}/objects/{name}", data).good()
                sent += 1
            else:
                has.good()
        self._connection.send(self._base, bundle).good()
        return sent

    def take(self, frames: Frames) -> Dict[str, int]:
        """Sends frames: what became of them. They are on the server's disk then."""
        counts: Dict[str, int] = self._connection.send(f"{self._base}/frames", _joined(frames)).json()
        return counts

    def order(self, question: Question) -> None:
        """Tells the server what to compute."""
        self._connection.send(f"{self._base}/questions/{question.id}", question.order.encode()).good()

    def windows(self, question: Question) -> List[int]:
        """When windows began that have ended, have frames and were not fetched."""
        windows: List[int] = self._connection.send(f"{self._base}/questions/{question.id}/windows").json()["windows"]
        return windows

    def answer(self, question: Question, start_ms: int) -> Optional[bytes]:
        """The result for a window; none where too few devices have frames in it."""
        reply = self._connection.send(f"{self._base}/questions/{question.id}/windows/{start_ms}", b"")
        return None if reply.refusal == "empty" else reply.good().body

    def done(self, question: Question, start_ms: int) -> None:
        """Says that a result was fetched: the same whatever becomes of it."""
        path = f"{self._base}/questions/{question.id}/windows/{start_ms}"
        self._connection.send(path, method="DELETE").good()
