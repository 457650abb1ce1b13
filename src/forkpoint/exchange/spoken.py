"""One message of an OpenAI chat, read: whatever it says is kept, and what was odd about it is told.

Source: the OpenAI API reference, "Create chat completion", with the older ``function_call`` form.
"""

import json
from typing import Any

from msgspec import Struct

from forkpoint.errors import ImportNotChat
from forkpoint.exchange.conversation import MARK
from forkpoint.exchange.parts import as_text, parts_of_content, storable, with_beside
from forkpoint.messages import CallPart, Message, Part, Reasoning, Text

_FINISH = {"tool_calls": "tool_call", "function_call": "tool_call"}
_THOUGHTS = ("reasoning_content", "reasoning")
_KNOWN = {
    "assistant": {"role", "content", "tool_calls", "function_call", "finish_reason", "refusal", *_THOUGHTS},
    "tool": {"role", "content", "tool_call_id", "name"},
    "function": {"role", "content", "name"},
}


class Spoken(Struct, frozen=True, kw_only=True):
    """One message as read. ``call`` and ``tool`` say what a tool's message answers, ``value`` with what."""

    index: int
    role: str
    parts: tuple[Part, ...] = ()
    finish_reason: str | None = None
    call: str | None = None
    tool: str | None = None
    value: Any = None
    remarks: tuple[str, ...] = ()

    @property
    def message(self) -> Message:
        """An assistant's message as a model said it."""
        called = any(isinstance(part, CallPart) for part in self.parts)
        reason = self.finish_reason or ("tool_call" if called else "stop")
        return Message(role="assistant", parts=self.parts, finish_reason=reason)


def spoken(raw: Any, index: int, where: str, format: str) -> Spoken:
    """The message ``raw``, which stands at ``where``. Raises ``import.not-chat`` for what is no message at all."""
    if not isinstance(raw, dict):
        raise ImportNotChat(where=where, format=format, detail="a message is an object with a role")
    role = raw.get("role")
    if not isinstance(role, str):
        raise ImportNotChat(where=where, format=format, detail="the message has no role")
    match role:
        case "assistant":
            return _assistant(raw, index)
        case "tool" | "function":
            return _answer(raw, index, role)
        case _:
            return _said(raw, index, role)


def _said(raw: dict[str, Any], index: int, role: str) -> Spoken:
    parts, remarks = parts_of_content(raw.get("content"))
    beside = {key: storable(value) for key, value in raw.items() if key not in ("role", "content")}
    if role != "user":
        beside["role"] = role
    if role not in ("user", "system", "developer"):
        remarks.append(f"nobody knows the role {role!r}; taken as an input marked with it")
    return Spoken(
        index=index,
        role=role,
        parts=tuple(with_beside(parts, {"message": beside} if beside else {})),
        remarks=tuple(remarks),
    )


def _answer(raw: dict[str, Any], index: int, role: str) -> Spoken:
    content, remarks = raw.get("content"), []
    if content is None:
        remarks.append("the tool's message has no content; its result is null")
    left_out = sorted(raw.keys() - _KNOWN[role])
    if left_out:
        remarks.append(f"a tool's result has no place for {', '.join(left_out)}; left out")
    call, tool = raw.get("tool_call_id"), raw.get("name")
    if call is not None and not isinstance(call, str):
        call = as_text(call)
        remarks.append(f"its tool_call_id is not a text; taken as {call!r}")
    return Spoken(
        index=index,
        role=role,
        call=call or None,
        tool=tool if isinstance(tool, str) else None,
        value=storable(content),
        remarks=tuple(remarks),
    )


def _assistant(raw: dict[str, Any], index: int) -> Spoken:
    parts, remarks = parts_of_content(raw.get("content"))
    thoughts: list[Part] = [
        Reasoning(content=raw[key], extra={MARK: {"key": key}})
        for key in _THOUGHTS
        if isinstance(raw.get(key), str) and raw[key]
    ]
    if isinstance(raw.get("refusal"), str):
        parts.append(Text(content=raw["refusal"], extra={MARK: {"type": "refusal"}}))
    calls, more = _calls(raw, index)
    beside = {
        key: storable(value)
        for key, value in raw.items()
        if key not in _KNOWN["assistant"] and value not in (None, [], {})
    }
    reason = raw.get("finish_reason")
    return Spoken(
        index=index,
        role="assistant",
        parts=tuple(with_beside([*thoughts, *parts, *calls], {"message": beside} if beside else {})),
        finish_reason=_FINISH.get(reason, reason) if isinstance(reason, str) else None,
        remarks=(*remarks, *more),
    )


def _calls(raw: dict[str, Any], index: int) -> tuple[list[Part], list[str]]:
    asked, legacy = raw.get("tool_calls"), raw.get("function_call")
    parts: list[Part] = []
    remarks: list[str] = []
    if asked is not None and not isinstance(asked, list):
        parts.append(_unread(asked))
        remarks.append("its tool_calls are not a list; kept as JSON text")
        asked = None
    for number, item in enumerate(asked or ()):
        part, said = _call(item, f"call-{index}-{number}")
        parts.append(part)
        remarks += [f"its call {number} {remark}" for remark in said]
    if legacy is not None:
        part, said = _call({"function": legacy, "legacy": True}, f"call-{index}-legacy")
        parts.append(part)
        remarks += [f"its function_call {remark}" for remark in said]
    return parts, remarks


def _unread(value: Any) -> Text:
    return Text(content=as_text(value), extra={MARK: {"part": "json"}})


def _call(item: Any, made_id: str) -> tuple[Part, list[str]]:
    """One call, and what had to be said about it."""
    if not isinstance(item, dict):
        return _unread(item), ["is no call; kept as JSON text"]
    custom = isinstance(item.get("custom"), dict)
    held = item["custom"] if custom else item.get("function")
    if not isinstance(held, dict) or not isinstance(held.get("name"), str):
        return _unread(item), ["names no tool; kept as JSON text"]
    remarks = []
    call = item.get("id")
    if not isinstance(call, str) or not call:
        call = made_id if call in (None, "") else as_text(call)
        remarks.append(f"has no id that is a text; it is called {call}")
    arguments, remark = (held.get("input"), None) if custom else _arguments(held.get("arguments"))
    remarks += [remark] if remark else []
    left = {key: storable(value) for key, value in item.items() if key not in ("id", "function", "custom")}
    if left.get("type") == "function":
        del left["type"]
    extra = {MARK: left} if left else None
    return CallPart(id=call, name=held["name"], arguments=storable(arguments), extra=extra), remarks


def _arguments(given: Any) -> tuple[Any, str | None]:
    """Arguments as an object, or as the text they are, and what had to be said about them."""
    if isinstance(given, dict):
        return given, None
    if given is None:
        return {}, "has no arguments; taken as none"
    if not isinstance(given, str):
        return as_text(given), "has arguments that are no object; kept as JSON text"
    try:
        read = json.loads(given, parse_constant=lambda name: 1 / 0)
    except (ValueError, RecursionError, ZeroDivisionError):
        return given, "has arguments that are not JSON; kept as text"
    if not isinstance(read, dict):
        return given, "has arguments that are no object; kept as text"
    return read, None
