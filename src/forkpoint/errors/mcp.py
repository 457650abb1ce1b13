"""Errors of MCP servers: not there, lost in the middle, or unwilling."""

from forkpoint.errors._base import ForkpointError


class McpUnreachable(ForkpointError):
    """An MCP server could not be reached, so that a call of its tool was never sent."""

    code = "mcp.unreachable"
    kind = "environment"
    says = "The MCP server {server} cannot be reached: {problem}; nothing was sent"
    why = "The server could not be started, nobody listens at its address, or it did not answer the first greeting."
    fix = "Start the server, or correct its command or address. The next call tries to reach it again."
    server: str
    problem: str


class McpLost(ForkpointError, ConnectionError):
    """An MCP server was lost after a call was sent and before it was answered.

    Nobody knows whether the tool did its work. It is a ``ConnectionError``, so the tool's recovery class decides.
    """

    code = "mcp.lost"
    kind = "environment"
    says = "The MCP server {server} was lost during {tool}: {problem}; the work may have been done"
    why = "The server ended, or the connection to it broke, between the call and its answer."
    fix = "Look at what the tool did outside, then resolve the call. The next call connects again."
    server: str
    tool: str
    problem: str


class McpRefused(ForkpointError):
    """An MCP server answered a call with an error."""

    code = "mcp.refused"
    kind = "environment"
    says = "{server} answered: {detail}"
    why = "The server itself says that the call failed, so its outcome is known and is shown to the model."
    fix = "Read what the server says; correct the arguments, the headers or the server."
    server: str
    detail: str


class McpBadAnswer(ForkpointError):
    """An MCP server did what a call asked, and its answer is not what it had declared."""

    code = "mcp.bad-answer"
    kind = "data"
    says = "{server} answered with something that cannot be used: {problem}"
    why = "The answer breaks the protocol, or does not fit the output schema of the tool. The work was done."
    fix = "Mend the server. Look at what the tool did outside before it is called again."
    server: str
    problem: str


class McpNoSuchTool(ForkpointError):
    """A tool is named that an MCP server does not have."""

    code = "mcp.no-such-tool"
    kind = "usage"
    says = "The MCP server {server} has no tool {tool!r}; it has {known}"
    why = "What is said of a tool would be lost if its name were misspelled, and with it an approval."
    fix = "Use the name that the server gives the tool, without the prefix."
    server: str
    tool: str
    known: str


class McpUnread(ForkpointError):
    """The tools of an MCP server were asked for before they were read from it."""

    code = "mcp.unread"
    kind = "usage"
    says = "The tools of the MCP server {server} have not been read"
    why = "A server tells its tools only when it is connected to."
    fix = "Enter it (`async with server:`), or call its `load()` where no event loop runs."
    server: str
