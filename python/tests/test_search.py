import pickle

import numpy as np
import pytest

import tobari
from tobari import search


def entries(count, seed=1):
    rng = np.random.default_rng(seed)
    return [(b"key-%d" % number, int(rng.integers(1, 1000))) for number in range(count)]


def panel(sites=40, haplotypes=60, seed=3, **more):
    """A panel of a few founders, so that patterns repeat."""
    rng = np.random.default_rng(seed)
    founders = rng.integers(0, 2, size=(sites, 5))
    alleles = founders[:, rng.integers(0, 5, size=haplotypes)]
    positions = [1000 + 10 * site for site in range(sites)]
    table = search.Table.from_panel(alleles, positions, ["A"] * sites, ["G"] * sites, chromosome="chr20", **more)
    return alleles, table


@pytest.fixture(scope="module")
def client():
    return search.Client()


def test_counts_of_keys_equal_those_of_the_table(client):
    known = entries(3000)
    table = search.Table.from_keys(known, label="codes")
    assert len(table) == 3000 and table.kind == "keys" and table.label == "codes"
    server = search.Server(table)
    for key, count in known[::600]:
        assert table.count(key=key) == count
        assert client.ask(server, key=key) == search.Found(True, count)
    assert client.ask(server, key="nowhere") == search.Found(False)
    assert client.ask(server, key=known[0][0], counts=False) == search.Found(True, None)


@pytest.mark.parametrize("how", [{"public": True}, {"least_places": 33}])
def test_counts_of_haplotypes_equal_those_of_numpy(client, how):
    alleles, table = panel()
    server = search.Server(table)
    rng = np.random.default_rng(4)
    for _ in range(8):
        start, length, column = rng.integers(0, 30), rng.integers(1, 8), rng.integers(0, 60)
        pattern = alleles[start : start + length, column].copy()
        pattern[-1] ^= rng.integers(0, 2)
        plain = int((alleles[start : start + length] == pattern[:, None]).all(axis=0).sum())
        asked = {"site": f"chr20:{1000 + 10 * start}", "alleles": "".join(map(str, pattern))}
        assert table.count(**asked) == plain
        found = client.ask(server, **how, **asked)
        assert (found.count or 0, found.present) == (plain, plain > 0)


class Watched:
    """A server, with everything that a client lets it see: each call, its lengths, and what names a layout."""

    def __init__(self, server):
        self.server, self.seen, self.names = server, [], []

    def __getattr__(self, name):
        found = getattr(self.server, name)
        if not callable(found) or name in ("client",):
            return found

        def call(*args):
            self.seen.append((name, *(self.shown(name, arg) for arg in args)))
            return found(*args)

        return call

    def shown(self, name, arg):
        if isinstance(arg, str):
            return arg
        if not isinstance(arg, bytes):
            return arg.set
        named = b""
        if name == "answer_hidden":
            named = arg[:51]
            # a server draws the names of its layouts
            if named not in self.names:
                self.names.append(named)
        return (len(arg), self.names.index(named) if named else None)


#: Sites of one cell: listed ones, one that the table does not list, and one without room for four alleles.
ALIKE = ["chr20:1000", "chr20:1170", "chr20:1360", "chr20:1003", "chr20:1390"]


def history(site, servers):
    """What servers see of questions about a site, asked again and again by a client that comes back."""
    client, seen = search.Client(), []
    for server in servers:
        watched = Watched(server)
        for _ in range(2):
            try:
                found = client.ask(watched, site=site, alleles="0101", least_places=30).count
            except tobari.Error as error:
                found = str(error)
        seen.append((watched.seen, found))
        client = search.Client.from_bytes(client.to_bytes())
    return [calls for calls, _ in seen], seen[-1][1]


@pytest.mark.parametrize("labels", [False, True])
def test_sites_of_a_cell_that_are_listed_or_not_show_the_server_the_same_in_a_whole_history(labels):
    _, table = panel()
    seen, found = zip(*(history(site, [search.Server(table, labels=labels) for _ in range(2)]) for site in ALIKE))
    assert len(seen[0][0]) >= 4 and all(one == seen[0] for one in seen)
    assert list(found[:3]) == [table.count(site=site, alleles="0101") or None for site in ALIKE[:3]]
    assert "expected the position of a site" in found[3] and "4 sites" in found[4]


def test_sites_of_a_whole_table_that_are_listed_or_not_show_the_server_the_same(serve, tmp_path):
    _, table = panel()
    (tmp_path / "panel.tsi").write_bytes(table.to_bytes())
    for mode in ([], ["--malicious"]):
        url = serve("--search", tmp_path / "panel.tsi", "--hidden", "4", *mode)
        seen, found = zip(*(history(site, [search.Remote(url), search.Remote(url)]) for site in ALIKE))
        assert len(seen[0][0]) >= 3 and all(one == seen[0] for one in seen)
        assert found[0] == (table.count(site=ALIKE[0], alleles="0101") or None) and "4 sites" in found[4]


def test_a_cell_with_too_few_places_is_not_asked():
    _, table = panel()
    watched, client = Watched(search.Server(table)), search.Client()
    with pytest.raises(tobari.Error, match="the cell 20:1-1000000 has 37 places for 4 sites, fewer than 38.*public=True"):
        client.ask(watched, site="chr20:1000", alleles="0101", least_places=38)
    with pytest.raises(tobari.Error, match="longest together with public"):
        client.ask(watched, site="chr20:1000", alleles="0101", longest=True)
    assert watched.seen == []


def test_a_table_that_is_replaced_and_a_key_that_is_used_up_are_asked_again():
    alleles, table = panel()
    server, client = search.Server(table, uses=2), search.Client()
    asked = {"site": "chr20:1050", "alleles": "1"}
    for _ in range(5):
        assert client.ask(server, least_places=40, **asked).count == table.count(**asked)
    server._desk.serve(table)  # the cell is arranged anew, under another name
    assert client.ask(server, least_places=40, **asked).count == alleles[5].sum()


def test_the_longest_match_equals_that_of_numpy(client):
    alleles, table = panel()
    server = search.Server(table)
    pattern = alleles[5:13, 7].copy()
    pattern[5] ^= 1
    expected = max(k for k in range(9) if (alleles[5 : 5 + k] == pattern[:k, None]).all(axis=0).any())
    text = "".join(map(str, pattern))
    assert table.longest("chr20:1050:A:G", text) == expected
    assert client.ask(server, site="chr20:1050", alleles=text, longest=True, public=True).alleles == expected


def test_what_is_rare_is_as_if_it_were_absent(client):
    table = search.Table.from_keys([(b"rare", 2), (b"common", 50)], min_count=5)
    server = search.Server(table)
    assert server.catalogue.min_count == 5
    assert [client.ask(server, key=key).count for key in ("rare", "common")] == [None, 50]


def test_tables_and_clients_come_back_from_their_bytes(tmp_path, client):
    table = search.Table.from_keys(entries(100))
    again = search.Table.from_bytes(table.to_bytes())
    assert again.to_bytes() == table.to_bytes() and again.name == table.name
    (tmp_path / "table.tsi").write_bytes(table.to_bytes())
    assert search.load_table(tmp_path / "table.tsi").count(key=b"key-7") == dict(entries(100))[b"key-7"]
    client.save(tmp_path / "key")
    assert search.Client.load(tmp_path / "key").name == client.name
    for wrong in (b"", table.to_bytes()[:-1]):
        with pytest.raises(tobari.DecodeError):
            search.Table.from_bytes(wrong)
    with pytest.raises(tobari.DecodeError):
        search.Catalogue(table.told()[:-1])


def test_a_table_of_a_vcf_file_is_that_of_its_alleles(tmp_path):
    alleles, table = panel(sites=6, haplotypes=4)
    head = "##fileformat=VCFv4.2\n##contig=<ID=chr20>\n##FORMAT=<ID=GT,Number=1,Type=String,Description=\"G\">\n"
    lines = [head + "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ts1\ts2"]
    for site, row in enumerate(alleles):
        genotypes = f"{row[0]}|{row[1]}\t{row[2]}|{row[3]}"
        lines.append(f"chr20\t{1000 + 10 * site}\t.\tA\tG\t.\tPASS\t.\tGT\t{genotypes}")
    (tmp_path / "panel.vcf").write_text("\n".join(lines) + "\n")
    read = search.Table.from_vcf(tmp_path / "panel.vcf")
    assert search.Catalogue(read.told()).sites == [f"chr20:{1000 + 10 * site}:A:G" for site in range(6)]
    for site in range(6):
        assert read.count(site=f"chr20:{1000 + 10 * site}", alleles="1") == alleles[site].sum()
    with pytest.raises(tobari.Error):
        search.Table.from_vcf(tmp_path / "missing.vcf")


def test_questions_that_the_table_has_no_answer_to_are_refused(client):
    keys, sites = search.Server(search.Table.from_keys(entries(10))), search.Server(panel()[1])
    for server, question in [
        (keys, {"site": "chr20:1000", "alleles": "01"}),
        (keys, {}),
        (sites, {"key": "K"}),
        (sites, {"site": "chr20:1000"}),
        (sites, {"site": "chr20:1001", "alleles": "01", "least_places": 30}),
        (sites, {"site": "chr20:1000", "alleles": "02"}),
        (sites, {"site": "chr20:1390", "alleles": "01", "least_places": 30}),
        (sites, {"site": "chr20:1001", "alleles": "01", "public": True}),
        (sites, {"site": "chr20:1390", "alleles": "01", "public": True}),
    ]:
        with pytest.raises(tobari.Error, match="expected"):
            client.ask(server, **question)
    for alleles in ([[0, 2]], [[0.5, 1]], [0, 1]):
        with pytest.raises(tobari.Error):
            search.Table.from_panel(alleles, [1], ["A"], ["G"])


def test_budgets_end_and_a_used_key_is_replaced():
    client, known = search.Client(), dict(entries(50))
    server = search.Server(search.Table.from_keys(known.items()), tests=6, uses=2)
    for number in range(6):
        assert client.ask(server, key=f"key-{number}").count == known[b"key-%d" % number]
    assert server.tests_left(client.name) == 0
    with pytest.raises(tobari.Refused, match="budget of 6 tests"):
        client.ask(server, key="key-1")


def test_answers_that_are_none_are_refused(client):
    server = search.Server(search.Table.from_keys(entries(10)))
    prepared = client.prepare(server.catalogue, key="key-1")
    key = client.key(prepared.set)
    server.register(client.name, key)
    answer = server.answer(prepared.query(key, client.name))
    assert prepared.read(key, answer)[0]
    for wrong in (b"", answer[:-1], answer + b"\0"):
        with pytest.raises(tobari.DecodeError):
            prepared.read(key, wrong)
    with pytest.raises(tobari.Refused):
        server.answer(b"no query")


def test_secrets_are_neither_printed_nor_pickled(client):
    assert client.to_bytes().hex()[8:] not in repr(client)
    with pytest.raises(TypeError):
        pickle.dumps(client)


def test_a_server_over_http_answers_the_same(serve, tmp_path):
    known = entries(200)
    (tmp_path / "codes.tsi").write_bytes(search.Table.from_keys(known, label="codes").to_bytes())
    alleles, table = panel(label="panel")
    (tmp_path / "panel.tsi").write_bytes(table.to_bytes())
    url = serve("--search", tmp_path / "codes.tsi", "--search", tmp_path / "panel.tsi")
    client = search.Client()
    codes = search.Remote(url, table="codes")
    for key, count in known[:2]:
        assert client.ask(codes, key=key).count == count
    sites = search.Remote(url, table="panel")
    pattern = "".join(map(str, alleles[3:9, 0]))
    asked = {"site": "chr20:1030", "alleles": pattern}
    assert client.ask(sites, public=True, **asked).count == table.count(**asked)
    assert client.ask(sites, least_places=30, **asked).count == table.count(**asked)
    whole = search.Remote(serve("--search", tmp_path / "panel.tsi", "--hidden", "6"))
    assert whole.hidden == ["6"]
    assert client.ask(whole, least_places=30, **asked).count == table.count(**asked)
    with pytest.raises(tobari.Error, match="2 tables fit"):
        search.Remote(url)
