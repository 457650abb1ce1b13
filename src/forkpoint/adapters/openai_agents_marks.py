"""What is said about tools of the Agents SDK, by their names, and the tools of Forkpoint's that this makes of them."""

import inspect
import re
from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct

from forkpoint.agents.tool import Approval, Probe, Tool, ToolContext
from forkpoint.agents.tool import tool as made_tool


class Marks(Struct, frozen=True, kw_only=True):
    """What is said about tools, by name: see ``durable``."""

    read_only: Collection[str] = ()
    idempotent: Collection[str] = ()
    reconcile: Mapping[str, Probe] = {}
    approval: Collection[str] | Mapping[str, Approval] = ()
    external: Collection[str] = ()
    attempts: Mapping[str, int] = {}

    def names(self) -> set[str]:
        """Every tool that something is said about."""
        return {name for field in self.__struct_fields__ for name in getattr(self, field)}

    def options(self, name: str) -> dict[str, Any]:
        """What ``fp.tool`` is told of the tool ``name``."""
        approval = self.approval.get(name, False) if isinstance(self.approval, Mapping) else name in self.approval
        return {
            "read_only": name in self.read_only,
            "idempotent": name in self.idempotent,
            "reconcile": _as_probe(self.reconcile.get(name)),
            "approval": approval,
            "external": name in self.external,
            "attempts": self.attempts.get(name),
        }


def _as_probe(probe: Probe | None) -> Probe | None:
    """A probe whose ``ToolContext`` has no name, so that an argument of a call may have any."""
    if probe is None:
        return None

    async def asked_async(ctx: ToolContext, /, **arguments: Any) -> Any:
        return await probe(ctx, **arguments)  # type: ignore[misc]

    def asked(ctx: ToolContext, /, **arguments: Any) -> Any:
        return probe(ctx, **arguments)

    return asked_async if inspect.iscoroutinefunction(probe) else asked


def declared(
    name: str, marks: Marks, *, description: str, parameters: Mapping[str, Any], timeout_s: float | None = None
) -> Tool[..., Any]:
    """The tool that calls of ``name`` are on record as; its work is done by whoever asks for it."""

    options = marks.options(name)
    make = made_tool(
        name=re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64],
        description=description,
        parameters={"type": "object", **parameters},
        timeout_s=None if options["external"] else timeout_s,
        **options,
    )
    return make(performed_elsewhere)


def performed_elsewhere(**arguments: Any) -> Any:
    """The body of a tool or step that whoever asks for it performs; never called."""
    raise AssertionError("whoever asks for it performs it")
