"""A folder for tools to work in, and what lies outside of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import forkpoint as fp
from forkpoint.workspace.tools import file_tools


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder beside the root with a secret in it."""
    made = tmp_path / "outside"
    made.mkdir()
    (made / "secret.txt").write_text("SECRET\n")
    return made


@pytest.fixture
def use(root: Path) -> Callable[..., Any]:
    """Call a tool by its name: ``use("read_file", "a.txt")``. ``ctx`` is the call's context."""

    def call(name: str, /, *args: Any, ctx: fp.ToolContext | None = None, options: Any = None, **kwargs: Any) -> Any:
        tools = {tool.name: tool for tool in file_tools(root, **(options or {}))}
        return tools[name](ctx or fp.ToolContext(), *args, **kwargs)

    return call
