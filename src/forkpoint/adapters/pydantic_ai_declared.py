"""What the user of a Pydantic AI agent says about its tools, and the Forkpoint tools that follow from it."""

import copy
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from msgspec import Struct, structs

from forkpoint.agents.tool import Approval, Probe, Tool, tool
from forkpoint.definition import ToolRecord
from forkpoint.errors.agents import ToolBadDefinition

METADATA = "forkpoint"
"""The key of a tool's own metadata whose value is what the tool says of itself, as options of ``forkpoint.tool``."""

_OPTIONS = frozenset(
    {"read_only", "idempotent", "reconcile", "approval", "external", "attempts", "timeout_s", "inline"}
)
_EMPTY = {"type": "object", "properties": {}}


class Declared(Struct, frozen=True, kw_only=True):
    """Declarations by tool name. ``approval`` may have a predicate for each."""

    read_only: frozenset[str] = frozenset()
    idempotent: frozenset[str] = frozenset()
    reconcile: Mapping[str, Probe] = {}
    approval: Mapping[str, Approval] = {}
    external: frozenset[str] = frozenset()
    inline: frozenset[str] = frozenset()

    def options(self, name: str, metadata: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What is said of ``name``, by the agent's user first, then by the tool itself."""
        said: dict[str, Any] = dict((metadata or {}).get(METADATA) or {})
        if strange := sorted(set(said) - _OPTIONS):
            raise ToolBadDefinition(
                tool=name, problem=f"its metadata says {strange[0]!r}; known are {sorted(_OPTIONS)}"
            )
        classes = {"read_only": name in self.read_only, "idempotent": name in self.idempotent}
        if any(classes.values()) or name in self.reconcile:
            said = {key: value for key, value in said.items() if key not in (*classes, "reconcile")}
        said |= {key: True for key, is_said in classes.items() if is_said}
        said |= {"reconcile": self.reconcile[name]} if name in self.reconcile else {}
        said |= {"approval": self.approval[name]} if name in self.approval else {}
        return said | {key: True for key in ("external", "inline") if name in getattr(self, key)}


def declared(
    *,
    read_only: Collection[str],
    idempotent: Collection[str],
    reconcile: Mapping[str, Probe],
    approval: Collection[str] | Mapping[str, Approval],
    external: Collection[str],
    inline: Collection[str],
) -> Declared:
    """The declarations, checked against each other. Raises ``tool.bad-definition``."""
    names = {"read_only": read_only, "idempotent": idempotent, "external": external, "inline": inline}
    if wrong := next((key for key, given in names.items() if isinstance(given, str)), None):
        raise ToolBadDefinition(tool=str(names[wrong]), problem=f"{wrong} is a set of names, not one name")
    gates = approval if isinstance(approval, Mapping) else dict.fromkeys(approval, True)
    taken: dict[str, str] = {}
    for key, found in {**names, "reconcile": reconcile}.items():
        for name in found:
            if name in taken:
                problem = f"{taken[name]} and {key} say different things of it; keep one"
                raise ToolBadDefinition(tool=name, problem=problem)
            taken[name] = key
    if both := sorted(gates.keys() & {*external, *inline}):
        raise ToolBadDefinition(tool=both[0], problem="only what is performed as one effect can be approved")
    sets = {key: frozenset(found) for key, found in names.items()}
    return Declared(reconcile=dict(reconcile), approval=dict(gates), **sets)


def tool_of(definition: Any, said: Declared, *, timeout_s: float | None = None) -> Tool[..., Any]:
    """The Forkpoint tool for one of Pydantic AI's. Raises ``tool.bad-definition``."""
    options = said.options(definition.name, definition.metadata)
    options.pop("inline", None)
    if not options.get("external") and timeout_s is not None:
        options.setdefault("timeout_s", timeout_s)
    schema = definition.parameters_json_schema or _EMPTY
    return tool(
        name=definition.name,
        description=definition.description or "",
        parameters=schema if schema.get("type") == "object" else {**schema, "type": "object"},
        **options,
    )(_elsewhere)


class Known(Struct, frozen=True, kw_only=True):
    """A tool of Pydantic AI's as it was declared: what is said of it, and the Forkpoint tool for it, if it is one."""

    definition: tuple[Any, ...]
    options: dict[str, Any]
    timeout_s: float | None
    tool: Tool[..., Any] | None


class Tools:
    """The tools of one agent, each made anew only where Pydantic AI defines it otherwise than before."""

    def __init__(self, said: Declared) -> None:
        self._said = said
        self._known: dict[str, Known] = {}

    def of(self, name: str, definition: Any, timeout_s: float | None) -> Known:
        """The tool that the model knows as ``name``; ``timeout_s`` is its limit unless another is declared.

        Raises ``tool.bad-definition``.
        """
        asked = (definition.description, definition.parameters_json_schema, definition.metadata, timeout_s)
        known = self._known.get(name)
        if known is None or known.definition != asked:
            known = self._made(name, definition, asked)
        return known

    def _made(self, name: str, definition: Any, asked: tuple[Any, ...]) -> Known:
        options = self._said.options(name, definition.metadata)
        limit = options.get("timeout_s", asked[-1])
        made = None
        if not options.get("inline"):
            made = tool_of(replace(definition, name=name), self._said, timeout_s=limit)
        known = Known(definition=asked, options=options, timeout_s=limit, tool=made)
        with suppress(Exception):  # what cannot be copied cannot be compared later; it is made for each call
            self._known[name] = structs.replace(known, definition=copy.deepcopy(asked))
        return known


def record_of(definition: Any, said: Declared) -> ToolRecord:
    """How a tool stands in a request, also one that is never performed, such as an output tool."""
    if definition.kind == "output":
        plain = {"description": definition.description or "", "parameters": definition.parameters_json_schema}
        return ToolRecord(name=definition.name, **plain)
    return tool_of(definition, said).record()


def _elsewhere(**arguments: Any) -> Any:
    """The body of such a tool lies in Pydantic AI's toolset; what performs it is given with each call."""
