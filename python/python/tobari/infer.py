"""An image classified by a server that cannot see it.

>>> from tobari import infer
>>> server = infer.Server(infer.Model.digits())             # has the weights, and no key
>>> client = infer.Client(server.card, server.digest)       # has the only key
>>> server.register(client.keys())
>>> question = client.encrypt(infer.draw_digit(3))
>>> client.decrypt(server.run(question)).label
3

Everything that passes between the two is `bytes`, the same as in the files of `tobari infer` and in requests to `tobari serve --infer` (`Remote`). A label is told; `output="logits"` tells more, and is for the key's holder alone.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

import numpy as np

from . import _files, _http
from ._native import Error, Refused
from ._native import infer as _infer
from ._progress import Progress

Model = _infer.Model
Compiled = _infer.Compiled

__all__ = ["Answer", "Client", "Compiled", "Model", "Remote", "Server", "draw_digit", "load_onnx", "read_png"]


@dataclass(frozen=True)
class Answer:
    """What is told of an image."""

    #: The likeliest class.
    label: int
    #: Classes, the likeliest first: one, or as many as were asked for.
    labels: Tuple[int, ...]
    #: Logits by class, if they were asked for.
    logits: np.ndarray = field(repr=False, compare=False)


def pixels(image: Any) -> bytes:
    """An image as one byte a pixel, row by row: an array of integers from 0 to 255, or `bytes`."""
    if isinstance(image, (bytes, bytearray)):
        return bytes(image)
    array = np.asarray(image)
    if array.dtype.kind not in "iub" or array.size == 0 or array.min() < 0 or array.max() > 255:
        raise Error(f"expected pixels as integers from 0 to 255, found others (of type {array.dtype})")
    return array.astype(np.uint8).tobytes()


def draw_digit(digit: int, hand: int = 0) -> np.ndarray:
    """A digit drawn from strokes in one of six hands: 28 rows of 28 pixels, 0 the background.

    >>> from tobari import infer
    >>> infer.draw_digit(7).shape
    (28, 28)
    """
    return np.frombuffer(_infer.draw_digit(digit, hand), dtype=np.uint8).reshape(28, 28)


def read_png(path: _files.PathLike) -> np.ndarray:
    """A PNG with a digit on it, in the form of the digits that the built-in model was trained with: 28 rows of 28 pixels."""
    found, _ = _infer.decode_png_digit(Path(path).read_bytes())
    return np.frombuffer(found, dtype=np.uint8).reshape(28, 28)


def load_onnx(
    path: _files.PathLike,
    mean: Sequence[float] = (0.0,),
    deviation: Sequence[float] = (1.0,),
    images: Iterable[Any] = (),
    headroom: float = 2.0,
    margin: float | None = None,
) -> Model:
    """A model of an ONNX file of the supported family: a chain of convolutions, means, dense layers and polynomial activations of degree two.

    The network takes `(pixel/255 - mean)/deviation`. Ranges are found with `images`, whose largest numbers are taken times `headroom`; without any, they hold for every image, which costs precision.
    The images also tell the margin between labels, the difference of the two largest logits that 19 of 20 reach; `margin` states it where there are none.
    Images that tell none, as their two best labels are equal, are an error without `margin`.
    A model without a margin, or whose margin encryption does not leave, is not compiled.
    What is not supported is listed in the error, all at once.
    """
    images = [pixels(image) for image in images]
    return Model.from_onnx(Path(path).read_bytes(), list(mean), list(deviation), images, headroom, margin)


class Client:
    """Who asks one model: the only one who can encrypt images for it and open answers."""

    def __init__(self, card: bytes, digest: bytes) -> None:
        """With a new key, for the model of this digest; `card` is what its server tells of it."""
        self._holder = _infer.Holder(card, digest)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Client":
        """The one that `to_bytes` wrote."""
        client = cls.__new__(cls)
        client._holder = _infer.Holder.from_bytes(data)
        return client

    @classmethod
    def load(cls, path: _files.PathLike) -> "Client":
        """The one of a file of `save`, or of `tobari infer keygen`."""
        return cls.from_bytes(Path(path).read_bytes())

    def to_bytes(self) -> bytes:
        """All of it, secret."""
        return self._holder.to_bytes()

    def save(self, path: _files.PathLike) -> None:
        """Writes a secret file (mode 0600), which must not be there."""
        _files.write(path, self.to_bytes(), secret=True)

    def __repr__(self) -> str:
        return f"<infer.Client with {self._holder!r}>"

    @property
    def name(self) -> bytes:
        """SHA-256 of the keys."""
        return self._holder.name

    @property
    def model(self) -> bytes:
        """The digest of the model."""
        return self._holder.model

    def keys(self) -> bytes:
        """What the server computes with. Public, some ten megabytes, always the same."""
        return self._holder.keys()

    def encrypt(self, image: Any) -> bytes:
        """An image of integers from 0 to 255, as a question."""
        return self._holder.encrypt(pixels(image))

    def decrypt(self, answer: bytes, output: str = "label") -> Answer:
        """What an answer says: `label`, `top:K`, `rounded:BITS` or `logits`.

        Raises `tobari.Error` for another model's answer, another key's, or none.
        """
        labels, logits = self._holder.decrypt(answer, output)
        return Answer(labels[0], tuple(labels), np.array(logits))

    def ask(self, server: Any, image: Any, output: str = "label") -> Answer:
        """Encrypts, asks a `Server` or a `Remote`, and opens; the keys go first where it lacks them."""
        if not server.knows(self.name):
            server.register(self.keys())
        question = self.encrypt(image)
        try:
            answer = server.run(question)
        except Refused as refusal:
            # keys that were not used for long are given away
            if getattr(refusal, "reason", None) != "key":
                raise
            server.register(self.keys())
            answer = server.run(question)
        return self.decrypt(answer, output)


class Server:
    """The half that has a model and no key."""

    def __init__(
        self, model: Any, layout: Optional[str] = None, set: str = "infer-f", memory: int = 1 << 30
    ) -> None:  # `set` is the field's word
        """Of a `Model`, in a layout and a set of parameters, or of a `Compiled` one. `memory` bounds what is kept of encoded weights."""
        compiled = model if isinstance(model, _infer.Compiled) else model.compile(layout, set)
        self.compiled: Compiled = compiled
        self._service = compiled.service(memory)
        self._sessions: Dict[bytes, _infer.Session] = {}

    @property
    def card(self) -> bytes:
        """What clients may know of the model."""
        return self._service.card()

    @property
    def digest(self) -> bytes:
        """The digest of the model."""
        return self._service.digest

    def knows(self, name: bytes) -> bool:
        """Whether keys of this name were registered."""
        return name in self._sessions

    def register(self, keys: bytes) -> None:
        """Takes a client's keys."""
        session = self._service.session(keys)
        self._sessions[session.name] = session

    def run(self, question: bytes) -> bytes:
        """The answer to a question."""
        return self.run_all([question])[0]

    def run_all(self, questions: Sequence[bytes], progress: Progress = None) -> List[bytes]:
        """The answers to questions of one client, in their order."""
        questions = list(questions)
        if not questions:
            return []
        # version, kind, the model's digest, the name of the keys
        name = questions[0][34:66]
        session = self._sessions.get(name)
        if session is None:
            raise Refused("expected a question under keys that were registered, found another")
        return session.run(questions, progress)


class Remote:
    """A `tobari serve --infer`, over HTTP."""

    def __init__(
        self,
        url: str,
        model: Optional[str] = None,
        token: Optional[str] = None,
        context: Optional[ssl.SSLContext] = None,
    ) -> None:
        """The only model there, or the one of this name or beginning of a digest."""
        self._connection = _http.Connection(url, token, context)
        listed = self._connection.send("/infer/v1").json()["models"]
        fits = [one for one in listed if model in (None, one["name"]) or one["digest"].startswith(model.lower())]
        if len(fits) != 1:
            names = ", ".join(str(one["name"]) for one in listed)
            raise Error(f"expected one model that fits, found {len(fits)} among: {names}")
        self.digest = bytes.fromhex(fits[0]["digest"])
        self._path = f"/infer/v1/models/{self.digest.hex()}"
        self.card = self._connection.send(self._path).good().body

    def knows(self, name: bytes) -> bool:
        reply = self._connection.send(f"{self._path}/keys/{name.hex()}")
        if reply.refusal == "key":
            return False
        reply.good()
        return True

    def register(self, keys: bytes) -> None:
        self._connection.send(f"{self._path}/keys", keys).good()

    def run(self, question: bytes) -> bytes:
        head, body = question[:66], question[66:]
        reply = self._connection.send(f"{self._path}/answers", body, {"tobari-key": head[34:].hex()})
        # the server sends the message alone: version, kind 0x35, and the same names before it
        return head[:1] + b"\x35" + head[2:] + reply.good().body
