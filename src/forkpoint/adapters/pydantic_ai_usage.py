"""What a Pydantic AI response says of itself beside its parts: tokens, cost, pieces of a stream, if it is whole."""

from typing import Any

from forkpoint.messages import Usage
from forkpoint.ports import ModelProgress


def usage_of(usage: Any) -> Usage:
    """Tokens as Forkpoint counts them; thinking counts as reasoning, whoever calls it what."""
    details = usage.details or {}
    reasoning = getattr(usage, "output_reasoning_tokens", 0) or details.get("reasoning_tokens", 0)
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cache_read_tokens,
        reasoning_tokens=reasoning or details.get("thinking_tokens", 0),
    )


def cost_of(response: Any) -> float | None:
    """What the answer cost in US dollars: as the provider says, else by the list of prices; ``None`` if unknown."""
    told = getattr(response.usage, "cost", None)
    if told is not None:
        return float(told)
    if not response.usage.total_tokens:
        return None
    try:
        return float(response.cost().total_price)
    except (AssertionError, LookupError, ValueError):
        return None


def piece_of(event: Any) -> ModelProgress | None:
    """What an event of a stream adds to text or reasoning."""
    told = getattr(event, "part", None) if event.event_kind == "part_start" else getattr(event, "delta", None)
    kind = getattr(told, "part_kind", None) or getattr(told, "part_delta_kind", None)
    words = getattr(told, "content", None) or getattr(told, "content_delta", None)
    if not isinstance(words, str) or kind not in ("text", "thinking"):
        return None
    return ModelProgress(text=words) if kind == "text" else ModelProgress(reasoning=words)


def is_cut(response: Any) -> bool:
    """Whether a stream ended as if it were whole, and the provider had not said why it stops.

    Pydantic AI takes that for an answer, because some who speak OpenAI's API never say it; these two do.
    """
    if response.provider_name not in ("openai", "anthropic") or response.state != "complete":
        return False  # what the provider still works on is said to be so
    said = (response.provider_details or {}).get("finish_reason")
    return not said and response.finish_reason in (None, "stop")
