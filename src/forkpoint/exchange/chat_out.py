"""A run as an OpenAI chat: what was said, in order, with every call answered. Pure."""

import json
from collections.abc import Sequence
from typing import Any

from forkpoint.answers import placeholder
from forkpoint.definition import ToolRecord
from forkpoint.exchange.parts import as_text, content_of, marked
from forkpoint.exchange.recording import is_unasked
from forkpoint.messages import CallPart, Message, Part, Reasoning, ResponsePart
from forkpoint.state import RunState
from forkpoint.timetravel.facts import Facts
from forkpoint.timetravel.told import tell_state

_DERIVED = (None, "stop", "tool_call")


def chat_of(state: RunState, facts: Facts) -> dict[str, Any]:
    """The run as one object: ``messages``, and ``model``, ``tools`` and ``metadata`` (its labels) where there are any.

    The conversation is whole: what a summary stands for is told, not the summary. Calls that have no answer yet get
    one that says so. ``state`` and ``facts`` are those of the run's whole history.
    """
    agent = state.agent
    messages = [{"role": "system", "content": agent.instructions}] if agent.instructions else []
    messages += [chat_message(message) for message in messages_of(state, facts) if not is_unasked(message)]
    told: dict[str, Any] = {"messages": messages}
    if agent.model:
        told["model"] = agent.model
    if agent.tools:
        told["tools"] = [_tool(tool) for tool in agent.tools]
    if state.labels:
        told["metadata"] = dict(state.labels)
    return told


def messages_of(state: RunState, facts: Facts) -> list[Message]:
    """Every message of a run in order, the past that summaries stand for included, and inputs that still wait."""
    telling = tell_state(state, past=facts.past, hide=facts.summaries)
    messages: list[Message] = []
    for step in telling.steps:
        messages += [*step.heard, step.message]
        for part, said in zip(step.message.calls, step.answers, strict=True):
            messages.append(Message(role="tool", parts=(said,)) if said is not None else placeholder(part.id))
    return [*messages, *telling.after, *(entry.message for entry in state.queue)]


def chat_message(message: Message) -> dict[str, Any]:
    """One message as the OpenAI chat format has it."""
    if message.role == "tool":
        return _answer(message)
    beside: dict[str, Any] = next((dict(marked(part).get("message", {})) for part in message.parts), {})
    if message.role == "assistant":
        return {**_assistant(message), **beside}
    role = beside.pop("role", message.role)
    return {"role": role, "content": content_of(_plain(message.parts)), **beside}


def _plain(parts: Sequence[Part]) -> list[Part]:
    return [part for part in parts if not isinstance(part, CallPart | Reasoning | ResponsePart)]


def _assistant(message: Message) -> dict[str, Any]:
    told: dict[str, Any] = {"role": "assistant", "content": content_of(_plain(message.parts))}
    for part in message.parts:
        if isinstance(part, Reasoning):
            key = marked(part).get("key", "reasoning_content")
            told[key] = told.get(key, "") + part.content
    if message.calls:
        told["tool_calls"] = [_call(part) for part in message.calls]
    if message.finish_reason not in _DERIVED:
        told["finish_reason"] = message.finish_reason
    return told


def _call(part: CallPart) -> dict[str, Any]:
    rest = {key: value for key, value in marked(part).items() if key not in ("message", "legacy", "role")}
    if rest.get("type") == "custom":
        return {"id": part.id, **rest, "custom": {"name": part.name, "input": part.arguments}}
    held = {"name": part.name, "arguments": as_text(part.arguments)}
    return {"id": part.id, "type": "function", **rest, "function": held}


def _answer(message: Message) -> dict[str, Any]:
    part = next(part for part in message.parts if isinstance(part, ResponsePart))
    said = part.response
    is_content = isinstance(said, list) and said and all(_is_part(item) for item in said)
    return {"role": "tool", "tool_call_id": part.id, "content": said if is_content else as_text(said)}


def _is_part(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("type"), str)


def _tool(tool: ToolRecord) -> dict[str, Any]:
    held: dict[str, Any] = {"name": tool.name}
    if tool.description:
        held["description"] = tool.description
    if tool.parameters is not None:
        held["parameters"] = tool.parameters
    return {"type": "function", "function": held}


def chat_bytes(told: dict[str, Any]) -> bytes:
    """The object as the bytes of a file."""
    return json.dumps(told, ensure_ascii=False, indent=1).encode() + b"\n"
