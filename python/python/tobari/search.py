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
enough questions learns the table.
"""

from __future__ import annotations

import hashlib
import secrets
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple, Union
from weakref import WeakKeyDictionary

from . import _files, _http
from ._native import Error, Refused
from ._native import search as _search

Catalogue = _search.Catalogue
Table = _search.Table

__all__ = ["Catalogue", "Client", "Found", "Remote", "Server", "Table", "load_table"]

Key = Union[bytes, str]
#: Refusals after which a new registration helps: words over HTTP, and of the half in this process.
_WORDS, _TEXTS = ("key", "uses"), ("register a new one", "expected a client with a key")


def _mends(refusal: Refused) -> bool:
    return getattr(refusal, "reason", None) in _WORDS or any(text in str(refusal) for text in _TEXTS)


@dataclass(frozen=True)
class Found:
    """The content of an answer."""

    #: Whether there is a match.
    present: bool
    #: The number of occurrences, if requested and if there is a match.
    count: Optional[int] = None
    #: The number of alleles that occur together from the first on, if requested.
    alleles: Optional[int] = None


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
        #: The servers' layouts of questions whose place hides.
        self._layouts: "WeakKeyDictionary[Any, Dict[str, bytes]]" = WeakKeyDictionary()

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
        """Prepares a question whose place the server sees, or one for a key: see `ask`."""
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
        """
        if key is None and not public and site is not None and alleles is not None and server.catalogue.kind != "keys":
            if longest:
                raise Error("expected longest together with public, as every number of sites would be a question, found it alone")
            return self._ask_hidden(server, site, alleles, counts, least_places)
        prepared = self.prepare(server.catalogue, key, site, alleles, counts, longest)
        name = server.client(self.name)
        generations = self._generations.setdefault(server, {})
        for fresh in (False, True, True):
            if fresh or prepared.set not in generations:
                generation = secrets.randbits(64)
                server.register(name, self.key(prepared.set, generation))
                generations[prepared.set] = generation
            own = self.key(prepared.set, generations[prepared.set])
            try:
                answer = server.answer(prepared.query(own, name), own)
            except Refused as refusal:
                if fresh or not _mends(refusal):
                    raise
                continue
            return Found(*prepared.read(own, answer))
        raise Error("expected an answer, found none")

    def _ask_hidden(self, server: Any, site: str, alleles: str, counts: bool, least_places: int) -> Found:
        whole = str(len(alleles)) in server.hidden
        prepared = server.catalogue.prepare_hidden(site, alleles, counts, whole)
        if prepared.places < least_places:
            where = f"the cell {prepared.cell}" if prepared.cell else "the table"
            raise Error(
                f"{where} has {prepared.places} places for {len(alleles)} sites, fewer than {least_places}: nothing was asked. "
                "Lower least_places, or show the place (public=True)"
            )
        name = server.client(self.name)
        generations = self._generations.setdefault(server, {})
        layouts = self._layouts.setdefault(server, {})
        for _ in range(6):
            generation = generations.setdefault(prepared.set, secrets.randbits(64))
            own = self.key(prepared.set, generation)
            if prepared.path not in layouts:
                layouts[prepared.path] = server.layout(prepared.path)
            layout = layouts[prepared.path]
            try:
                answer = server.answer_hidden(prepared.query(layout, own, name), own)
            except Refused as refusal:
                reason = getattr(refusal, "reason", None)
                if reason == "uses" or "was used" in str(refusal):
                    del generations[prepared.set]
                elif reason == "table" or "name of a table" in str(refusal):
                    del layouts[prepared.path]
                elif _mends(refusal):
                    server.register(name, own)
                else:
                    raise
                continue
            return Found(*prepared.read(layout, own, answer))
        raise Error("expected an answer, found none: the server changes its table, or its keys, too often")


class Server:
    """The server's half: it has a table and no key."""

    def __init__(
        self,
        table: Table,
        tests: Optional[int] = None,
        region_tests: Optional[int] = None,
        uses: Optional[int] = None,
    ) -> None:
        """`tests` limits a client's tests in all, `region_tests` those in any 100,000 bases, `uses` the blocks of answers of a key."""
        self._desk = _search.Server(tests, region_tests, uses)
        self._desk.serve(table)
        #: The description of the table for clients, as bytes.
        self.told: bytes = table.told()
        self.catalogue = Catalogue(self.told)
        #: Numbers of sites whose place hides in the whole table: none here, where places hide in cells.
        self.hidden: List[str] = []

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
    """A `tobari serve --search`, over HTTP. Use `tobari search query` for tables with labels (`--malicious`)."""

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
        listed = self._listed()
        tables: List[Any] = listed["tables"]
        fits = [one for one in tables if table in (None, one["label"]) or one["name"].startswith(table.lower())]
        if len(fits) != 1:
            names = ", ".join(f"{one['name']} ({one['label']})" for one in tables)
            raise Error(f"{len(fits)} tables fit, and not one: choose table= among {names}")
        if fits[0]["mode"] != "plain":
            raise Error(f"expected a table in the mode plain, found one in the mode {fits[0]['mode']}")
        self._tag, self._table = fits[0]["tag"], fits[0]["name"]
        #: Numbers of sites whose place hides in the whole table; others hide in cells.
        self.hidden: List[str] = fits[0]["hidden"]
        told = self._connection.send(f"/search/v1/tables/{fits[0]['name']}").good().body
        if hashlib.sha256(told).hexdigest()[:32] != self._tag.strip('"'):
            raise Error("expected what the table's tag is of, found other bytes: it changed just now")
        self.catalogue = Catalogue(told)

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
