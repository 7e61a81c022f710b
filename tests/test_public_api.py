"""Facts about the package as a whole: its version, its public names, what importing it costs."""

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from importlib import metadata, resources
from types import ModuleType

import pytest

import conwalk
from conwalk import errors


def _packages() -> list[str]:
    found = pkgutil.walk_packages(conwalk.__path__, prefix="conwalk.")
    return ["conwalk", *(module.name for module in found if module.ispkg)]


def _public(module: ModuleType) -> list[str]:
    return list(getattr(module, "__all__", []))


def test_version_is_that_of_the_metadata():
    assert conwalk.__version__ == metadata.version("conwalk")


def test_console_script_is_the_command_line():
    (script,) = metadata.entry_points(group="console_scripts", name="conwalk")
    assert script.load() is importlib.import_module("conwalk.cli").main


def test_type_marker_is_shipped():
    assert resources.files("conwalk").joinpath("py.typed").is_file()


def test_the_face_of_the_library_is_declared():
    assert _public(conwalk)


@pytest.mark.parametrize("name", _packages())
def test_all_names_exist_once(name: str):
    module = importlib.import_module(name)
    public = _public(module)
    assert [item for item in public if not hasattr(module, item)] == []
    assert len(public) == len(set(public))


@pytest.mark.parametrize("name", _packages())
def test_public_names_have_docstrings(name: str):
    module = importlib.import_module(name)
    objects = {item: getattr(module, item) for item in _public(module)}
    assert [
        item
        for item, thing in objects.items()
        if (inspect.isroutine(thing) or inspect.isclass(thing))
        and not (thing.__doc__ or "").strip()
    ] == []


def test_import_leaves_heavy_libraries_alone():
    heavy = ("transformers", "xarray", "plotly", "pandas", "matplotlib")
    code = f"import sys, conwalk; print(*(m for m in {heavy!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_command_line_shows_help_without_loading_models():
    code = "import sys, conwalk.cli; print('transformers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_exception_tree_is_the_one_drawn():
    drawn = _drawn_parents(errors.__doc__ or "")
    existing = {
        name: thing.__bases__[0].__name__
        for name, thing in vars(errors).items()
        if inspect.isclass(thing) and issubclass(thing, errors.ConwalkError)
    }
    assert drawn == existing | {"ConwalkError": None}


def _drawn_parents(drawing: str) -> dict[str, str | None]:
    """The parent of each class in a tree drawn with box characters, four columns a level."""
    parents: dict[str, str | None] = {}
    path: list[str] = []
    for line in drawing.splitlines():
        if match := re.match(r"    ((?:│   |    )*(?:[├└]── )?)([A-Z]\w*(?:Error))\b", line):
            level = len(match[1]) // 4
            path[level:] = [match[2]]
            parents[match[2]] = path[level - 1] if level else None
    return parents
