"""Requests to `tobari serve`, with the standard library alone."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from ._native import Error, Refused

#: The longest time of repeated requests to a busy server, and the longest pause, in seconds; the server sets pauses from one second.
BUSY_S = 60.0
LONGEST_PAUSE_S = 30
#: The most bytes of a reply.
MOST = 1 << 28


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def refusal(self) -> Optional[str]:
        """The server's word for its refusal."""
        return self.headers.get("tobari-refusal")

    @property
    def pause(self) -> int:
        """The pause that a busy server asks for, in seconds."""
        said = self.headers.get("retry-after", "")
        return min(max(int(said), 1), LONGEST_PAUSE_S) if said.isdecimal() and len(said) < 9 else 1

    def good(self) -> "Reply":
        """Returns a successful reply.

        Raises `tobari.Refused` with the server's text, shortened and without control characters.
        """
        if 200 <= self.status < 300:
            return self
        text = "".join(c for c in self.body.decode("utf-8", "replace") if c.isprintable())[:300]
        refused = Refused(f"refused by the server ({self.status}): {text}")
        refused.reason = self.refusal
        raise refused

    def json(self) -> Any:
        try:
            return json.loads(self.good().body)
        except ValueError as error:
            raise Error(f"expected JSON from the server, found something else: {error}") from None


def _lower(headers: Any) -> Dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, so that a token reaches only its own server."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Connection:
    """A server at a URL. `token` is one of `tobari search token`; `context` sets the trusted roots (`ssl.create_default_context(cafile=...)`)."""

    def __init__(
        self,
        url: str,
        token: Optional[str] = None,
        context: Optional[ssl.SSLContext] = None,
        timeout: float = 300.0,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise Error(f"expected a URL of http or https, found {url!r}")
        self.url, self.timeout = url.rstrip("/"), timeout
        self.headers: Dict[str, str] = {} if token is None else {"authorization": f"Bearer {token}"}
        handlers: List[urllib.request.BaseHandler] = [_NoRedirect()]
        if url.split("://")[1].startswith(("127.0.0.1", "localhost", "[::1]")):
            handlers.append(urllib.request.ProxyHandler({}))
        if context is not None:
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*handlers)

    def __repr__(self) -> str:
        return f"<Connection to {self.url}>"

    def send(
        self,
        path: str,
        body: Optional[bytes] = None,
        headers: Optional[Mapping[str, str]] = None,
        method: Optional[str] = None,
    ) -> Reply:
        """Sends a GET, or a POST if there is a body; repeats the request while the server is busy."""
        began = time.monotonic()
        while True:
            reply = self._once(path, body, headers, method)
            pause = reply.pause
            if reply.refusal != "busy" or time.monotonic() - began + pause > BUSY_S:
                return reply
            time.sleep(pause)

    def _once(
        self, path: str, body: Optional[bytes], headers: Optional[Mapping[str, str]], method: Optional[str]
    ) -> Reply:
        request = urllib.request.Request(
            self.url + path, data=body, headers={**self.headers, **(headers or {})}, method=method
        )
        if body is not None:
            request.add_header("content-type", "application/octet-stream")
        try:
            with self._opener.open(request, timeout=self.timeout) as reply:
                return Reply(reply.status, _lower(reply.headers), self._read(reply))
        except urllib.error.HTTPError as error:
            with error:
                return Reply(error.code, _lower(error.headers), self._read(error))
        except OSError as error:
            raise Error(f"{self.url}: expected a server that answers, found none: {error}") from error

    @staticmethod
    def _read(reply: Any) -> bytes:
        body = reply.read(MOST + 1)
        if len(body) > MOST:
            raise Error(f"expected a reply of at most {MOST} bytes, found more")
        return bytes(body)
