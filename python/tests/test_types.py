"""Type checks: of the package, of the examples that people copy, and of the compiled half against its stubs."""

import ast
import doctest
import os
import subprocess
import sys
from pathlib import Path

from conftest import ROOT

PACKAGE = ROOT / "python" / "python"
PAGES = ["book/src/guides/compute.md", "book/src/guides/python.md", "README.md", "python/README.md"]


def texts():
    """Texts with examples, each with a name that is valid for a module."""
    for page in PAGES:
        yield "".join(letter if letter.isalnum() else "_" for letter in page), (ROOT / page).read_text()
    for path in sorted((PACKAGE / "tobari").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                name = getattr(node, "name", "module")
                yield f"{path.stem}_{name}_{getattr(node, 'lineno', 0)}", ast.get_docstring(node) or ""


def examples():
    """The code after `>>>`, by the same name."""
    parser = doctest.DocTestParser()
    sources = {name: "".join(example.source for example in parser.get_examples(text)) for name, text in texts()}
    return {name: source for name, source in sources.items() if source}


def mypy(folder, *words):
    """The output of mypy, and whether it succeeded."""
    kept = Path(os.environ["CARGO_TARGET_DIR"]) / "python" if "CARGO_TARGET_DIR" in os.environ else folder
    command = [sys.executable, "-m", "mypy", "--strict", "--allow-redefinition", "--cache-dir", kept / "mypy", *words]
    environment = {**os.environ, "MYPYPATH": str(PACKAGE)}
    found = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=folder, env=environment)
    return found.stdout + found.stderr, found.returncode == 0


def test_types_of_the_package_and_of_all_examples_hold(tmp_path):
    found = examples()
    # the four pages, and most modules
    assert len(found) > 8 and all("tobari" in source for source in found.values())
    for name, source in found.items():
        (tmp_path / f"{name}.py").write_text(source)
    said, well = mypy(tmp_path, "-p", "tobari", *(word for name in found for word in ("-m", name)))
    assert well, said


#: A line with an error, and the error.
WRONG = {
    "bgv.SecretKey('bgv-c')": "arg-type",
    "infer.Server(infer.Model.digits()).run('question')": "arg-type",
    "search.Table.from_keys([('text', 1)])": "list-item",
    "sense.Server(b'', {}).answer('question', 0)": "arg-type",
    "plan.matrix(4, 12)": "call-arg",
    "class Key(search.Table): ...": "misc",
}


def test_types_that_are_wrong_are_found(tmp_path):
    (tmp_path / "wrong.py").write_text("\n".join(["from tobari import bgv, infer, plan, search, sense", *WRONG]))
    said, well = mypy(tmp_path, "-m", "wrong")
    found = [line for line in said.splitlines() if ": error: " in line]
    assert not well and len(found) == len(WRONG), said
    for number, (line, kind) in enumerate(zip(found, WRONG.values()), 2):
        assert line.startswith(f"wrong.py:{number}:") and line.endswith(f"[{kind}]"), said


def test_stubs_are_those_of_what_was_compiled(tmp_path):
    # parts of a compiled module are not files: they must be in `sys.modules`, where imports look first
    code = (
        "import sys; from tobari import _native\n"
        "for room in ('bgv', 'ckks', 'infer', 'plan', 'search', 'sense'):\n"
        "    sys.modules[f'tobari._native.{room}'] = getattr(_native, room)\n"
        "from mypy.stubtest import parse_options, test_stubs\n"
        "sys.exit(test_stubs(parse_options(sys.argv[1:])))\n"
    )
    command = [sys.executable, "-c", code, "tobari._native", "tobari.bgv", "tobari.ckks", "--ignore-disjoint-bases"]
    found = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert found.returncode == 0, found.stdout + found.stderr
