"""The progress of long work: a callback, or a bar on the terminal (by tqdm, if it is installed)."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Optional, Union

#: The finished part and the total; a total of 0 is unknown.
Callback = Callable[[int, int], Any]
Progress = Union[None, bool, Callback]


@contextmanager
def shown(progress: Progress, what: str) -> Iterator[Optional[Callback]]:
    """The callback to pass on: none without `progress`, a bar for `True`, else the given callback."""
    if progress is None or progress is False:
        yield None
    elif callable(progress):
        yield progress
    else:
        try:
            from tqdm.auto import tqdm  # type: ignore[import-untyped,unused-ignore]
        except ImportError:
            yield from _plain(what)
        else:
            with tqdm(desc=what) as bar:

                def tell(done: int, total: int) -> None:
                    bar.total = total or None
                    bar.update(done - bar.n)

                yield tell


def _plain(what: str) -> Iterator[Callback]:
    def tell(done: int, total: int) -> None:
        sys.stderr.write(f"\r{what}: {done} of {total}" if total else f"\r{what}: {done}")
        sys.stderr.flush()

    try:
        yield tell
    finally:
        sys.stderr.write("\n")
