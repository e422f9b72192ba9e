"""Shared code of the tests. A test that cannot run here is skipped, and `cargo xtask test` counts it separately."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def tool(name):
    """An optional module; without it the test is skipped."""
    return pytest.importorskip(name, reason=f"NOT RUN: {name} is not installed")


@pytest.fixture(scope="session")
def binary():
    """The path of the built `tobari` program."""
    folders = [Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))]
    named = os.environ.get("TOBARI_BINARY")
    found = [Path(named)] if named else [folder / "debug" / "tobari" for folder in folders]
    for path in found:
        if path.is_file():
            return path
    on_path = shutil.which("tobari")
    if on_path is None:
        pytest.skip("NOT RUN: the tobari program is not built (cargo build -p tobari-cli, or TOBARI_BINARY)")
    return Path(on_path)


@pytest.fixture
def serve(binary):
    """Starts `tobari serve` with further arguments, and yields its URL; the server ends with the test."""
    import json

    running = []

    def start(*words):
        command = [binary, "serve", "--addr", "127.0.0.1:0", "--json", "--until-stdin-closes", "--log", "warn", *words]
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        running.append(process)
        line = process.stdout.readline()
        assert line, "the server ended before it listened"
        return json.loads(line)["listening"]

    yield start
    for process in running:
        process.stdin.close()
        process.wait(timeout=20)
        process.stdout.close()
