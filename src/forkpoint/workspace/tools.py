"""Tools that ship: files and commands in one folder, for a model to work with."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from forkpoint.agents.tool import Approval, Tool, tool
from forkpoint.errors.agents import ToolBadDefinition
from forkpoint.workspace.tooling.commands import DRAIN_S, GRACE_S, REAP_S, ShellTool
from forkpoint.workspace.tooling.files import FileTools
from forkpoint.workspace.tooling.reach import reach_of
from forkpoint.workspace.tooling.searching import SearchTools

__all__ = ["file_tools"]

MAX_READ_BYTES = 100_000
MAX_OUTPUT_BYTES = 30_000
TIMEOUT_S = 120.0
SEARCH_S = 10.0
CLOSED = (".forkpoint",)


def file_tools(
    root: str | os.PathLike[str] | None = None,
    *,
    shell: bool = True,
    approve_shell: Approval = True,
    closed: Sequence[str] = CLOSED,
    max_read_bytes: int = MAX_READ_BYTES,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
    timeout_s: float = TIMEOUT_S,
    search_s: float = SEARCH_S,
    env: Mapping[str, str] | None = None,
) -> tuple[Tool[..., Any], ...]:
    """``read_file``, ``write_file``, ``edit_file``, ``list_dir``, ``glob``, ``grep`` and ``shell``, bound to ``root``.

    Without ``root`` they are bound to the workspace of the run that calls them, so that one agent serves many runs,
    and a fork works in its own folder; in a run without one a call fails with ``workspace.none``.

    No path leads out of ``root``: not by ``..``, not absolute, not through a link; one that tries is the call's
    failure, and the run goes on. A link that stays inside is followed. Searches follow none. ``closed`` are paths
    below ``root`` that no file tool opens, in any case of their letters (the run's own store, unless you say
    otherwise). A hard link can't be told from a file: writes replace the file, so what it shares is never changed.

    Reading, listing and searching are repeated after a crash, ``write_file`` as well, as it writes a whole file;
    whether a lost ``edit_file`` was made, the file itself tells; after a lost ``shell`` a person is asked.

    ``shell`` is left out if false. Before each command a person is asked, unless ``approve_shell`` is false or a
    predicate on the arguments that says so. A command is **not** confined: it runs as this process's user, with
    all of their rights. Of the environment it sees ``PATH``, ``HOME``, the language and little else, and ``env``.
    It is stopped after ``timeout_s`` or when the run is interrupted, with every process it began (on Linux also
    those that left its process group, as long as they keep their environment).

    A read shows at most ``max_read_bytes``, an output keeps ``max_output_bytes`` from its head and tail, a search
    ends after ``search_s``. Raises ``workspace.refused`` for ``/``, a home folder or no folder,
    ``workspace.unsupported`` on Windows, and ``tool.bad-definition`` for a limit that is not above 0.
    """
    _check_limits(
        max_read_bytes=max_read_bytes, max_output_bytes=max_output_bytes, timeout_s=timeout_s, search_s=search_s
    )
    reach = reach_of(root, closed=closed)
    files = FileTools(reach, max_read_bytes=max_read_bytes)
    search = SearchTools(reach, search_s=search_s)
    made = (
        tool(read_only=True)(files.read_file),
        tool(idempotent=True)(files.write_file),
        tool(reconcile=files.was_edited)(files.edit_file),
        tool(read_only=True)(files.list_dir),
        tool(read_only=True)(search.glob),
        tool(read_only=True)(search.grep),
    )
    if not shell:
        return made
    commands = ShellTool(reach, timeout_s=timeout_s, max_output_bytes=max_output_bytes, env=env)
    # The tool ends its command itself; this limit is for a machine on which even that hangs.
    hangs_after_s = timeout_s + GRACE_S + DRAIN_S + REAP_S + 5
    return (*made, tool(approval=approve_shell, timeout_s=hangs_after_s)(commands.shell))


def _check_limits(**limits: float) -> None:
    for name, limit in limits.items():
        if not limit > 0:
            raise ToolBadDefinition(tool="file_tools", problem=f"{name} is {limit!r}, not above 0")
