"""Long calls: other threads run meanwhile, Ctrl-C ends them, progress is reported, and panics become exceptions."""

import itertools
import operator
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import tobari
from tobari import _native, bgv, ckks, infer, search, sense


def turns_during(call):
    """The number of turns of another thread during a call: zero, if the call keeps the interpreter's lock."""
    turns, done = 0, threading.Event()

    def count():
        nonlocal turns
        while not done.is_set():
            turns += 1
            time.sleep(0.0005)

    thread, interval = threading.Thread(target=count), sys.getswitchinterval()
    thread.start()
    # no thread is forced to give up the lock
    sys.setswitchinterval(1000)
    try:
        before = turns
        call()
        return turns - before
    finally:
        sys.setswitchinterval(interval)
        done.set()
        thread.join()


def test_another_thread_has_no_turn_while_the_lock_is_kept():
    assert turns_during(lambda: sum(range(2_000_000))) == 0


def test_other_threads_run_during_a_long_call():
    server = infer.Server(infer.Model.digits())
    client = infer.Client(server.card, server.digest)
    server.register(client.keys())
    questions = [client.encrypt(infer.draw_digit(digit)) for digit in range(10)]
    assert turns_during(lambda: server.run_all(questions)) > 20


def test_other_threads_run_during_a_short_call():
    secret = bgv.SecretKey(bgv.Parameters())
    keys, x = secret.evaluation_keys(), secret.encrypt([1])
    assert turns_during(lambda: keys.mul(x, x)) > 3


class Stopped(Exception):
    pass


def stopped(call, after=0.1):
    """Interrupts a call by a signal, as Ctrl-C does.

    Returns the seconds from the signal to the end of the call, and the processor seconds of the half second that begins half a
    second later, when all work should have ended.
    """

    def stop(*_):
        raise Stopped

    before = signal.signal(signal.SIGALRM, stop)
    try:
        start = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, after)
        with pytest.raises(Stopped):
            call()
        took = time.monotonic() - start - after
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    time.sleep(0.5)
    busy = time.process_time()
    time.sleep(0.5)
    return took, time.process_time() - busy


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """A device, a server, and a question with a result for each device."""
    holder = sense.KeyHolder({"profile": "u25", "channel": [{"name": "t", "square": True}]})
    device = holder.device("d", tmp_path_factory.mktemp("fleet") / "d.counter")
    statistic = [{"kind": "variance", "channel": "t"}]
    asked = holder.register({"name": "q", "window": {"length": "1s"}, "least-devices": 1, "statistic": statistic})
    server = sense.Server(*holder.bundle())
    server.order(asked)
    return device, server, asked


def many_images(fleet):
    server = infer.Server(infer.Model.digits())
    client = infer.Client(server.card, server.digest)
    server.register(client.keys())
    questions = [client.encrypt(infer.draw_digit(1))] * 200
    return lambda: server.run_all(questions)


def many_keys(fleet):
    secret = bgv.SecretKey(bgv.Parameters())
    return lambda: secret.evaluation_keys(rotations=list(range(1, 4000)))


@pytest.mark.parametrize("job", [many_images, many_keys])
def test_a_signal_ends_a_call_at_once_and_its_work_soon_after(job, fleet):
    took, busy = stopped(job(fleet))
    assert took < 2 and busy < 0.25


def test_frames_before_an_interruption_stay_taken_and_others_are_not(fleet):
    device, server, _ = fleet
    server, frame = server._server.fresh(), device.seal([[1]])[0]
    stopped(lambda: server.take(frame * 200_000, 0))
    counts = server.counts()
    assert counts["taken"] == 1 and 0 < counts["duplicate"] < 199_999


def test_a_device_seals_no_more_after_an_interruption(fleet):
    device, rows = fleet[0], np.ones((20_000, 1))
    # version, profile, device; then the counter
    counter = lambda: int.from_bytes(device.seal([[1]])[0][4:8], "little")
    before = counter()
    stopped(lambda: device.seal(rows))
    assert before < counter() < before + 20_000


def test_no_more_entries_are_taken_after_an_interruption():
    entries = itertools.repeat((b"key", 1), 3_000_000)
    stopped(lambda: search.Table.from_keys(entries))
    assert operator.length_hint(entries) > 0


def test_ctrl_c_ends_a_job_at_once():
    code = (
        # a shell's background job, which these tests may be, ignores it
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from tobari import infer\n"
        "server = infer.Server(infer.Model.digits())\n"
        "client = infer.Client(server.card, server.digest)\n"
        "server.register(client.keys())\n"
        "questions = [client.encrypt(infer.draw_digit(1))] * 200\n"
        "print('ready', flush=True)\n"
        "try: server.run_all(questions, lambda done, total: print(done, flush=True))\n"
        "except KeyboardInterrupt: print('interrupted', flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    # after the job has started
    assert process.stdout.readline() == "ready\n" and int(process.stdout.readline()) >= 0
    os.kill(process.pid, signal.SIGINT)
    *done, last = process.communicate(timeout=20)[0].split()
    assert last == "interrupted" and not any(int(images) > 190 for images in done)


def test_progress_rises_to_the_end():
    told = []
    secret = bgv.SecretKey(bgv.Parameters())
    secret.evaluation_keys(rotations=list(range(1, 40)), progress=lambda done, total: told.append((done, total)))
    assert told == sorted(told) and told[-1] == (40, 40)


@pytest.mark.parametrize("scheme", [bgv, ckks])
def test_a_product_with_a_matrix_is_told_of_by_its_diagonals(scheme):
    told = []
    secret = scheme.SecretKey(scheme.Parameters())
    keys = secret.evaluation_keys(matrices=[(64, 64)])
    x = secret.encrypt(np.ones(64, dtype=np.int64), keys=keys)
    y = x.dot(np.eye(64, dtype=np.int64), progress=lambda *now: told.append(now))
    assert np.allclose(secret.decrypt(y), 1, atol=1e-3)
    assert told == sorted(told) and told[-1] == (64, 64)


def test_a_window_is_told_of_step_by_step(fleet):
    device, server, asked = fleet
    told = []
    server.take(device.seal([[7]]), 1000)
    assert server.answer(asked, 1000, progress=lambda *now: told.append(now)) is not None
    # the key holder's inputs alone are more than these
    assert told == sorted(told) and told[-1][0] == told[-1][1] > 10


def test_sites_are_told_of_with_their_number_where_it_is_known(tmp_path):
    told = []
    arguments = (np.zeros((40, 2), dtype=int), list(range(1, 41)), ["A"] * 40, ["C"] * 40)
    search.Table.from_panel(*arguments, progress=lambda *now: told.append(now))
    assert told[-1] == (40, 40)
    head = '##fileformat=VCFv4.2\n##contig=<ID=1>\n##FORMAT=<ID=GT,Number=1,Type=String,Description="G">\n'
    lines = ["#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ts"]
    lines += [f"1\t{site}\t.\tA\tG\t.\tPASS\t.\tGT\t0|1" for site in range(1, 31)]
    (tmp_path / "panel.vcf").write_text(head + "\n".join(lines) + "\n")
    search.Table.from_vcf(tmp_path / "panel.vcf", progress=lambda *now: told.append(now))
    assert told[-1] == (30, 0)


@pytest.fixture(params=[False, True], ids=["plain", "tqdm"])
def with_tqdm(request, monkeypatch):
    if not request.param:
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    return request.param


def test_a_bar_is_shown_of_what_takes_long(with_tqdm, capsys):
    server = infer.Server(infer.Model.digits())
    client = infer.Client(server.card, server.digest)
    server.register(client.keys())
    server.run_all([client.encrypt(infer.draw_digit(digit)) for digit in (1, 2)], progress=True)
    shown = capsys.readouterr().err
    assert "images" in shown and ("2/2" if with_tqdm else "2 of 2") in shown


def test_the_compiled_half_shows_bars_too(with_tqdm, capsys):
    bgv.SecretKey(bgv.Parameters()).evaluation_keys(rotations=[1], progress=True)
    shown = capsys.readouterr().err
    assert "keys" in shown and ("2/2" if with_tqdm else "2 of 2") in shown
    bgv.SecretKey(bgv.Parameters()).evaluation_keys(rotations=[1], progress=False)
    assert capsys.readouterr().err == ""


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
