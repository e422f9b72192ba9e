"""The same results on many workers, even if a worker is killed during the job."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import tobari
from conftest import tool
from tobari import _native, infer, scale, search, sense


def keys_table(count=3000):
    rng = np.random.default_rng(7)
    return search.Table.from_keys([(b"key-%d" % number, int(rng.integers(1, 1000))) for number in range(count)])


def search_job(workers):
    """Questions to a table of keys in shards and to a panel split by haplotypes, with the plain counts."""
    client, table = search.Client(), keys_table()
    asked = [{"key": f"key-{number}"} for number in (0, 1, 1499, 2999, 3000)]
    found = [one.count or 0 for one in scale.ShardedSearch(table.shards(4), workers).ask_all(client, asked)]
    assert found == [table.count(key=question["key"].encode()) for question in asked]
    alleles = np.random.default_rng(8).integers(0, 2, size=(30, 5))[:, np.random.default_rng(9).integers(0, 5, size=90)]
    of = lambda part: search.Table.from_panel(part, list(range(1, 31)), ["A"] * 30, ["C"] * 30)
    whole, sharded = of(alleles), scale.ShardedSearch([of(part) for part in np.split(alleles, 3, axis=1)], workers)
    pattern = alleles[4:12, 3].copy()
    text = "".join(map(str, pattern))
    assert sharded.ask(client, site="1:5", alleles=text).count == whole.count(site="1:5", alleles=text)
    pattern[5] ^= 1
    text = "".join(map(str, pattern))
    longest = sharded.ask(client, site="1:5", alleles=text, longest=True)
    assert longest.alleles == whole.longest("1:5", text)
    assert longest.count == whole.count(site="1:5", alleles=text[: longest.alleles])


def infer_job(workers):
    """Ten digits in batches of three."""
    model = infer.Model.digits()
    compiled = model.compile()
    client = infer.Client(compiled.card(), model.digest)
    questions = [client.encrypt(infer.draw_digit(digit)) for digit in range(10)]
    told = []
    sharded = scale.ShardedInfer(model, client.keys(), workers)
    answers = sharded.run(questions, batch=3, progress=lambda *now: told.append(now))
    assert [client.decrypt(answer).label for answer in answers] == list(range(10))
    assert told[-1] == (4, 4)


STATISTIC = [{"kind": "sum", "channel": "t"}, {"kind": "count"}]


def large_fleet(folder, devices=40):
    """More devices than a cohort has, and a question that only nearly all of them answer."""
    holder = sense.KeyHolder({"profile": "u25", "channel": [{"name": "t"}]})
    sealers = [holder.device(f"d{number}", folder / f"{number}.counter", ["a", "b"][number % 2]) for number in range(devices)]
    asked = holder.register({"name": "q", "window": {"length": "1s"}, "least-devices": 36, "statistic": STATISTIC})
    return holder, sealers, asked


def sealed(sealers, readings):
    return [frame for device, reading in zip(sealers, readings) for frame in device.seal([[reading]])]


def figures(release):
    return {row["group"]: (row["value"], count["value"]) for row, count in zip(release.rows()[::2], release.rows()[1::2])}


def sense_job(workers, folder):
    """Windows of a fleet of two cohorts: with all devices, with too few, with none; groups in both cohorts; each device apart; sums in declared parts."""
    holder, sealers, asked = large_fleet(folder)
    tenants = holder.register({"name": "tenants", "window": {"length": "1s"}, "group-by": "tenant", "statistic": STATISTIC})
    apart = holder.register({"name": "apart", "window": {"length": "1s"}, "group-by": "device", "least-devices": 1, "statistic": STATISTIC})
    declared = holder.register({"name": "declared", "window": {"length": "1s"}, "part": 10, "statistic": STATISTIC})
    readings = np.random.default_rng(10).integers(0, 256, size=40)
    frames, told = sealed(sealers, readings), []
    windows = [(asked, 1000, frames), (asked, 2000, frames[:35]), (asked, 3000, [])]
    windows += [(question, 1000, frames) for question in (tenants, apart, declared)]
    windows += [(tenants, 2000, frames[30:])]
    sharded = scale.ShardedSense(*holder.bundle(), workers)
    results = sharded.answers(windows, lambda *now: told.append(now))
    # two cohorts for each window with frames, except the declared one
    assert told[-1] == (11, 11)
    assert results[1] is None and results[2] is None
    opened = {(w[0].id, w[1]): holder.open(w[0], w[1], r) for w, r in zip(windows, results) if r is not None}
    assert figures(opened[asked.id, 1000]) == {"all": (readings.sum(), 40)}
    assert figures(opened[tenants.id, 1000]) == {"a": (readings[::2].sum(), 20), "b": (readings[1::2].sum(), 20)}
    assert figures(opened[apart.id, 1000]) == {f"d{number}": (reading, 1) for number, reading in enumerate(readings)}
    assert figures(opened[declared.id, 1000]) == {"all": (readings.sum(), 40)}
    assert figures(opened[tenants.id, 2000]) == {"a": (readings[30::2].sum(), 5), "b": (readings[31::2].sum(), 5)}


def test_parts_that_are_no_parts_are_refused(tmp_path):
    holder, sealers, asked = large_fleet(tmp_path)
    bundle, objects = holder.bundle()
    readings = np.arange(40)
    divided = _native.sense.split_frames(bundle, b"".join(sealed(sealers, readings)))
    assert sorted(divided) == [0, 1] and len(divided[0]) == 32 * 840
    parts = []
    for frames in divided.values():
        server = _native.sense.Server(bundle, objects)
        server.order(asked.id, asked.order)
        server.take(frames, 1000)
        assert server.answer(asked.id, 1000) is None, "too few of them"
        parts.append(server.answer(asked.id, 1000, part=True))
    merge = lambda found: _native.sense.merge_parts(bundle, asked.order, found)
    with pytest.raises(tobari.Refused, match="every device in one part"):
        merge([parts[0], parts[0]])
    for wrong in (parts[0][:-1], b""):
        with pytest.raises(tobari.DecodeError):
            merge([wrong, parts[1]])
    assert merge(parts[:1]) is None and merge([]) is None
    with pytest.raises(tobari.DecodeError):
        _native.sense.split_frames(bundle, b"no frames")
    # the result of a part is not a result of the whole
    with pytest.raises(tobari.Withheld):
        holder.open(asked, 1000, parts[0])
    assert figures(holder.open(asked, 2000, merge(parts[::-1]))) == {"all": (readings.sum(), 40)}


def test_secrets_of_cohorts_that_are_missing_are_missed_when_they_are_needed(tmp_path):
    holder, sealers, asked = large_fleet(tmp_path)
    bundle, objects = holder.bundle()
    named = json.loads(bundle)
    server = sense.Server(bundle, {name: data for name, data in objects.items() if name not in named["cohorts"][1]})
    server.order(asked)
    server.take(sealed(sealers, np.arange(40)), 1000)
    with pytest.raises(tobari.Error, match="from the key holder"):
        server.answer(asked, 1000)


def test_pieces_one_after_the_other_give_the_results_of_the_whole(tmp_path):
    search_job(scale.Local())
    infer_job(scale.Local())
    sense_job(scale.Local(), tmp_path)


def test_shards_that_cannot_be_added_up_are_refused():
    table, local = keys_table(10), scale.Local()
    for count in (0, 11):
        with pytest.raises(tobari.Error):
            table.shards(count)
    rare = search.Table.from_panel([[0, 1]], [1], ["A"], ["C"], min_count=2)
    for wrong in ([], [table, rare], [rare]):
        with pytest.raises(tobari.Error, match="expected"):
            scale.ShardedSearch(wrong, local)
    with pytest.raises(tobari.Error, match="cut a panel"):
        rare.shards(2)
    with pytest.raises(tobari.Error, match="batch"):
        scale.ShardedInfer(infer.Model.digits(), b"", local).run([], batch=0)


def test_what_a_piece_refuses_is_raised():
    with pytest.raises(tobari.DecodeError):
        scale.Local().map(scale.answer_shard, [(b"no table", b"", "search", b"", b"")])


@pytest.fixture(scope="module")
def cluster():
    """Two nodes on this machine."""
    ray = tool("ray")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False)
    # workers cannot import this file
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def test_a_cluster_of_two_nodes_gives_the_results_of_one_process(cluster, tmp_path):
    workers = scale.Ray()
    search_job(workers)
    infer_job(workers)
    sense_job(workers, tmp_path)
    nodes = workers.map(whereabouts, [(0.3,) for _ in range(4)])
    assert len({node for node, _ in nodes}) == 2


def whereabouts(seconds):
    import ray

    time.sleep(seconds)
    return ray.get_runtime_context().get_node_id(), os.getpid()


def slowly(notes, name, *piece):
    """A piece of a job that names its worker, and leaves time to kill it."""

    def note(word):
        with open(os.path.join(notes, str(os.getpid())), "a") as file:
            file.write(word + "\n")

    note("begun")
    time.sleep(1.0)
    found = getattr(scale, name)(*piece)
    note("done")
    return found


def eight_images(workers, folder):
    model = infer.Model.digits()
    client = infer.Client(model.compile().card(), model.digest)
    questions = [client.encrypt(infer.draw_digit(digit)) for digit in range(8)]
    answers = scale.ShardedInfer(model, client.keys(), workers).run(questions, batch=1)
    assert [client.decrypt(answer).label for answer in answers] == list(range(8))


def two_keys_in_four_shards(workers, folder):
    client, table = search.Client(), keys_table()
    asked = ["key-7", "key-2999"]
    found = scale.ShardedSearch(table.shards(4), workers).ask_all(client, [{"key": key} for key in asked])
    assert [one.count for one in found] == [table.count(key=key.encode()) for key in asked]


def four_windows_of_two_cohorts(workers, folder):
    holder, sealers, asked = large_fleet(folder)
    readings = np.random.default_rng(11).integers(0, 256, size=(4, 40))
    starts = [1000 * (1 + window) for window in range(4)]
    windows = [(asked, start, sealed(sealers, row)) for start, row in zip(starts, readings)]
    results = scale.ShardedSense(*holder.bundle(), workers).answers(windows)
    found = [figures(holder.open(asked, start, result)) for start, result in zip(starts, results)]
    assert found == [{"all": (row.sum(), 40)} for row in readings]


@pytest.mark.parametrize("job", [eight_images, two_keys_in_four_shards, four_windows_of_two_cohorts])
def test_a_worker_killed_in_mid_job_changes_no_result(job, cluster, tmp_path, monkeypatch):
    """Each job has eight pieces."""
    (tmp_path / "notes").mkdir()
    notes = str(tmp_path / "notes")
    workers, killed = scale.Ray(), []
    real = workers.map

    def kill(done, total):
        # after a first finished piece, kill a worker that began a piece less than half a second ago
        for name in os.listdir(notes) if done >= 1 and not killed else ():
            path = os.path.join(notes, name)
            if read(path)[-1] == "begun" and time.time() - os.path.getmtime(path) < 0.5:
                os.kill(int(name), signal.SIGKILL)
                killed.append(int(name))
                return

    def read(path):
        with open(path) as file:
            return file.read().split() or [""]

    def with_a_kill(function, pieces, progress=None):
        return real(slowly, [(notes, function.__name__, *piece) for piece in pieces], kill)

    monkeypatch.setattr(workers, "map", with_a_kill)
    job(workers, tmp_path)
    words = {int(name): read(os.path.join(notes, name)) for name in os.listdir(notes)}
    # another worker ran the killed worker's piece again
    assert len(killed) == 1 and words[killed[0]][-1] == "begun"
    everything = [word for each in words.values() for word in each]
    assert (everything.count("begun"), everything.count("done")) == (9, 8)


def test_without_a_cluster_it_is_said(tmp_path):
    code = "from tobari import scale, Error\ntry: scale.Ray()\nexcept Error as error: print(error)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "expected" in found.stdout and "Ray" in found.stdout
