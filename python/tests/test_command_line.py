"""Files of this package work on the command line, and the other way round."""

import json
import subprocess

import pytest
from conftest import tool

from tobari import infer, search, sense


@pytest.fixture
def tobari(binary, tmp_path):
    def run(*words):
        found = subprocess.run([str(word) for word in (binary, *words)], capture_output=True, text=True, cwd=tmp_path)
        assert found.returncode == 0, found.stderr
        return found.stdout

    return run


def test_a_question_of_one_is_answered_by_the_other_and_opened_by_both(tobari, tmp_path):
    server = infer.Server(infer.Model.digits())
    client = infer.Client(server.card, server.digest)
    client.save(tmp_path / "infer.key")
    (tmp_path / "image.enc").write_bytes(client.encrypt(infer.draw_digit(4)))
    tobari("infer", "run", "image.enc", "-o", "answer.enc", "--key", "infer.key")
    assert client.decrypt((tmp_path / "answer.enc").read_bytes()).label == 4
    assert json.loads(tobari("infer", "decrypt", "answer.enc", "--key", "infer.key", "--json"))["label"] == 4
    tobari("infer", "keygen", "-o", "theirs.key")
    theirs = infer.Client.load(tmp_path / "theirs.key")
    assert theirs.ask(server, infer.draw_digit(6)).label == 6


def test_tables_and_keys_of_searches_are_the_same(tobari, tmp_path):
    table = search.Table.from_keys([(b"alpha", 3), (b"beta", 5)])
    (tmp_path / "table.tsi").write_bytes(table.to_bytes())
    assert json.loads(tobari("search", "check", "table.tsi", "--key-value", "beta", "--json"))["count"] == 5
    (tmp_path / "keys.tsv").write_text("gamma\t7\n")
    tobari("search", "index", "--table", "keys.tsv", "-o", "theirs.tsi")
    tobari("search", "keygen", "-o", "search.key")
    client = search.Client.load(tmp_path / "search.key")
    assert client.ask(search.Server(search.load_table(tmp_path / "theirs.tsi")), key="gamma").count == 7


def test_a_key_holders_folder_is_the_same(tobari, tmp_path):
    schema = {"profile": "u25", "channel": [{"name": "t"}]}
    holder = sense.KeyHolder(schema)
    token = holder.add("attic", tenant="north")
    holder.save(tmp_path / "holder")
    tobari("sense", "provision", "holder", "cellar", "--token")
    (tmp_path / "question.toml").write_text(
        'name = "q"\nleast-devices = 2\nwindow = { length = "1m" }\n[[statistic]]\nkind = "sum"\nchannel = "t"\n'
    )
    tobari("sense", "query", "holder", "question.toml")
    # a device added here seals on the command line
    (tmp_path / "attic.device").write_text(token + "\n")
    device = holder.open_device(token, tmp_path / "attic.device.counter", new=True)
    frames = device.seal([[10]])
    del device
    (tmp_path / "readings.csv").write_text("20\n")
    tobari("sense", "encrypt", "readings.csv", "--device", "attic.device", "--fleet", "holder/fleet.json", "-o", "frames")
    again = sense.KeyHolder.load(tmp_path / "holder")
    assert {(name, tenant) for name, _, _, tenant in again.devices()} == {("attic", "north"), ("cellar", "")}
    server = sense.Server(*again.bundle())
    assert server.take(frames + [(tmp_path / "frames").read_bytes()], 0)["taken"] == 2
    registered = json.loads(next((tmp_path / "holder" / "questions").glob("*.json")).read_text())
    assert registered["question"]["name"] == "q" and len(registered["order"]["groups"][0]) == 2


def test_exported_frames_and_figures_are_read_by_two_programs_of_others(tobari, binary, tmp_path):
    parquet, duckdb = tool("pyarrow.parquet"), tool("duckdb")
    (tmp_path / "schema.toml").write_text('profile = "u28"\nsamples = 2\n[[channel]]\nname = "load"\nbits = 16\n')
    (tmp_path / "question.toml").write_text(
        'name = "hours"\nleast-devices = 2\nframes = 9\nwindow = { length = "1h" }\n'
        '[[statistic]]\nkind = "sum"\nchannel = "load"\n[[statistic]]\nkind = "count"\n'
    )
    tobari("sense", "keygen", "--schema", "schema.toml", "-o", "holder")
    tobari("sense", "provision", "holder", "a", "b", "-o", "devices")
    tobari("sense", "query", "holder", "question.toml")
    command = [binary, "serve", "--addr", "127.0.0.1:0", "--json", "--until-stdin-closes", "--log", "warn", "--sense", "blind"]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path)
    url = json.loads(server.stdout.readline())["listening"]
    tobari("sense", "keyholder", "holder", "--server", url, "--once")
    start, loads = 1_772_323_200, {"a": [1, 2, 60_000], "b": [4, 5, 6]}
    for device, numbers in loads.items():
        rows = [f"{start + 3600 * (row // 2)},{number}" for row, number in enumerate(numbers)]
        (tmp_path / "readings.csv").write_text("time,load\n" + "\n".join(rows) + "\n")
        words = ("--device", f"devices/{device}.device", "--fleet", "holder/fleet.json", "--time", "time")
        tobari("sense", "encrypt", "readings.csv", *words, "--server", url)
    tobari("sense", "keyholder", "holder", "--server", url, "--once")
    server.communicate(timeout=20)
    tobari("sense", "export", "--figures", "holder", "-o", "figures.parquet")
    tobari("sense", "export", "--frames", "blind", "-o", "frames.parquet")

    expected = [(start, "sum", 12.0), (start, "count", 4.0), (start + 3600, "sum", 60_006.0), (start + 3600, "count", 2.0)]
    figures = parquet.read_table(tmp_path / "figures.parquet").to_pylist()
    found = [(int(row["start"].timestamp()), row["statistic"], row["value"]) for row in figures]
    assert sorted(found) == sorted(expected)
    assert {(row["question"], row["group"], row["devices"]) for row in figures} == {("hours", "all", 2)}
    with duckdb.connect() as database:
        database.execute("set timezone = 'UTC'")
        told = database.execute(
            "select epoch(start)::bigint, statistic, value from read_parquet(?)", [str(tmp_path / "figures.parquet")]
        ).fetchall()
        assert sorted(told) == sorted(expected)
        frames = database.execute(
            "select device, counter, octet_length(frame) from read_parquet(?) order by all", [str(tmp_path / "frames.parquet")]
        ).fetchall()
    again = parquet.read_table(tmp_path / "frames.parquet").to_pylist()
    assert frames == sorted((row["device"], row["counter"], len(row["frame"])) for row in again)
    assert [row[0] for row in frames] == [1, 1, 2, 2] and all(row[2] == 943 for row in frames)
