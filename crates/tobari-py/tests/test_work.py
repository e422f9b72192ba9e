"""Long calls: others run meanwhile, Ctrl-C ends them, progress is told, and no panic crosses."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import tobari
from conftest import tool
from tobari import _native, bgv, infer


def test_other_threads_run_during_a_long_call():
    turns = 0
    done = threading.Event()

    def count():
        nonlocal turns
        while not done.wait(0.001):
            turns += 1

    thread = threading.Thread(target=count)
    thread.start()
    _native._wait(0.5)
    done.set()
    thread.join()
    assert turns > 50


def test_other_threads_run_during_a_short_call():
    secret = bgv.SecretKey(bgv.Parameters())
    keys, x = secret.evaluation_keys(), secret.encrypt([1])
    both, running = threading.Barrier(2), []

    def multiply():
        both.wait()
        start = time.perf_counter()
        for _ in range(10):
            keys.mul(x, x)
        running.append((start, time.perf_counter()))

    threads = [threading.Thread(target=multiply) for _ in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    # both were under way at the same time
    assert max(start for start, _ in running) < min(end for _, end in running)


def test_ctrl_c_ends_a_long_call_at_once():
    code = (
        "import sys, time; from tobari import _native\n"
        "print('ready', flush=True)\n"
        "start = time.monotonic()\n"
        "try: _native._wait(60)\n"
        "except KeyboardInterrupt: print('interrupted', time.monotonic() - start < 10, flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    os.kill(process.pid, signal.SIGINT)
    assert process.communicate(timeout=20)[0] == "interrupted True\n"


def test_progress_rises_to_the_end():
    told = []
    secret = bgv.SecretKey(bgv.Parameters())
    secret.evaluation_keys(rotations=list(range(1, 40)), progress=lambda done, total: told.append((done, total)))
    assert told == sorted(told) and told[-1] == (40, 40)


@pytest.mark.parametrize("with_tqdm", [False, True])
def test_a_bar_is_shown_of_what_takes_long(with_tqdm, capsys, monkeypatch):
    if with_tqdm:
        tool("tqdm")
    else:
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    server = infer.Server(infer.Model.digits())
    client = infer.Client(server.card, server.digest)
    server.register(client.keys())
    server.run_all([client.encrypt(infer.draw_digit(digit)) for digit in (1, 2)], progress=True)
    shown = capsys.readouterr().err
    assert "images" in shown and ("2/2" if with_tqdm else "2 of 2") in shown


def test_what_a_callback_raises_ends_the_call():
    def stop(done, total):
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        _native._wait(30, stop)


def test_a_panic_is_an_exception_like_others():
    with pytest.raises(tobari.Error, match="fault in this program"):
        _native._wait(0.0, None, True)


def test_exceptions_have_one_base():
    for kind in (tobari.DecodeError, tobari.Refused, tobari.Withheld):
        assert issubclass(kind, tobari.Error)
    assert issubclass(tobari.Error, Exception)
