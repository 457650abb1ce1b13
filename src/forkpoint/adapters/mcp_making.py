"""Tools of an agent, made from what an MCP server lists and what its user says of it."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypedDict

from forkpoint.adapters.mcp_tools import hinted, names_for
from forkpoint.agents.tool import Approval, Probe, Tool, ToolContext, tool
from forkpoint.errors.mcp import McpBadAnswer, McpNoSuchTool, McpUnreachable
from forkpoint.runtime.arguments import unfit

Perform: TypeAlias = Callable[[ToolContext, str, dict[str, Any]], Awaitable[Any]]
"""Calls a tool of the server, by the server's name for it."""


class McpOptions(TypedDict, total=False):
    """What may be said of a server and its tools. Tools go by the names that the server gives them.

    ``name`` is what errors call the server. ``prefix`` is put before the name of every tool, so that those of two
    servers do not clash. ``trust_hints=True`` takes the server's word for it that a tool is read-only or idempotent;
    ``read_only``, ``idempotent`` and ``reconcile`` (a probe for each tool) say it yourself, and come before any hint.
    ``approval`` is for all tools, or for each by its name. ``timeout_s`` bounds an attempt at a call, ``connect_s``
    (30 if left out) the wait for the server to start and to tell its tools; both are in seconds.
    """

    name: str
    prefix: str
    trust_hints: bool
    read_only: Collection[str]
    idempotent: Collection[str]
    reconcile: Mapping[str, Probe]
    approval: Approval | Mapping[str, Approval]
    timeout_s: float | None
    connect_s: float


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What the user says of a server's tools, by the names that the server gives them."""

    prefix: str = ""
    trust_hints: bool = False
    read_only: Collection[str] = ()
    idempotent: Collection[str] = ()
    reconcile: Mapping[str, Probe] = field(default_factory=dict)
    approval: Approval | Mapping[str, Approval] = False
    timeout_s: float | None = None
    connect_s: float = 30.0

    def __post_init__(self) -> None:
        if not self.connect_s > 0:
            raise unfit("connect_s", self.connect_s, "seconds above 0")
        for name in ("read_only", "idempotent"):
            if isinstance(getattr(self, name), str):
                raise unfit(name, getattr(self, name), "a set or a list of names of tools")
        if not isinstance(self.reconcile, Mapping):
            raise unfit("reconcile", self.reconcile, "a probe for each tool, by its name")

    def named(self) -> Iterable[str]:
        """Every tool that is named."""
        approved = self.approval if isinstance(self.approval, Mapping) else ()
        return (*self.read_only, *self.idempotent, *self.reconcile, *approved)

    def recovery(self, name: str, annotations: Any) -> dict[str, Any]:
        """What is said of a tool, as options of ``tool``. What the user says comes before what the server hints."""
        said: dict[str, Any] = {}
        if name in self.read_only:
            said["read_only"] = True
        if name in self.idempotent:
            said["idempotent"] = True
        if name in self.reconcile:
            said["reconcile"] = self.reconcile[name]
        hint = hinted(annotations) if self.trust_hints and not said else None
        return {hint: True} if hint else said

    def approval_of(self, name: str) -> Approval:
        """Whether a person is asked before a tool is called."""
        return self.approval.get(name, False) if isinstance(self.approval, Mapping) else self.approval


def chosen(options: McpOptions) -> Choices:
    """The options as they are used. Raises ``argument.unfit`` for one that there is not, or that does not fit."""
    known = McpOptions.__annotations__
    strange = next((name for name in options if name not in known), None)
    if strange is not None:
        raise unfit("options", strange, f"any of {', '.join(known)}")
    values: dict[str, Any] = {name: value for name, value in options.items() if name != "name"}
    return Choices(**values)


def made_tools(server: str, listed: Sequence[Any], choices: Choices, perform: Perform) -> tuple[Tool[..., Any], ...]:
    """A tool for each that the server lists. Raises ``mcp.no-such-tool`` and ``tool.bad-definition``."""
    theirs = [one.name for one in listed]
    for name in choices.named():
        if name not in theirs:
            raise McpNoSuchTool(server=server, tool=name, known=", ".join(map(repr, theirs)) or "none")
    names = names_for(theirs, choices.prefix)
    return tuple(_made(one, names[one.name], choices, perform) for one in listed)


def _made(listed: Any, name: str, choices: Choices, perform: Perform) -> Tool[..., Any]:
    said = choices.recovery(listed.name, listed.annotations)
    again = said.get("idempotent", False)

    async def call(ctx: ToolContext, /, **arguments: Any) -> Any:
        try:
            return await perform(ctx, listed.name, arguments)
        except McpBadAnswer as error:
            return error  # it happened, so it is a result, which ``_usable`` refuses
        except McpUnreachable as error:
            if again and (ctx.attempt > 1 or not ctx.cancelled):
                # It may be back soon; and what became of an attempt before, this one does not tell.
                raise ConnectionError(str(error)) from error
            raise

    made = tool(
        name=name,
        description=listed.description or "",
        parameters=listed.input_schema,
        approval=choices.approval_of(listed.name),
        timeout_s=choices.timeout_s,
        validate=_usable,
        **said,
    )(call)
    return replace(made, result=listed.output_schema)


def _usable(value: object) -> None:
    if isinstance(value, McpBadAnswer):
        raise value
