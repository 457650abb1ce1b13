"""Errors of tools, agents and secrets: how they are declared, and what a model or a probe hands back."""

from forkpoint.errors._base import ForkpointError


class ToolBadDefinition(ForkpointError):
    """A tool is declared in a way that cannot work or contradicts itself."""

    code = "tool.bad-definition"
    kind = "usage"
    says = "The tool {tool} cannot be made: {problem}"
    why = "What a model is told of a tool, and what a restart may do about it, follow from its declaration."
    fix = "Change the declaration; the docs of 'tool' list what goes together."
    tool: str
    problem: str


class ToolBadArguments(ForkpointError):
    """The arguments of a call are not those that the tool takes; the tool was not run."""

    code = "tool.bad-arguments"
    kind = "data"
    says = "The arguments for {tool} were not accepted and it was not run: {problem}"
    why = "Arguments are checked against the tool's parameters before anything is performed."
    fix = "Call the tool again with arguments as its parameters describe them."
    tool: str
    problem: str


class ToolBadResult(ForkpointError):
    """A tool did its work, but its own check refused the result."""

    code = "tool.bad-result"
    kind = "data"
    says = "{tool} was run, and its result cannot be used: {problem}"
    why = "The tool's 'validate' refused what it returned. Its work is done, so the call is not repeated."
    fix = "Look at what the tool did outside before you call it again."
    tool: str
    problem: str


class ToolBadFinding(ForkpointError):
    """A probe returned something that is not a finding; nothing was decided by it."""

    code = "tool.bad-finding"
    kind = "usage"
    says = "The probe of {tool} returned {given}, which decides nothing"
    why = "A probe says Occurred(output), NotOccurred() or StillUnknown(text); the rest reads two ways."
    fix = "Return one of the three from the probe; until then the outcome stays unknown."
    tool: str
    given: str


class ToolBadApproval(ForkpointError):
    """A tool's approval predicate did not say yes or no; the call is not allowed."""

    code = "tool.bad-approval"
    kind = "usage"
    says = "The approval predicate of {tool} returned {given}, not True or False; the tool was not run"
    why = "A forgotten 'return' must not let a call through, so only False says that nobody is asked."
    fix = "Return True where a person must be asked and False where not."
    tool: str
    given: str


class AgentBadDefinition(ForkpointError):
    """An agent is declared in a way that cannot work."""

    code = "agent.bad-definition"
    kind = "usage"
    says = "The agent {agent} cannot be made: {problem}"
    why = "An agent is checked once, when it is declared, so that a run never meets a broken one."
    fix = "Change the declaration."
    agent: str
    problem: str


class SecretTooShort(ForkpointError):
    """A secret's value has too few characters to be told apart from ordinary text."""

    code = "secret.too-short"
    kind = "usage"
    says = "The secret {name} has {characters} characters; a secret has at least {least}"
    why = "A short value occurs in ordinary text by chance, which would then be written down changed."
    fix = "Register the whole value, not a part of it, or leave out what is not a secret."
    name: str
    characters: int
    least: int


class SecretBadName(ForkpointError):
    """A secret's name cannot stand in a placeholder, or its value is not text."""

    code = "secret.bad-name"
    kind = "usage"
    says = "The secret {name} cannot be registered: {problem}"
    why = "The name is written into journals in place of the value, and must be found again there."
    fix = "Use a name of up to 64 letters, digits, '_', '.' or '-' (a letter or '_' first), and a text."
    name: str
    problem: str


class SecretMissing(ForkpointError):
    """Stored text names a secret that has no value in this process; nothing was performed."""

    code = "secret.missing"
    kind = "environment"
    says = "No value is registered for {names}; nothing was performed"
    why = "Journals hold secrets by name only, and the tool or provider needs the value itself."
    fix = "Register the secret under that name when you connect."
    names: str
