"""Servers with labels: a question needs an evaluation, and the user's call is that of any other server."""

import os
import subprocess
import time

import numpy as np
import pytest
from test_search import entries, panel

import tobari
from tobari import search

#: The place shown, and hidden in its cell.
PLACES = [{"public": True}, {"least_places": 30}]
#: A pattern of a panel of `panel()`.
ASKED = {"site": "chr20:1050", "alleles": "1"}


class Renewing(search.Server):
    """Has another key of labels after its next evaluation: the evaluation is paid, and useless."""

    def __init__(self, table, **more):
        super().__init__(table, labels=True, **more)
        self.table, self.renew, self.evaluations = table, False, 0

    def evaluate(self, request):
        reply = super().evaluate(request)
        self.evaluations += 1
        if self.renew:
            self.renew = False
            self.serve(self.table)
        return reply


@pytest.fixture(scope="module")
def client():
    return search.Client()


@pytest.mark.parametrize("how", PLACES)
def test_counts_with_labels_equal_those_without_and_only_evaluations_are_paid(how):
    alleles, table = panel()
    client, server, plain = search.Client(), search.Server(table, region_tests=0, labels=True), search.Server(table)
    rng, present = np.random.default_rng(5), 0
    for asked in range(1, 9):
        start, length, column = rng.integers(0, 30), rng.integers(1, 8), rng.integers(0, 60)
        pattern = alleles[start : start + length, column].copy()
        pattern[-1] ^= rng.integers(0, 2)
        question = {"site": f"chr20:{1000 + 10 * start}", "alleles": "".join(map(str, pattern)), **how}
        expected = int((alleles[start : start + length] == pattern[:, None]).all(axis=0).sum())
        found = client.ask(server, **question)
        assert (found.count or 0, found.present) == (expected, expected > 0)
        assert found == client.ask(plain, **question)
        assert server.tests_left(client.name) == 10_000 - asked  # and none of a region, which has none
        present += found.present
    assert 0 < present < 8
    assert client.ask(server, counts=False, **ASKED, **how) == search.Found(True, None)


def test_a_site_that_is_not_listed_is_evaluated_and_paid_like_any_other():
    _, table = panel()
    client, server = search.Client(), Renewing(table)
    for asked, site in enumerate(("chr20:1050", "chr20:1055", "chr20:1060"), 1):
        question = {"site": site, "alleles": "1", "least_places": 30}
        if site == "chr20:1055":
            with pytest.raises(tobari.Error, match="expected the position of a site"):
                client.ask(server, **question)
        else:
            assert client.ask(server, **question).count == table.count(site=site, alleles="1")
        assert (server.evaluations, server.tests_left(client.name)) == (asked, 10_000 - asked)


def test_keys_and_longest_matches_are_those_of_the_table(client):
    known = entries(300)
    codes = search.Server(search.Table.from_keys(known), labels=True)
    for key, count in known[::100]:
        assert client.ask(codes, key=key) == search.Found(True, count)
    assert client.ask(codes, key="nowhere") == search.Found(False)
    alleles, table = panel()
    sites = search.Server(table, labels=True)
    text = "".join(map(str, alleles[5:13, 7] ^ [0, 0, 0, 0, 0, 1, 0, 0]))
    found = client.ask(sites, site="chr20:1050", alleles=text, longest=True, public=True)
    assert found.alleles == table.longest("chr20:1050", text)
    assert found.count == table.count(site="chr20:1050", alleles=text[: found.alleles])
    assert sites.tests_left(client.name) == 10_000 - len(text)


@pytest.mark.parametrize("how", PLACES)
def test_another_key_of_labels_is_evaluated_under_without_help(how):
    _, table = panel()
    client, server = search.Client(), Renewing(table, uses=2)
    count, evaluations = table.count(**ASKED), 0
    for renew, costs in [(False, 1), (True, 2), (False, 1)]:
        server.renew = renew
        assert client.ask(server, **ASKED, **how).count == count
        evaluations += costs
        assert server.evaluations == evaluations, "a used key of the client needs no second evaluation"
        server.serve(table)  # between two questions, the first evaluation is under the new key
    assert server.tests_left(client.name) == 10_000 - evaluations


@pytest.mark.parametrize("how", PLACES)
def test_a_used_budget_is_a_refusal_with_its_reason_and_the_remedy(how):
    _, table = panel()
    client, server = search.Client(), search.Server(table, tests=2, labels=True)
    for _ in range(2):
        assert client.ask(server, **ASKED, **how).count == table.count(**ASKED)
    with pytest.raises(tobari.Refused, match="budget of 2 tests is used up: ask the server's operator") as refused:
        client.ask(server, **ASKED, **how)
    assert refused.value.reason == "budget"
    assert tobari.Refused("another").reason is None


def test_a_question_for_too_many_labels_costs_no_test():
    _, table = panel()
    client, server = search.Client(), search.Server(table, labels=True, max_labels=12)
    assert client.ask(server, public=True, **ASKED).count == table.count(**ASKED)
    with pytest.raises(tobari.Error, match="at most 12 labels"):
        client.ask(server, site="chr20:1000", alleles="0" * 8, longest=True, public=True)
    with pytest.raises(tobari.Refused, match=r"a cell with at most 96 labels.*public=True") as refused:
        client.ask(server, site="chr20:1000", alleles="0" * 8, least_places=30)
    assert refused.value.reason == "question"
    assert server.tests_left(client.name) == 10_000 - 1


def test_no_answer_comes_without_an_evaluation():
    _, table = panel()
    client, server = search.Client(), search.Server(table, labels=True)
    assert server.catalogue.labels == 1 << 17
    assert client.ask(server, public=True, **ASKED).present and client.ask(server, least_places=30, **ASKED).present
    # a client that asks a server with labels as one without
    plain = search.Catalogue(server.told)
    shown, hidden = plain.prepare(**ASKED), plain.prepare_hidden(**ASKED)
    keys = [client.key(of.set, 7) for of in (client.prepare(server.catalogue, **ASKED), hidden)]
    for key in keys:
        server.register(client.name, key)
    with pytest.raises(tobari.Refused, match="expected a question with labels") as refused:
        server.answer(shown.query(client.key(shown.set), client.name))
    assert refused.value.reason == "mode"
    layout, used = server.layout(hidden.path), server.tests_left(client.name)
    with pytest.raises(tobari.DecodeError):
        hidden.query(layout, keys[1], client.name)  # its numbers are those of labels
    # a question that its program sends without having it evaluated
    for of, query in [
        (client.prepare(server.catalogue, **ASKED), lambda of: of.query(keys[0], client.name)),
        (server.catalogue.prepare_hidden(**ASKED), lambda of: of.query(layout, keys[1], client.name)),
    ]:
        assert of.needs_evaluation
        with pytest.raises(tobari.Error, match="that the server has evaluated"):
            query(of)
        asked = of.evaluation(client.name)
        reply = server.evaluate(asked.request)
        for wrong in (b"", reply[:-1], reply + b"\0"):
            with pytest.raises(tobari.DecodeError):
                of.evaluation(client.name).finish(wrong)
        done = asked.finish(reply)
        assert not done.needs_evaluation and query(done)
        with pytest.raises(tobari.Error, match="one reply to an evaluation"):
            asked.finish(reply)
        with pytest.raises(tobari.Error, match="not evaluated yet"):
            done.evaluation(client.name)
    assert server.tests_left(client.name) == used - 2
    with pytest.raises(tobari.Error, match="not evaluated yet"):
        shown.evaluation(client.name)
    with pytest.raises(tobari.Refused, match="without labels") as refused:
        search.Server(table).evaluate(asked.request)
    assert refused.value.reason == "mode"


def test_answers_can_be_fetched_first_and_read_later(client):
    _, table = panel()
    for labels in (False, True):
        server = search.Server(table, labels=labels)
        unread = [client.fetch(server, **ASKED, **how) for how in PLACES]
        assert [one.read() for one in unread] == 2 * [search.Found(True, table.count(**ASKED))]


def indexed(binary, folder, sites, append=False):
    """A panel of the sites from `sites`, appended to the table there if asked; returns its alleles."""
    rng = np.random.default_rng(7)
    alleles = rng.integers(0, 2, size=(200, 8))[sites]
    lines = ["##fileformat=VCFv4.2", "##contig=<ID=chr20>", '##FORMAT=<ID=GT,Number=1,Type=String,Description="G">']
    lines.append("\t".join(["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT", *"abcd"]))
    for site, row in zip(range(200)[sites], alleles):
        genotypes = [f"{row[2 * sample]}|{row[2 * sample + 1]}" for sample in range(4)]
        lines.append("\t".join(["chr20", str(1000 + 10 * site), ".", "A", "G", ".", "PASS", ".", "GT", *genotypes]))
    (folder / "panel.vcf").write_text("\n".join(lines) + "\n")
    words = [binary, "search", "index", folder / "panel.vcf"]
    if append:
        (folder / "new.tsi").write_bytes((folder / "panel.tsi").read_bytes())
        words += ["--append", "-o", folder / "new.tsi", "--same-phasing"]
    else:
        words += ["-o", folder / "new.tsi", "--label", "panel"]
    subprocess.run([str(word) for word in words], check=True, capture_output=True)
    os.replace(folder / "new.tsi", folder / "panel.tsi")
    return alleles


def replaced(remote, tag):
    """Waits until the server has read its new file."""
    until = time.monotonic() + 20
    while tag in [table["tag"] for table in remote._listed()["tables"]]:
        assert time.monotonic() < until, "the server does not read its new file"
        time.sleep(0.1)


def test_a_server_with_labels_over_http_is_asked_as_any_other(serve, binary, tmp_path):
    alleles = indexed(binary, tmp_path, slice(0, 160))
    known = entries(100)
    (tmp_path / "codes.tsi").write_bytes(search.Table.from_keys(known, label="codes").to_bytes())
    tables = ["--search", tmp_path / "panel.tsi", "--search", tmp_path / "codes.tsi"]
    url = serve("--malicious", "--hidden", "3,keys", *tables, "--budget", "20")
    client, remote, codes = search.Client(), search.Remote(url, "panel"), search.Remote(url, "codes")

    def same(start, length):
        pattern = alleles[start : start + length, 3]
        count = int((alleles[start : start + length] == pattern[:, None]).all(axis=0).sum())
        asked = {"site": f"chr20:{1000 + 10 * start}", "alleles": "".join(map(str, pattern))}
        assert client.ask(remote, public=True, **asked) == search.Found(True, count)
        assert client.ask(remote, **asked) == search.Found(True, count)

    assert remote.catalogue.labels == 1 << 17 and remote.hidden == ["3"]
    same(30, 3)  # hidden in the whole table
    same(31, 2)  # in its cell
    assert client.ask(codes, key=known[7][0]).count == known[7][1]
    hide = codes.catalogue.prepare_hidden
    for key, count in [known[8], (b"nowhere", None)]:
        assert client._fetch_hidden(codes, lambda: hide(key=key, whole=True)).read().count == count
    # the table grows: its earlier sites keep their numbers, and its labels have another key
    tag = remote._tag
    alleles = np.concatenate([alleles, indexed(binary, tmp_path, slice(160, 200), append=True)])
    replaced(remote, tag)
    same(30, 3)
    same(31, 2)
    assert remote._tag != tag
    same(170, 2)
    left = remote._listed()["tests_left"]
    assert left <= 20 - 13
    for _ in range(left):
        client.ask(remote, public=True, **ASKED)
    for how in ({"public": True}, {}):
        with pytest.raises(tobari.Refused, match=r"\(429\): the budget of 20 tests is used up: ask") as refused:
            client.ask(remote, **ASKED, **how)
        assert refused.value.reason == "budget"


def test_a_table_whose_sites_changed_is_asked_no_further(serve, binary, tmp_path):
    indexed(binary, tmp_path, slice(0, 160))
    url = serve("--malicious", "--search", tmp_path / "panel.tsi")
    client, remote = search.Client(), search.Remote(url)
    assert client.ask(remote, public=True, **ASKED) == client.ask(remote, **ASKED)
    tag = remote._tag
    alleles = indexed(binary, tmp_path, slice(1, 160))
    replaced(remote, tag)
    for how in ({"public": True}, {}, {}):
        with pytest.raises(tobari.Error, match="sites of the earlier table changed: connect again"):
            client.ask(remote, **ASKED, **how)
    assert client.ask(search.Remote(url), **ASKED).count == int((alleles[4] == 1).sum())
