"""How often a key or a haplotype occurs in a table, without the table's owner seeing which.

>>> from tobari import search
>>> table = search.Table.from_keys([(b"E11.9", 312), (b"I10", 877), (b"J45", 41)], label="codes")
>>> server = search.Server(table)                       # has the table, and no key
>>> client = search.Client()                            # has a key, and does not see the table
>>> client.ask(server, key="I10")
Found(present=True, count=877, alleles=None)
>>> client.ask(server, key="Z99").present
False

`Remote` is a `tobari serve --search` over HTTP, and `Client.load` reads the file of `tobari search keygen`. **A malicious server may answer anything**, and a client with
enough questions learns the table. A server with labels (`Server(table, labels=True)`, `tobari serve --malicious`) tells even a client that sends malformed questions only
as much as its budget pays for; clients ask such a server in the same way.
"""

from __future__ import annotations

import hashlib
import secrets
import ssl
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar, Union
from weakref import WeakKeyDictionary

from . import _files, _http
from ._native import Error, Refused
from ._native import search as _search

Catalogue = _search.Catalogue
Table = _search.Table

__all__ = ["Catalogue", "Client", "Found", "Remote", "Server", "Table", "Unread", "load_table"]

Key = Union[bytes, str]
#: How often one question is sent, with another key or to a table that was replaced.
_ATTEMPTS = 6
#: The most labels of a question to a `Server`, as of `tobari serve`.
_LABELS = 1 << 17

_Question = TypeVar("_Question", _search.Prepared, _search.HiddenQuestion)


@dataclass(frozen=True)
class Found:
    """The content of an answer."""

    #: Whether there is a match.
    present: bool
    #: The number of occurrences, if requested and if there is a match.
    count: Optional[int] = None
    #: The number of alleles that occur together from the first on, if requested.
    alleles: Optional[int] = None


class Unread:
    """An answer that is not decrypted yet."""

    def __init__(self, read: Callable[[], Tuple[Any, ...]]) -> None:
        self._read = read

    def read(self) -> Found:
        """Decrypts the answer."""
        return Found(*self._read())


def load_table(path: _files.PathLike) -> Table:
    """Loads a table from a file of `tobari search index`, or of `Table.to_bytes`."""
    return Table.from_bytes(Path(path).read_bytes())


class Client:
    """A client: one secret from which all its keys are derived."""

    def __init__(self) -> None:
        """A client with a new secret."""
        self._adopt(_search.Identity())

    def _adopt(self, identity: _search.Identity) -> None:
        self._identity = identity
        self._keys: Dict[Tuple[str, int], _search.Key] = {}
        self._generations: "WeakKeyDictionary[Any, Dict[str, int]]" = WeakKeyDictionary()
        #: The servers' layouts of questions whose place hides, each with the key of labels that it is for.
        self._layouts: "WeakKeyDictionary[Any, Dict[str, Tuple[Optional[bytes], bytes]]]" = WeakKeyDictionary()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Client":
        """Reads the bytes of `to_bytes`."""
        client = cls.__new__(cls)
        client._adopt(_search.Identity.from_bytes(data))
        return client

    @classmethod
    def load(cls, path: _files.PathLike) -> "Client":
        """Loads a file of `save`, or of `tobari search keygen`."""
        return cls.from_bytes(Path(path).read_bytes())

    def to_bytes(self) -> bytes:
        """The whole secret."""
        return self._identity.to_bytes()

    def save(self, path: _files.PathLike) -> None:
        """Writes a secret file (mode 0600), which must not exist yet."""
        _files.write(path, self.to_bytes(), secret=True)

    def __repr__(self) -> str:
        return f"<search.Client with {self._identity!r}>"

    @property
    def name(self) -> bytes:
        """The client's name on servers without tokens."""
        return self._identity.name

    def prepare(
        self,
        catalogue: Catalogue,
        key: Optional[Key] = None,
        site: Optional[str] = None,
        alleles: Optional[str] = None,
        counts: bool = True,
        longest: bool = False,
    ) -> _search.Prepared:
        """Prepares a question whose place the server sees, or one for a key: see `ask`.

        A table with labels evaluates the question first, where `needs_evaluation` says so.
        """
        named = key.encode() if isinstance(key, str) else key
        return catalogue.prepare(named, site, alleles, counts, longest)

    def key(self, set: str, generation: int = 0) -> _search.Key:  # `set` is the field's word
        """The key for a set of parameters; it is made once."""
        known = self._keys.get((set, generation))
        if known is None:
            known = self._keys[(set, generation)] = self._identity.key(set, generation)
        return known

    def ask(
        self,
        server: Any,
        key: Optional[Key] = None,
        site: Optional[str] = None,
        alleles: Optional[str] = None,
        counts: bool = True,
        longest: bool = False,
        public: bool = False,
        least_places: int = 100,
    ) -> Found:
        """Asks a `Server` or a `Remote`: for a key, or for alleles (as "0101") from a site (as "chr20:1000000" or "chr20:1000000:A:G") on.

        A site hides: in the whole table if the server offers that, and otherwise in its cell of a million bases, which
        the server sees. A cell with fewer than `least_places` places is refused before anything is sent. With `public`
        the server sees the site. Without `counts` the answer says only whether there is a match; with `longest`, which needs
        `public`, how many of the alleles occur together.

        Raises `tobari.Refused` where the server refuses; `reason` is "budget" where the client's tests are used up.
        """
        return self.fetch(server, key, site, alleles, counts, longest, public, least_places).read()

    def fetch(
        self,
        server: Any,
        key: Optional[Key] = None,
        site: Optional[str] = None,
        alleles: Optional[str] = None,
        counts: bool = True,
        longest: bool = False,
        public: bool = False,
        least_places: int = 100,
    ) -> Unread:
        """Asks like `ask`, and does not decrypt the answer.

        A dishonest server must not see whether an answer decrypts. So fetch all answers, and read them after the last question.
        """
        catalogue = server.catalogue
        if key is None and not public and site is not None and alleles is not None and catalogue.kind != "keys":
            if longest:
                raise Error("expected longest together with public, as every number of sites would be a question, found it alone")
            whole = str(len(alleles)) in server.hidden

            def hide() -> _search.HiddenQuestion:
                hidden: _search.HiddenQuestion = server.catalogue.prepare_hidden(None, site, alleles, counts, whole)
                _enough_places(hidden, len(str(alleles)), least_places)
                return hidden

            return self._fetch_hidden(server, hide)
        if key is not None and not public and catalogue.large and "keys" in server.hidden:
            named = key.encode() if isinstance(key, str) else key
            return self._fetch_hidden(server, lambda: server.catalogue.prepare_hidden(named, site, alleles, counts, True))
        return self._fetch_public(server, lambda: self.prepare(server.catalogue, key, site, alleles, counts, longest))

    def _fetch_public(self, server: Any, prepare: Callable[[], _search.Prepared]) -> Unread:
        question = prepare()
        last: Optional[Refused] = None
        name = server.client(self.name)
        generations = self._generations.setdefault(server, {})
        for _ in range(_ATTEMPTS):
            if question.set not in generations:
                generation = secrets.randbits(64)
                server.register(name, self.key(question.set, generation))
                generations[question.set] = generation
            own = self.key(question.set, generations[question.set])
            try:
                if question.needs_evaluation:
                    question = _evaluated(server, question, name)
                answer = server.answer(question.query(own, name), own)
                return Unread(partial(question.read, own, answer))
            except Refused as refusal:
                if refusal.reason in ("key", "uses"):
                    del generations[question.set]
                elif refusal.reason in ("labels", "mode", "revision", "table"):
                    # labels of an earlier key, or another table: the next round evaluates again
                    server.look_again()
                    question = prepare()
                else:
                    raise
                last = refusal
        raise last or _none()

    def _fetch_hidden(self, server: Any, prepare: Callable[[], _search.HiddenQuestion]) -> Unread:
        question = prepare()
        last: Optional[Refused] = None
        name = server.client(self.name)
        generations = self._generations.setdefault(server, {})
        layouts = self._layouts.setdefault(server, {})
        for _ in range(_ATTEMPTS):
            own = self.key(question.set, generations.setdefault(question.set, secrets.randbits(64)))
            path = question.path
            try:
                if path not in layouts:
                    # before the evaluation, so that a cell without a layout costs no test
                    layouts[path] = (None, server.layout(path))
                if question.needs_evaluation:
                    question = _evaluated(server, question, name)
                revision, layout = layouts[path]
                if revision not in (None, question.revision):
                    layout = server.layout(path)
                layouts[path] = (question.revision, layout)
                answer = server.answer_hidden(question.query(layout, own, name), own)
                return Unread(partial(question.read, layout, own, answer))
            except Refused as refusal:
                if refusal.reason == "uses":
                    del generations[question.set]
                elif refusal.reason == "key":
                    server.register(name, own)
                elif refusal.reason in ("mode", "table"):
                    # the table is replaced, or has another key of labels: the next round evaluates again
                    layouts.pop(path, None)
                    server.look_again()
                    question = prepare()
                else:
                    raise
                last = refusal
        raise last or _none()


def _evaluated(server: Any, question: _Question, name: bytes) -> _Question:
    """The question with its labels, which the server evaluates without seeing the question."""
    evaluation = question.evaluation(name)
    return evaluation.finish(server.evaluate(evaluation.request))


def _enough_places(hidden: _search.HiddenQuestion, sites: int, least_places: int) -> None:
    if hidden.places < least_places:
        where = f"the cell {hidden.cell}" if hidden.cell else "the table"
        raise Error(
            f"{where} has {hidden.places} places for {sites} sites, fewer than {least_places}: nothing was asked. "
            "Lower least_places, or show the place (public=True)"
        )


def _none() -> Error:
    return Error("expected an answer, found none")


class Server:
    """The server's half: it has a table and no key."""

    def __init__(
        self,
        table: Table,
        tests: Optional[int] = None,
        region_tests: Optional[int] = None,
        uses: Optional[int] = None,
        labels: bool = False,
        max_labels: int = _LABELS,
    ) -> None:
        """`tests` limits a client's tests in all, `region_tests` those in any 100,000 bases, `uses` the blocks of answers of a key.

        With `labels` the table is protected from clients that do not follow the protocol: a question needs an evaluation,
        and evaluations are what the budget of tests counts. Regions have no budget then. `max_labels` limits the labels of a
        question, and eight times as many those of a cell.
        """
        self._desk = _search.Server(tests, region_tests, uses, None, max_labels)
        self._labels = max_labels if labels else None
        #: Numbers of sites whose place hides in the whole table: none here, where places hide in cells.
        self.hidden: List[str] = []
        self.serve(table)

    def serve(self, table: Table) -> None:
        """Serves this table, or a new state of it. Clients keep their budgets; with labels they evaluate again."""
        labels = self._labels is not None
        self._desk.serve(table, labels)
        #: The description of the table for clients, as bytes.
        self.told: bytes = table.told(labels)
        self.catalogue = Catalogue(self.told, self._labels)

    def look_again(self) -> None:
        """Nothing to do: `catalogue` is that of the table that is served."""

    def evaluate(self, request: bytes) -> bytes:
        """Evaluates a question, and charges its client's budget: with labels only."""
        return self._desk.evaluate(request)

    def layout(self, path: str) -> bytes:
        """The layout of a cell, which is arranged at the first question."""
        return self._desk.layout(self.catalogue.name, path)

    def answer_hidden(self, query: bytes, key: Any) -> bytes:
        """Answers a query whose place hides, and charges its client's budget."""
        return self._desk.answer_hidden(query, hashlib.sha256(key.registration).digest())

    def client(self, name: bytes) -> bytes:
        """The client's name on this server."""
        return name

    def register(self, name: bytes, key: Any) -> None:
        """Registers a client's key."""
        self._desk.register(name, key.set, key.registration)

    def answer(self, query: bytes, key: Any = None) -> bytes:
        """Answers a query, and charges its client's budget."""
        return self._desk.answer(query)

    def tests_left(self, name: bytes) -> Optional[int]:
        """The remaining tests of a client; none if it is not registered."""
        return self._desk.tests_left(name)


class Remote:
    """A `tobari serve --search`, over HTTP, with or without labels (`--malicious`)."""

    def __init__(
        self,
        url: str,
        table: Optional[str] = None,
        token: Optional[str] = None,
        context: Optional[ssl.SSLContext] = None,
    ) -> None:
        """Connects to the server's only table, or to the table with this label or beginning of a name."""
        self._connection = _http.Connection(url, token, context)
        self._token = token
        self._names: Dict[bytes, bytes] = {}
        self._chosen = table
        self._look()

    def _look(self, before: Optional[Catalogue] = None) -> None:
        """Loads the table, which must have all sites of an earlier one."""
        listed, table = self._listed(), self._chosen
        tables: List[Any] = listed["tables"]
        fits = [one for one in tables if table in (None, one["label"]) or one["name"].startswith(table.lower())]
        if len(fits) != 1:
            names = ", ".join(f"{one['name']} ({one['label']})" for one in tables)
            raise Error(f"{len(fits)} tables fit, and not one: choose table= among {names}")
        found = fits[0]
        if found["mode"] not in ("plain", "labels"):
            raise Error(f"expected a table in the mode plain or labels, found one in the mode {found['mode']}")
        told = self._connection.send(f"/search/v1/tables/{found['name']}").good().body
        if hashlib.sha256(told).hexdigest()[:32] != found["tag"].strip('"'):
            raise Error("expected what the table's tag is of, found other bytes: it changed just now, so connect again")
        catalogue = Catalogue(told, listed["labels"] if found["mode"] == "labels" else None)
        if before is not None and not catalogue.has_grown_from(before):
            raise Error("the server has replaced its table, and sites of the earlier table changed: connect again with a new Remote")
        #: Numbers of sites whose place hides in the whole table; others hide in cells.
        self.hidden: List[str] = found["hidden"]
        self._tag, self._table, self.catalogue = found["tag"], found["name"], catalogue

    def look_again(self) -> None:
        """Loads the table anew, after the server refused a question.

        Raises `tobari.Error` if sites of the earlier table changed. It does so whatever was asked: the server sees nothing of the question in that.
        """
        self._look(self.catalogue)

    def _listed(self) -> Any:
        # a client without a token sends a name, which `client` returns
        return self._connection.send("/search/v1").json()

    def client(self, name: bytes) -> bytes:
        """The client's name on the server: the server's name for the token, or the client's own."""
        if self._token is None:
            self._connection.headers["tobari-client"] = name.hex()
        if name not in self._names:
            told = self._listed().get("client")
            self._names[name] = bytes.fromhex(told) if told else name
        return self._names[name]

    def register(self, name: bytes, key: Any) -> None:
        path = "hidden/keys" if key.set == "search-hidden" else f"keys/{key.set}"
        self._connection.send(f"/search/v1/{path}", key.registration).good()

    def evaluate(self, request: bytes) -> bytes:
        """Has the server evaluate a question to a table with labels."""
        return self._connection.send("/search/v1/evaluations", request).good().body

    def layout(self, path: str) -> bytes:
        """The layout of questions whose place hides."""
        return self._connection.send(f"/search/v1/tables/{self._table}/hidden/{path}").good().body

    def answer_hidden(self, query: bytes, key: Any) -> bytes:
        """Answers a query whose place hides."""
        headers = {"tobari-key": hashlib.sha256(key.registration).hexdigest()}
        return self._connection.send("/search/v1/hidden/queries", query, headers).good().body

    def answer(self, query: bytes, key: Any) -> bytes:
        headers = {"if-match": self._tag, "tobari-key": hashlib.sha256(key.registration).hexdigest()}
        return self._connection.send("/search/v1/queries", query, headers).good().body
