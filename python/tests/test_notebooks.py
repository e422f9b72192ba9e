"""Notebooks: every cell runs in its order, and none keeps an output."""

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_cells_of_a_notebook_run_and_its_results_are_right(path, capsys):
    pytest.importorskip("pandas")
    notebook = json.loads(path.read_text("utf-8"))
    assert notebook["nbformat"] == 4
    names = {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        assert all(len(line) <= 120 for line in source.splitlines()), source
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None
            exec(compile(source, f"{path.name}, {cell['id']}", "exec"), names)
    assert "are right" in capsys.readouterr().out


def test_there_is_a_notebook():
    assert [path.stem for path in NOTEBOOKS] == ["sensors"]
