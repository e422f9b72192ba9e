"""An image classified by a server that cannot see it.

>>> from tobari import infer
>>> server = infer.Server(infer.Model.digits())             # has the weights, and no key
>>> client = infer.Client(server.card, server.digest)       # has the only key
>>> server.register(client.keys())
>>> question = client.encrypt(infer.draw_digit(3))
>>> client.decrypt(server.run(question)).label
3

All messages between the two are `bytes`, in the formats of `tobari infer` and of `tobari serve --infer` (`Remote`). By
default an answer is a label; `output="logits"` reveals more, and is for the key's holder alone.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import numpy as np

from . import _files, _http
from ._native import Error, Refused
from ._native import infer as _infer
from ._progress import Progress

Model = _infer.Model
Compiled = _infer.Compiled
Network = _infer.Network

__all__ = ["Answer", "Client", "Compiled", "Model", "Network", "Remote", "Server", "draw_digit", "load_onnx", "read_png"]


@dataclass(frozen=True)
class Answer:
    """The answer about an image."""

    #: The likeliest class.
    label: int
    #: Classes, the likeliest first: one, or the requested number.
    labels: Tuple[int, ...]
    #: Logits by class, if requested.
    logits: np.ndarray = field(repr=False, compare=False)
    #: The two best classes, if they are closer than the errors of encryption: either may be right.
    close: Optional[Tuple[int, int]] = None


def pixels(image: Any) -> bytes:
    """An image as one byte a pixel, row by row: an array of integers from 0 to 255, or `bytes`."""
    if isinstance(image, (bytes, bytearray)):
        return bytes(image)
    array = np.asarray(image)
    if array.dtype.kind not in "iub" or array.size == 0 or array.min() < 0 or array.max() > 255:
        raise Error(f"expected pixels as integers from 0 to 255, found others (of type {array.dtype})")
    return array.astype(np.uint8).tobytes()


def draw_digit(digit: int, hand: int = 0) -> np.ndarray:
    """A digit drawn from strokes in one of six handwritings: 28 rows of 28 pixels, 0 the background.

    >>> from tobari import infer
    >>> infer.draw_digit(7).shape
    (28, 28)
    """
    return np.frombuffer(_infer.draw_digit(digit, hand), dtype=np.uint8).reshape(28, 28)


def read_png(path: _files.PathLike) -> np.ndarray:
    """Reads a PNG with a digit, and converts it to the form of the built-in model's training data: 28 rows of 28 pixels."""
    found, _ = _infer.decode_png_digit(Path(path).read_bytes())
    return np.frombuffer(found, dtype=np.uint8).reshape(28, 28)


def load_onnx(
    path: _files.PathLike,
    mean: Sequence[float] = (0.0,),
    deviation: Sequence[float] = (1.0,),
    images: Iterable[Any] = (),
    headroom: Optional[float] = None,
    margin: float | None = None,
    engine: Optional[str] = None,
    quadratic: bool = False,
) -> Model | Network:
    """Loads a network from an ONNX file, as PyTorch and others write it.

    A chain of at most three convolutions, means or dense layers with polynomial activations of degree two becomes a `Model`, which runs
    fastest. Every other network becomes a `Network`: branches, pools, any depth and activation. It needs `images` like those to come.
    `engine` (`levels`, `refresh` or `enclave`, as in `tobari infer compile`) and `quadratic`, which replaces activations by polynomials of degree
    two, make a `Network` of any file.

    The network's input is `(pixel/255 - mean)/deviation`. With `images`, the ranges are their largest values times `headroom` (by default 2);
    without images, the ranges of a `Model` hold for every image, which costs precision.
    The images also determine the margin between labels: the difference of the two largest logits that 19 of 20 images reach.
    Without images, `margin` sets it.
    Images whose two best labels are equal determine no margin; this is an error without `margin`.
    A model without a margin, or with a margin too small for the error of encryption, is not compiled.
    The error lists everything that is not supported, all at once.
    """
    images = [pixels(image) for image in images]
    if engine is None and not quadratic:
        try:
            model = Model.from_onnx(Path(path).read_bytes(), list(mean), list(deviation), images, headroom or 2.0, margin)
            if len(model.stages) <= 3:
                return model
        except Error:
            if not images:
                raise
    return Network.compile(Path(path), list(mean), list(deviation), images, engine, margin, headroom, quadratic)


class Client:
    """The client of one model: only it can encrypt images for the model and decrypt answers."""

    def __init__(self, card: bytes, digest: bytes) -> None:
        """A client with a new key, for the model with this digest; `card` is the server's description of the model."""
        self._holder = _infer.Holder(card, digest)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Client":
        """Reads the bytes of `to_bytes`."""
        client = cls.__new__(cls)
        client._holder = _infer.Holder.from_bytes(data)
        return client

    @classmethod
    def load(cls, path: _files.PathLike) -> "Client":
        """Loads a file of `save`, or of `tobari infer keygen`."""
        return cls.from_bytes(Path(path).read_bytes())

    def to_bytes(self) -> bytes:
        """The whole key, secret."""
        return self._holder.to_bytes()

    def save(self, path: _files.PathLike) -> None:
        """Writes a secret file (mode 0600), which must not exist yet."""
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
        """The evaluation keys for the server. Public, some ten megabytes, always the same bytes."""
        return self._holder.keys()

    def encrypt(self, image: Any) -> bytes:
        """Encrypts an image of integers from 0 to 255 to a question."""
        return self._holder.encrypt(pixels(image))

    def decrypt(self, answer: bytes, output: str = "label") -> Answer:
        """Decrypts an answer: `output` is `label`, `top:K`, `rounded:BITS` or `logits`.

        `Answer.close` names two labels if the errors of encryption may exchange them.
        Raises `tobari.Error` for an answer for another model or key, or an invalid answer.
        """
        labels, logits, close = self._holder.decrypt(answer, output)
        return Answer(labels[0], tuple(labels), np.array(logits), close)

    def ask(self, server: Any, image: Any, output: str = "label") -> Answer:
        """Encrypts an image, asks a `Server` or a `Remote`, and decrypts; sends the keys first if the server lacks them."""
        if not server.knows(self.name):
            server.register(self.keys())
        question = self.encrypt(image)
        try:
            answer = server.run(question)
        except Refused as refusal:
            # the server drops keys that were not used for long
            if refusal.reason != "key":
                raise
            server.register(self.keys())
            answer = server.run(question)
        return self.decrypt(answer, output)


class Server:
    """The server's half: it has a model and no key."""

    def __init__(
        self, model: Any, layout: Optional[str] = None, set: str = "infer-f", memory: int = 1 << 30
    ) -> None:  # `set` is the field's word
        """A server for a `Model`, in a layout and a set of parameters, or for a `Compiled` model or a `Network`.

        `memory` limits the bytes of encoded weights of a model. A network has its own layouts and parameters.
        """
        self._sessions: Dict[bytes, Union[_infer.Session, _infer.NetworkSession]] = {}
        self._service: Union[_infer.Service, _infer.NetworkService]
        if isinstance(model, _infer.Network):
            if layout is not None or set != "infer-f":
                raise Error("this network has layouts and parameters of its own: leave layout and set out")
            self.compiled: Any = model
            self._service = model.service()
            return
        self.compiled = model if isinstance(model, _infer.Compiled) else model.compile(layout, set)
        self._service = self.compiled.service(memory)

    @property
    def card(self) -> bytes:
        """The public facts about the model, for clients."""
        return self._service.card()

    @property
    def digest(self) -> bytes:
        """The digest of the model."""
        return self._service.digest

    def knows(self, name: bytes) -> bool:
        """Whether keys with this name are registered."""
        return name in self._sessions

    def register(self, keys: bytes) -> None:
        """Registers a client's keys."""
        session = self._service.session(keys)
        self._sessions[session.name] = session

    def run(self, question: bytes) -> bytes:
        """Answers a question."""
        return self.run_all([question])[0]

    def run_all(self, questions: Sequence[bytes], progress: Progress = None) -> List[bytes]:
        """Answers the questions of one client, in their order."""
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
        """Connects to the server's only model, or to the model with this name or beginning of a digest."""
        self._connection = _http.Connection(url, token, context)
        listed = self._connection.send("/infer/v1").json()["models"]
        fits = [one for one in listed if model in (None, one["name"]) or one["digest"].startswith(model.lower())]
        if len(fits) != 1:
            names = ", ".join(str(one["name"]) for one in listed)
            raise Error(f"{len(fits)} models fit, and not one: choose model= among {names}")
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
        # the server sends only the message: add the version, kind 0x35, and the same names
        return head[:1] + b"\x35" + head[2:] + reply.good().body
