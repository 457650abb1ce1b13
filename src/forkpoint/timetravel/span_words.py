"""The names and values that a run's spans carry: those of the conventions, and ``forkpoint.*`` beside them. Pure.

Source of names: OpenTelemetry semantic conventions for generative AI (spans for inference, agents and tools, and the
JSON schemas of input and output messages). What people and models said is content, which the conventions leave out
unless somebody asks for it.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from forkpoint.definition import AgentRecord
from forkpoint.messages import Message, Part, ResponsePart, Usage
from forkpoint.outcomes import Cancelled, Failed, Outcome, Succeeded, Unknown
from forkpoint.pieces import Spent
from forkpoint.timetravel.facts import blob_or
from forkpoint.timetravel.span_shapes import Attributes

UNNAMED = "unknown"
"""What stands for a provider where a model's name has none; the conventions require one."""

_PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "google": "gcp.gen_ai",
    "google-cloud": "gcp.vertex_ai",
    "google-gla": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "grok": "x_ai",
    "mistral": "mistral_ai",
    "moonshotai": "moonshot_ai",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "xai": "x_ai",
}
"""Providers that the conventions call otherwise than a model's name does."""

_SETTINGS = {
    "frequency_penalty": float,
    "max_tokens": int,
    "presence_penalty": float,
    "seed": int,
    "temperature": float,
    "top_k": int,
    "top_p": float,
}
"""Settings of a request that the conventions have a name for, and what they are there."""

_TOO_LARGE = 2**63
"""What an attribute's number cannot be."""


def model_words(agent: AgentRecord) -> Attributes:
    """Which model of which provider an agent asks."""
    provider, colon, model = agent.model.partition(":")
    if not (colon and provider and model):
        provider, model = UNNAMED, agent.model
    words: Attributes = {"gen_ai.provider.name": _PROVIDERS.get(provider, provider)}
    return words | ({"gen_ai.request.model": model} if model else {})


def settings_words(agent: AgentRecord) -> Attributes:
    """How an agent asks its model, as far as the conventions have words for it."""
    settings = agent.settings or {}
    words: Attributes = {}
    for name, kind in _SETTINGS.items():
        given = settings.get(name)
        if isinstance(given, int | float) and not isinstance(given, bool) and abs(given) < _TOO_LARGE:
            words[f"gen_ai.request.{name}"] = kind(given)
    stops = settings.get("stop_sequences")
    if isinstance(stops, list | tuple) and stops and all(isinstance(stop, str) for stop in stops):
        words["gen_ai.request.stop_sequences"] = tuple(stops)
    return words | ({"gen_ai.output.type": "json"} if "output_schema" in settings else {})


def usage_words(usage: Usage | None, cost: float | None) -> Attributes:
    """Tokens as the conventions name them, and the cost in US dollars, for which they have no name."""
    words: Attributes = {}
    if usage is not None:
        words = {"gen_ai.usage.input_tokens": usage.input_tokens, "gen_ai.usage.output_tokens": usage.output_tokens}
        if usage.cached_tokens:
            words["gen_ai.usage.cache_read.input_tokens"] = usage.cached_tokens
        if usage.reasoning_tokens:
            words["gen_ai.usage.reasoning.output_tokens"] = usage.reasoning_tokens
    return words if cost is None else {**words, "forkpoint.cost_usd": cost}


def spent_words(before: Spent, after: Spent) -> Attributes:
    """What was used between two moments; nothing where nobody reported it."""
    old, new = before.usage, after.usage
    used = Usage(
        input_tokens=new.input_tokens - old.input_tokens,
        output_tokens=new.output_tokens - old.output_tokens,
        cached_tokens=new.cached_tokens - old.cached_tokens,
        reasoning_tokens=new.reasoning_tokens - old.reasoning_tokens,
    )
    cost = after.cost - before.cost
    return usage_words(used if used.total else None, cost or None)


def outcome_words(outcome: Outcome) -> Attributes:
    """How a call ended. What nobody knows is an error: somebody has to look at it."""
    match outcome:
        case Succeeded():
            return {"forkpoint.outcome": "succeeded"}
        case Failed():
            return {"forkpoint.outcome": "failed", "error.type": outcome.error or "_OTHER"}
        case Cancelled():
            return {"forkpoint.outcome": "cancelled"}
        case Unknown():
            return {"forkpoint.outcome": "unknown", "error.type": "unknown", "forkpoint.because": outcome.because}


def outcome_text(outcome: Outcome) -> str:
    """What an outcome says in words of its own."""
    match outcome:
        case Failed() | Unknown():
            return _text(blob_or(outcome, "text"))
        case Cancelled():
            return _text(blob_or(outcome, "reason"))
        case Succeeded():
            return ""


def instructions_text(agent: AgentRecord) -> str:
    """An agent's instructions as the conventions write them."""
    return _json([{"type": "text", "content": _text(blob_or(agent, "instructions"))}])


def messages_text(messages: Iterable[Message]) -> str:
    """Messages as the conventions write them: a JSON list."""
    return _json([_told(message) for message in messages])


def value_text(value: Any) -> str:
    """Arguments or a result as JSON; text as it is."""
    return _text(value)


def _told(message: Message) -> dict[str, Any]:
    told: dict[str, Any] = {"role": message.role, "parts": [_part(part) for part in message.parts]}
    if message.role == "assistant":
        told["finish_reason"] = message.finish_reason or ("tool_call" if message.calls else "stop")
    return told


def _part(part: Part) -> dict[str, Any]:
    """A part in the conventions' words, which are ours without ``extra``."""
    told = {name: blob_or(part, name) for name in part.__struct_fields__ if name not in ("aside", "extra")}
    kept = {name: value for name, value in told.items() if value is not None}
    if isinstance(part, ResponsePart):
        kept["response"] = told["response"]
    return {"type": part.__struct_config__.tag, **kept}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
