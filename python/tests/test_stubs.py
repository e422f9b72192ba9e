"""The stubs have exactly the names of the module, and every name has a docstring."""

import ast
import importlib
from pathlib import Path

import pytest

import tobari
from tobari import _native

FOLDER = Path(tobari.__file__).parent
ROOMS = ["bgv", "ckks", "infer", "plan", "search", "sense"]


def stub(room):
    here = FOLDER / f"{room}.pyi"
    return ast.parse((here if here.exists() else FOLDER / "_native" / f"{room}.pyi").read_text())


def public(names):
    return {name for name in names if not name.startswith("_")}


def arguments(function):
    found = function.args
    return [one.arg for one in found.posonlyargs + found.args + found.kwonlyargs if one.arg != "self"]


@pytest.mark.parametrize("room", ROOMS)
def test_stubs_and_classes_have_the_same_names_and_arguments(room):
    module, tree = getattr(_native, room), stub(room).body
    classes = {node.name: node for node in tree if isinstance(node, ast.ClassDef)}
    functions = {node.name: node for node in tree if isinstance(node, ast.FunctionDef)}
    assert public(dir(module)) == set(classes) | set(functions)
    for name, node in functions.items():
        assert signature(getattr(module, name)) == arguments(node), name
    for name, node in classes.items():
        methods = {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}
        found = getattr(module, name)
        assert public(dir(found)) == public(methods), name
        for method, written in methods.items():
            attribute = vars(found).get(method)
            text = getattr(attribute, "__text_signature__", None)
            if text is not None and not method.startswith("_"):
                assert signature(attribute) == arguments(written), f"{name}.{method}"


def signature(function):
    text = getattr(function, "__text_signature__", None) or getattr(function, "__func__").__text_signature__
    tree = ast.parse(f"def f{text.replace('$', '')}: ...").body[0]
    return arguments(tree)


@pytest.mark.parametrize("room", ROOMS)
def test_every_class_and_method_says_what_it_is(room):
    module = getattr(_native, room)
    for name in public(dir(module)):
        found = getattr(module, name)
        assert found.__doc__, name
        for method in public(dir(found)) if isinstance(found, type) else ():
            assert getattr(found, method).__doc__, f"{name}.{method}"


@pytest.mark.parametrize("room", [*ROOMS, "scale"])
def test_every_name_of_a_module_is_there(room):
    module = importlib.import_module(f"tobari.{room}")
    assert module.__doc__ and set(module.__all__) <= set(dir(module))


def test_the_package_is_typed_and_has_the_version_of_the_crate():
    assert (FOLDER / "py.typed").exists()
    assert tobari.__version__ == _native.__version__
