"""Errors of recording the OpenAI Agents SDK."""

from forkpoint.errors._base import ForkpointError


class AgentsNotDurable(ForkpointError):
    """Something of the Agents SDK works in a recorded run and would leave nothing on record."""

    code = "agents.not-durable"
    kind = "usage"
    says = "{what} is used in the recorded run {run} and is not durable; {remedy} makes it so; nothing was performed"
    why = "What is not on record would be done again by a restart, without anybody being asked."
    fix = "Wrap it with what the message names, or keep it out of recorded functions."
    what: str
    run: str
    remedy: str


class AgentsUnfit(ForkpointError):
    """Something of the Agents SDK cannot be made durable."""

    code = "agents.unfit"
    kind = "usage"
    says = "{what} cannot be made durable: {problem}"
    why = "Only work that has arguments and a result as JSON can be on record before it is done."
    fix = "Do the work in a function tool, or keep it out of recorded functions."
    what: str
    problem: str
