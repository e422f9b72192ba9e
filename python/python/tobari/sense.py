"""Statistics over sensors whose readings the server never sees.

>>> import tempfile
>>> from pathlib import Path
>>> from tobari import sense
>>> schema = {"profile": "u25", "channel": [{"name": "temperature", "least": -40, "step": 0.5, "edges": [0, 20]}]}
>>> question = {"name": "climate", "window": {"length": "1m"}, "statistic": [
...     {"kind": "mean", "channel": "temperature"}, {"kind": "histogram", "channel": "temperature"}]}

The key holder adds devices, registers questions, and makes the data for the server:

>>> holder = sense.KeyHolder(schema)
>>> folder = Path(tempfile.mkdtemp())
>>> devices = {name: holder.device(name, folder / name) for name in ["attic", "cellar", "hall", "kitchen", "office"]}
>>> asked = holder.register(question)
>>> server = sense.Server(*holder.bundle())
>>> server.order(asked)

Devices seal readings into frames; the server computes; the key holder decrypts:

>>> readings = {"attic": 31.5, "cellar": 12, "hall": 19, "kitchen": 22.5, "office": 21}
>>> for name, reading in readings.items():
...     counts = server.take(devices[name].seal([[reading]]), time_ms=60_000)
>>> result = server.answer(asked, 60_000)
>>> assert result is not None                   # it is None if too few devices have frames
>>> release = holder.open(asked, 60_000, result)
>>> round(release.rows()[0]["value"], 6), release.rows()[1]["counts"]
(21.2, [0, 2, 3])

Schemas and questions are those of `tobari sense` (its TOML as a dictionary), and `Remote` is a `tobari serve --sense`. **The server is trusted to
compute as ordered**, and a malicious device may send any reading.
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
    """A registered question."""

    #: Its name between key holder and server.
    id: str
    #: The order for the server, as JSON: it has numbers of devices, and no names.
    order: str
    #: The key holder's file, as JSON.
    registered: str

    @property
    def name(self) -> str:
        """The name of its releases."""
        return str(json.loads(self.registered)["question"]["name"])

    @property
    def sheet(self) -> int:
        """The part of each row that it is about: 0, unless rows are longer than a frame."""
        return int(json.loads(self.order).get("sheet", 0))


def _key(question: Question) -> str:
    return f"{question.name}, sheet {question.sheet}" if question.sheet else question.name


def _places(figure: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The figure; the figures of a vector one by one, with the channel as `name[place]`."""
    if figure["kind"] != "vector":
        return [figure]
    statistic, channel = figure["statistic"], figure["channel"]
    both = enumerate(zip(figure["values"], figure["exact"]), figure["first"])
    return [
        {"kind": "number", "statistic": statistic, "channel": f"{channel}[{place}]", "value": value, "exact": exact}
        for place, (value, exact) in both
    ]


@dataclass(frozen=True)
class Release:
    """The result of a window for analysts: figures of groups, each with its exact form beside its value."""

    question: str
    id: str
    start_ms: int
    end_ms: int
    groups: List[Dict[str, Any]]
    too_few: List[str]
    left_out: int
    sheet: int = 0

    @classmethod
    def from_json(cls, text: str) -> "Release":
        return cls(**json.loads(text))

    def rows(self) -> List[Dict[str, Any]]:
        """A row for each figure of each group, and for each place of a vector, all with the same columns."""
        columns = ("kind", "statistic", "channel", "value", "exact", "edges", "counts", "threshold", "count", "alarm")
        about = {"question": self.question, "start_ms": self.start_ms, "end_ms": self.end_ms}
        rows = []
        for group in self.groups:
            whose = {name: group[name] for name in ("group", "devices", "frames")}
            for figure in (one for figure in group["figures"] for one in _places(figure)):
                rows.append({**about, **whose, **{c: figure.get(c) for c in columns}})
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
    """The key holder, with the only key that decrypts results: devices' secrets, questions, releases.

    A key holder with a folder (`save`, `load`) stores its changes there: devices, questions, and the outcome of each result, so
    that no result is decrypted again after a restart. The folder has the format of `tobari sense`.
    """

    def __init__(self, schema: Json) -> None:
        """A key holder with a new key, for a fleet with this schema."""
        self._adopt(_sense.KeyHolder(_text(schema)))

    def _adopt(self, holder: _sense.KeyHolder) -> None:
        self._holder = holder
        self._folder: Optional[Path] = None
        #: The registered questions, by name; those about sheets other than the first by `name, sheet N`.
        self.questions: Dict[str, Question] = {}

    @classmethod
    def load(cls, folder: _files.PathLike) -> "KeyHolder":
        """Loads a folder of `save`, or of `tobari sense keygen`, with its questions."""
        folder = Path(folder)
        card = json.loads((folder / "fleet.json").read_text())
        key, registry = (folder / "holder.key").read_bytes(), (folder / "devices").read_bytes()
        holder = cls.__new__(cls)
        holder._adopt(_sense.KeyHolder.from_parts(key, registry, json.dumps(card["schema"])))
        if holder.fleet != card["fleet"]:
            raise Error("expected the card of this folder's key, found another's")
        for path in sorted((folder / "questions").glob("*.json")):
            asked = Question(*holder._holder.take_up(path.read_text()))
            holder.questions[_key(asked)] = asked
            for release in (folder / "releases" / asked.id).glob("*.json"):
                holder._holder.note_opened(asked.id, int(release.stem))
        holder._folder = folder
        return holder

    def save(self, folder: _files.PathLike) -> None:
        """Writes a new folder with secret files, and stores all later changes there."""
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
        """Locks the folder for a change of devices: reads the stored devices before, and writes them after it."""
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
        """The public facts about the fleet, as JSON."""
        return self._holder.card()

    def add(self, name: str, tenant: str = "") -> str:
        """Adds a device; returns its secret token. Give the server the bundle again afterwards."""
        with self._changing():
            return self._holder.add(name, tenant)

    def device(self, name: str, counter: _files.PathLike, tenant: str = "") -> Device:
        """Adds a device and returns it, for simulations. Its counter is a new file."""
        return Device(self.add(name, tenant), self._holder.schema(), str(counter), new=True)

    def open_device(self, token: str, counter: _files.PathLike, new: bool = False) -> Device:
        """The device with this token."""
        return Device(token, self._holder.schema(), str(counter), new=new)

    def rotate(self, name: str) -> str:
        """Makes a new key for a device; returns its new token."""
        with self._changing():
            return self._holder.rotate(name)

    def revoke(self, name: str) -> int:
        """Revokes a device; returns its number."""
        with self._changing():
            return self._holder.revoke(name)

    def devices(self) -> List[Tuple[str, int, str, str]]:
        """Name, number, state and tenant of every device."""
        return self._holder.devices()

    def register(self, question: Json) -> Question:
        """Registers a question for the devices that are active now.

        Raises `tobari.Error` if sums could overflow with all devices at full scale, and if the question is about several frames of
        each row: `register_all` takes such a question.
        """
        return self._register(question, several=False)[0]

    def register_all(self, question: Json) -> List[Question]:
        """Registers a question that may be about several frames of each row: a question for each of them, in their order.

        Each has windows, answers and releases of its own. The release of a window is complete with the releases of all questions.
        Raises `tobari.Error` as `register`.
        """
        return self._register(question, several=True)

    def _register(self, question: Json, several: bool) -> List[Question]:
        all = [Question(*one) for one in self._holder.register(_text(question), several)]
        name, ids = all[0].name, {one.id for one in all}
        # an earlier call may have ended between two of them
        if not {one.id for one in self.questions.values() if one.name == name} <= ids:
            raise Error(f"the name is taken by another question: {name}; choose another name")
        for one in all:
            if _key(one) not in self.questions:
                self._keep(one)
                self.questions[_key(one)] = one
        return all

    def bundle(self, progress: Progress = None) -> Tuple[bytes, Dict[str, bytes]]:
        """The data for a server: a bundle, and objects by their SHA-256. It contains no key that decrypts."""
        return self._holder.bundle(progress)

    def open(self, question: Question, start_ms: int, result: bytes) -> Release:
        """Decrypts a server's result of a question for the window that begins at `start_ms`. Each window has one attempt, even if it fails.

        Raises `tobari.Withheld` if the result is not released, for any reason.
        """
        try:
            text = self._holder.open(question.id, start_ms, result)
        except Withheld:
            self._note(question.id, start_ms, json.dumps({"withheld": True, "id": question.id, "start_ms": start_ms}))
            raise
        self._note(question.id, start_ms, text)
        return Release.from_json(text)

    def _note(self, id: str, start_ms: int, text: str) -> None:
        """Stores the outcome of a result; only the first attempt counts."""
        if self._folder is None:
            return
        path = self._folder / "releases" / id / f"{start_ms}.json"
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if not path.exists():
            _files.write(path, text.encode(), secret=True)


class Server:
    """The server's half, in memory: it has frames and no key. `tobari serve --sense` keeps frames on the disk."""

    def __init__(self, bundle: bytes, objects: Mapping[str, bytes]) -> None:
        self._server = _sense.Server(bundle, dict(objects))

    def __repr__(self) -> str:
        return f"<{self._server!r}>"

    @property
    def fleet(self) -> str:
        """The fleet's name."""
        return self._server.fleet

    def take(self, frames: Frames, time_ms: Optional[int] = None) -> Dict[str, int]:
        """Accepts frames that arrived now, or at a time in milliseconds since 1970. Returns counts of new frames, and of refused ones by reason."""
        return self._server.take(_joined(frames), _now() if time_ms is None else time_ms)

    def counts(self) -> Dict[str, int]:
        """The counts for all frames so far."""
        return self._server.counts()

    def order(self, question: Question) -> None:
        """Accepts an order: the computation of a question."""
        self._server.order(question.id, question.order)

    def windows(self, question: Question) -> List[int]:
        """The starts of windows with frames."""
        return sorted(self._server.windows(question.id))

    def answer(self, question: Question, start_ms: int, progress: Progress = None) -> Optional[bytes]:
        """The result for a window; none if too few devices have frames in it."""
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
        """Sends the server the objects that it lacks; returns their number."""
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
        """Sends frames; returns counts by outcome. After the call the frames are on the server's disk."""
        counts: Dict[str, int] = self._connection.send(f"{self._base}/frames", _joined(frames)).json()
        return counts

    def order(self, question: Question) -> None:
        """Tells the server what to compute."""
        self._connection.send(f"{self._base}/questions/{question.id}", question.order.encode()).good()

    def windows(self, question: Question) -> List[int]:
        """The starts of ended windows with frames whose results were not fetched yet."""
        windows: List[int] = self._connection.send(f"{self._base}/questions/{question.id}/windows").json()["windows"]
        return windows

    def answer(self, question: Question, start_ms: int) -> Optional[bytes]:
        """The result for a window; none if too few devices have frames in it."""
        reply = self._connection.send(f"{self._base}/questions/{question.id}/windows/{start_ms}", b"")
        return None if reply.refusal == "empty" else reply.good().body

    def done(self, question: Question, start_ms: int) -> None:
        """Tells the server that a result was fetched, whether or not it is released."""
        path = f"{self._base}/questions/{question.id}/windows/{start_ms}"
        self._connection.send(path, method="DELETE").good()
