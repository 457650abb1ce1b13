"""What a program may import, and that its names mean one thing."""

import importlib
import pkgutil
from pathlib import Path

import pytest

import forkpoint

EXPORTS = Path(__file__).with_name("exports.txt")


def test_the_exported_names_are_those_on_the_list() -> None:
    """A name is added to the list in its place; one that is gone breaks programs."""
    stored = EXPORTS.read_text("utf-8").split()
    assert stored == sorted(forkpoint.__all__, key=lambda name: (name.lower(), name))


@pytest.mark.parametrize("name", forkpoint.__all__)
def test_every_exported_name_is_there(name: str) -> None:
    assert getattr(forkpoint, name) is not None
    assert name in dir(forkpoint)


def test_no_exported_name_is_also_a_module() -> None:
    modules = {module.name for module in pkgutil.iter_modules(forkpoint.__path__)}
    assert modules & set(forkpoint.__all__) == set()


def test_a_name_that_is_not_there_is_told_as_python_does() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Session'"):
        _ = forkpoint.Session


def test_a_module_says_rightly_what_it_exports() -> None:
    for module in pkgutil.walk_packages(forkpoint.__path__, "forkpoint."):
        if module.name.endswith("__main__"):
            continue
        try:
            loaded = importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            # An adapter needs the library that it adapts, which is an extra.
            assert module.name.startswith("forkpoint.adapters."), module.name
            assert not (error.name or "").startswith("forkpoint")
            continue
        for name in getattr(loaded, "__all__", ()):
            assert hasattr(loaded, name), f"{module.name}.{name}"
