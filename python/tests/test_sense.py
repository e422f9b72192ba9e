import json
import pickle
import time

import numpy as np
import pytest

import tobari
from tobari import sense

SCHEMA = {
    "profile": "u25",
    "samples": 2,
    "channel": [
        {"name": "t", "least": -40, "step": 0.5, "square": True, "edges": [0, 20], "above": [30]},
        {"name": "h", "step": 0.25},
    ],
}
QUESTION = {
    "name": "climate",
    "window": {"length": "1m"},
    "frames": 2,
    "statistic": [
        {"kind": "count"},
        {"kind": "mean", "channel": "t"},
        {"kind": "variance", "channel": "t"},
        {"kind": "sum", "channel": "h"},
        {"kind": "histogram", "channel": "t", "edges": [0, 20]},
        {"kind": "alarm", "channel": "t", "threshold": 30, "at-least": 2},
    ],
}
START = 60_000


class Fleet:
    """Six devices, and rows of readings of each."""

    def __init__(self, folder, question=QUESTION):
        self.holder = sense.KeyHolder(SCHEMA)
        self.names = [f"d{number}" for number in range(6)]
        self.devices = [
            self.holder.device(name, folder / f"{name}.counter", tenant=["north", "south"][number % 2])
            for number, name in enumerate(self.names)
        ]
        rng = np.random.default_rng(5)
        # bytes, so that no reading is rounded
        self.bytes = rng.integers(0, 256, size=(6, 3, 2))
        self.rows = self.bytes * [0.5, 0.25] + [-40, 0]
        self.question = self.holder.register(question)

    def frames(self):
        return [frame for device, rows in zip(self.devices, self.rows) for frame in device.seal(rows)]

    def server(self):
        server = sense.Server(*self.holder.bundle())
        server.order(self.question)
        return server


@pytest.fixture
def fleet(tmp_path):
    return Fleet(tmp_path)


def figures(release):
    return {(row["kind"], row["statistic"], row["channel"]): row for row in release.rows()}


def test_figures_equal_those_of_numpy(fleet):
    server, frames = fleet.server(), fleet.frames()
    assert len(frames) == 12 and {len(frame) for frame in frames} == {840}
    assert server.take(frames, START)["taken"] == 12
    assert server.windows(fleet.question) == [START]
    release = fleet.holder.open(fleet.question, START, server.answer(fleet.question, START))
    assert (release.question, release.start_ms, release.end_ms) == ("climate", START, START + 60_000)
    found, t = figures(release), fleet.rows[..., 0].ravel()
    assert found["count", None, None]["value"] == 18
    assert found["number", "mean", "t"]["value"] == pytest.approx(t.mean(), abs=1e-12)
    assert found["number", "mean", "t"]["exact"] == f"{fleet.bytes[..., 0].sum()}/18"
    assert found["number", "variance", "t"]["value"] == pytest.approx(t.var(), abs=1e-9)
    assert found["number", "sum", "h"]["value"] == pytest.approx(fleet.rows[..., 1].sum(), abs=1e-9)
    bins = [(t < 0).sum(), ((t >= 0) & (t < 20)).sum(), (t >= 20).sum()]
    assert found["histogram", None, "t"]["counts"] == bins
    above = found["above", None, "t"]
    assert (above["count"], above["alarm"]) == ((t > 30).sum(), (t > 30).sum() >= 2)


def test_tenants_stand_apart(tmp_path):
    fleet = Fleet(tmp_path, {**QUESTION, "group-by": "tenant", "least-devices": 3, "statistic": [{"kind": "mean", "channel": "t"}]})
    server = fleet.server()
    server.take(fleet.frames(), START)
    release = fleet.holder.open(fleet.question, START, server.answer(fleet.question, START))
    found = {row["group"]: row["value"] for row in release.rows()}
    assert found == pytest.approx({"north": fleet.rows[::2, :, 0].mean(), "south": fleet.rows[1::2, :, 0].mean()})


def test_a_frame_counts_once_and_others_are_refused_by_their_reason(fleet):
    server, frames = fleet.server(), fleet.frames()
    server.take(frames, START)
    forged = bytearray(frames[1])
    forged[90] ^= 1
    found = server.take([frames[0], bytes(forged), frames[2][:-1]], START + 1)
    assert (found["taken"], found["duplicate"], found["forged"], found["malformed"]) == (0, 1, 1, 1)
    assert server.counts()["taken"] == 12


def test_a_result_is_opened_once_and_nothing_else_is(fleet):
    server = fleet.server()
    server.take(fleet.frames(), START)
    result = server.answer(fleet.question, START)
    for wrong in (b"", result[:-1], result[: len(result) // 2]):
        with pytest.raises(tobari.Withheld):
            # another window each time: a decrypted window is not decrypted again
            fleet.holder.open(fleet.question, START + 60_000 * (1 + len(wrong)), wrong)
    fleet.holder.open(fleet.question, START, result)
    with pytest.raises(tobari.Withheld):
        fleet.holder.open(fleet.question, START, result)


def test_of_too_few_devices_there_is_no_result(fleet):
    server = fleet.server()
    for device, rows in list(zip(fleet.devices, fleet.rows))[:4]:
        server.take(device.seal(rows), START)
    assert server.answer(fleet.question, START) is None


def test_what_might_overflow_and_what_is_no_question_is_refused(fleet):
    for wrong in (
        {**QUESTION, "statistic": [{"kind": "mean", "channel": "nothing"}]},
        {**QUESTION, "window": {"length": "one minute"}},
        {**QUESTION, "weights": {"d1": 2}, "statistic": [{"kind": "weighted-sum", "channel": "t"}]},
        {**QUESTION, "weights": dict.fromkeys(fleet.names, 10**9), "statistic": [{"kind": "weighted-sum", "channel": "t"}]},
        {"name": "q"},
    ):
        with pytest.raises(tobari.Error):
            fleet.holder.register(wrong)
    with pytest.raises(tobari.Error):
        sense.KeyHolder({"profile": "u25", "channel": []})


def test_readings_that_the_schema_has_no_bytes_for_are_refused_without_being_told(fleet):
    for wrong in ([[1e6, 0]], [[1.0]], [1.0, 2.0]):
        with pytest.raises(tobari.Error) as caught:
            fleet.devices[0].seal(wrong)
        assert "1000000" not in str(caught.value)


def test_a_device_goes_on_where_it_stopped_and_is_used_once(tmp_path, fleet):
    token = fleet.holder.add("late")
    server = fleet.server()
    device = fleet.holder.open_device(token, tmp_path / "late.counter", new=True)
    first = device.seal([[1, 1]])
    with pytest.raises(tobari.Error):
        fleet.holder.open_device(token, tmp_path / "late.counter")
    with pytest.raises(tobari.Error):
        fleet.holder.open_device(token, tmp_path / "late.counter", new=True)
    del device
    second = fleet.holder.open_device(token, tmp_path / "late.counter").seal([[1, 1]])
    assert server.take(first + second, START)["taken"] == 2
    assert token not in repr(fleet.holder)


def test_a_key_holders_folder_is_kept_and_revoked_devices_are_refused(tmp_path, fleet):
    fleet.holder.revoke("d1")
    fleet.holder.save(tmp_path / "holder")
    again = sense.KeyHolder.load(tmp_path / "holder")
    assert again.fleet == fleet.holder.fleet and again.devices() == fleet.holder.devices()
    assert {state for name, _, state, _ in again.devices() if name == "d1"} == {"revoked"}
    server = sense.Server(*again.bundle())
    found = server.take(fleet.frames(), START)
    assert (found["taken"], found["revoked"]) == (10, 2)


def test_what_became_of_a_result_is_kept_with_its_folder(tmp_path, fleet):
    server, folder = fleet.server(), tmp_path / "holder"
    server.take(fleet.frames(), START)
    result = server.answer(fleet.question, START)
    fleet.holder.save(folder)
    with pytest.raises(tobari.Withheld):
        fleet.holder.open(fleet.question, START + 60_000, result[:-1])
    again = sense.KeyHolder.load(folder)
    assert again.questions == {"climate": fleet.question}
    again.open(again.questions["climate"], START, result)
    assert {path.name for path in (folder / "releases" / fleet.question.id).iterdir()} == {"60000.json", "120000.json"}
    for start in (START, START + 60_000):
        with pytest.raises(tobari.Withheld):
            sense.KeyHolder.load(folder).open(fleet.question, start, result)
    kept = json.loads((folder / "releases" / fleet.question.id / "60000.json").read_text())
    assert kept["question"] == "climate"
    # devices that another process added are not lost
    third = sense.KeyHolder.load(folder)
    again.add("one")
    third.add("two")
    assert {name for name, *_ in sense.KeyHolder.load(folder).devices()} == {*fleet.names, "one", "two"}
    assert {path.stat().st_mode & 0o077 for path in folder.rglob("*.json") if path.name != "fleet.json"} == {0}
    assert (folder / "devices").stat().st_mode & 0o077 == 0


def test_a_question_of_a_known_name_is_the_same_or_refused(fleet):
    assert fleet.holder.register(QUESTION) == fleet.question
    with pytest.raises(tobari.Error, match="the name is taken by another question"):
        fleet.holder.register({**QUESTION, "window": {"length": "2m"}})


def test_only_what_changed_is_made_again_for_a_server(fleet):
    told = []
    first, objects = fleet.holder.bundle(lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1] > 1
    assert fleet.holder.bundle() == (first, objects)
    fleet.holder.add("new")
    second, more = fleet.holder.bundle()
    keys = set(json.loads(first)["keys"].values())
    assert second != first and keys <= set(more) and set(more) != set(objects)


def test_secrets_are_neither_printed_nor_pickled(fleet):
    with pytest.raises(TypeError):
        pickle.dumps(fleet.holder)


@pytest.fixture
def release(fleet):
    server = fleet.server()
    server.take(fleet.frames(), START)
    return fleet.holder.open(fleet.question, START, server.answer(fleet.question, START))


def test_a_release_is_a_data_frame(release):
    import pandas

    frame = release.to_pandas()
    assert len(frame) == 6 and frame["start"].iloc[0] == pandas.Timestamp("1970-01-01 00:01", tz="UTC")
    assert frame.set_index("statistic")["value"]["mean"] == figures(release)["number", "mean", "t"]["value"]


def test_a_release_is_a_table_of_arrow(release):
    table = release.to_arrow()
    assert table.num_rows == 6 and table.column("counts").to_pylist()[4] == figures(release)["histogram", None, "t"]["counts"]


def test_a_server_over_http_sums_the_same(serve, tmp_path):
    fleet = Fleet(tmp_path, {**QUESTION, "window": {"length": "1s"}})
    remote = sense.Remote(serve("--sense", tmp_path / "blind"), fleet.holder.fleet)
    bundle = fleet.holder.bundle()
    assert remote.give(*bundle) == len(bundle[1]) and remote.give(*bundle) == 0
    remote.order(fleet.question)
    frames = fleet.frames()
    time.sleep(max(0.0, 0.1 - time.time() % 1))
    time.sleep((1.1 - time.time() % 1) % 1)
    assert remote.take(frames)["taken"] == 12
    for _ in range(100):
        windows = remote.windows(fleet.question)
        if windows:
            break
        time.sleep(0.1)
    result = remote.answer(fleet.question, windows[0])
    remote.done(fleet.question, windows[0])
    release = fleet.holder.open(fleet.question, windows[0], result)
    assert figures(release)["number", "mean", "t"]["exact"] == f"{fleet.bytes[..., 0].sum()}/18"


def test_readings_count_in_the_window_of_their_own_time(tmp_path):
    schema = {
        "profile": "u28",
        "samples": 4,
        "slice": "15m",
        "channel": [{"name": "energy", "bits": 32}, {"name": "g", "length": 3, "bits": 16}],
    }
    holder = sense.KeyHolder(schema)
    devices = [holder.device(f"d{i}", tmp_path / f"{i}.counter") for i in range(5)]
    statistics = [{"kind": "count"}, {"kind": "sum", "channel": "energy"}, {"kind": "mean", "channel": "g"}]
    asked = holder.register({"name": "q", "window": {"length": "1h"}, "frames": 9, "statistic": statistics})
    server = sense.Server(*holder.bundle())
    server.order(asked)
    start = 1_772_323_200
    rows, now = [[4_000_000_000, 1, 2, 65_535], [7, 3, 4, 5], [9, 5, 6, 7]], 1000 * start
    for device in devices:
        frames = device.seal(rows, times=[start + 4000, start, start + 3599.5])
        assert [len(frame) for frame in frames] == [943] * 3  # a frame for each slice
        assert server.take(frames, now)["taken"] == 3
    assert server.windows(asked) == [1000 * start, 1000 * (start + 3600)]
    release = holder.open(asked, 1000 * start, server.answer(asked, 1000 * start))
    found = [(row["statistic"], row["channel"], row["value"]) for row in release.rows()]
    assert found == [(None, None, 10), ("sum", "energy", 80.0)] + [("mean", f"g[{i}]", 4.0 + i) for i in range(3)]
    assert release.to_pandas()["channel"].tolist()[2:] == ["g[0]", "g[1]", "g[2]"]
    # a clock that was not set, and one that is years ahead
    for time in (0, start + 40_000_000):
        assert server.take(devices[0].seal([rows[0]], times=[time]), now)["untimely"] == 1
    for wrong, what in (([1, 2], "a time for each of 1 rows"), ([-1], "seconds since 1970"), ([float("nan")], "1970")):
        with pytest.raises(tobari.Error, match=what):
            devices[0].seal([rows[0]], times=wrong)


def test_long_rows_have_a_question_for_each_frame(tmp_path):
    schema = {"profile": "u28", "slice": "1h", "channel": [{"name": "t"}, {"name": "v", "length": 300, "bits": 16}]}
    holder = sense.KeyHolder(schema)
    devices = [holder.device(f"d{i}", tmp_path / f"{i}.counter") for i in range(5)]
    about = {"name": "q", "window": {"length": "1h"}, "statistic": [{"kind": "sum", "channel": "t"}, {"kind": "sum", "channel": "v"}]}
    with pytest.raises(tobari.Error, match="register_all"):
        holder.register(about)
    assert holder.questions == {}, "nothing was registered"
    holder.save(tmp_path / "holder")
    asked = holder.register_all(about)
    assert [one.sheet for one in asked] == list(range(len(asked))) and len(asked) == 3
    assert holder.register_all(about) == asked, "a second time is no change"
    # a call that ended between two files is completed
    (tmp_path / "holder" / "questions" / f"{asked[1].id}.json").unlink()
    again = sense.KeyHolder.load(tmp_path / "holder")
    assert len(again.questions) == 2 and again.register_all(about) == asked
    with pytest.raises(tobari.Error, match="name is taken"):
        holder.register_all({**about, "window": {"length": "1d"}})
    server = sense.Server(*holder.bundle())
    start, vector = 1_772_323_200, np.arange(300) * 200
    for one in asked:
        server.order(one)
    for i, device in enumerate(devices):
        assert server.take(device.seal([[i, *vector]], times=[start]), 1000 * start)["taken"] == 3
    # a later run goes on with the stored folder
    holder = sense.KeyHolder.load(tmp_path / "holder")
    assert sorted(holder.questions.values(), key=lambda one: one.sheet) == asked
    found = {}
    for one in asked:
        [window] = server.windows(one)
        release = holder.open(one, window, server.answer(one, window))
        found.update({row["channel"]: row["value"] for row in release.rows()})
    assert found == {"t": 10.0, **{f"v[{i}]": 5.0 * value for i, value in enumerate(vector)}}


def test_windows_of_the_calendar_begin_at_midnight_of_their_zone(tmp_path):
    from datetime import datetime, timezone

    holder = sense.KeyHolder({"profile": "u28", "slice": "1h", "channel": [{"name": "t"}]})
    devices = [holder.device(f"d{i}", tmp_path / f"{i}.counter") for i in range(5)]

    def register(name, **window):
        return holder.register({"name": name, "window": window, "frames": 99, "statistic": [{"kind": "sum", "channel": "t"}]})

    questions = [register("month", length="1mo"), register("day", length="1d", zone="Europe/Berlin")]
    server = sense.Server(*holder.bundle())
    for question in questions:
        server.order(question)
    # the last hour before summer time, and the first hours of the day after it
    times = [datetime(2026, 3, 28, 22, 30), datetime(2026, 3, 28, 23, 30), datetime(2026, 3, 29, 21, 30), datetime(2026, 3, 29, 22, 30), datetime(2026, 4, 1)]
    times = [time.replace(tzinfo=timezone.utc).timestamp() for time in times]
    for device in devices:
        server.take(device.seal([[1]] * len(times), times=times), int(1000 * times[-1]))
    found = []
    for question in questions:
        for window in server.windows(question):
            [row] = holder.open(question, window, server.answer(question, window)).rows()
            found.append((datetime.fromtimestamp(window / 1000, timezone.utc).isoformat()[:16], row["value"]))
    assert found == [
        ("2026-03-01T00:00", 20.0),
        ("2026-04-01T00:00", 5.0),
        ("2026-03-27T23:00", 5.0),
        ("2026-03-28T23:00", 10.0),  # 23 hours
        ("2026-03-29T22:00", 5.0),
        ("2026-03-31T22:00", 5.0),
    ]
    with pytest.raises(tobari.Error, match="Europe/Berlin"):
        register("other", length="1d", zone="Berlin")


def test_frames_of_version_1_have_no_time(tmp_path):
    device = Fleet(tmp_path).devices[0]
    with pytest.raises(tobari.Error, match="profile u28 or p17"):
        device.seal([[1, 1]], times=[5.0])
