"""Writes files whole or not at all; secret files are for their owner alone."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Union

PathLike = Union[str, "os.PathLike[str]"]


def write(path: PathLike, data: bytes, secret: bool = False, replace: bool = False) -> None:
    """Writes a file under a temporary name and renames it. A secret file (mode 0600) must not exist, unless it is to be replaced."""
    path = Path(path)
    if secret and not replace and path.exists():
        raise FileExistsError(f"{path}: expected no file, found one: a key is never replaced")
    number, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # made with mode 0600
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if not secret:
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
