"""Items of OpenAI's Responses API and Forkpoint's messages, both ways, nothing lost.

What an item has beside the words stands under ``MARK`` in the ``extra`` of its parts: ``item`` in the first of them
(the item without its pieces and words), ``piece`` in each (the piece without its words). So the words can be edited,
and everything else comes back as it came. An item that Forkpoint has no word for, such as a hosted tool's call, is an
empty text whose ``item`` is all of it. Source of the shapes: the OpenAI API reference, "Responses", input and output
items.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from forkpoint.adapters.openai_pieces import MARK, arguments_heard, arguments_said, kept, part_of, piece_of, plain
from forkpoint.messages import CallPart, Message, Part, Reasoning, ResponsePart, Text, Usage, user

__all__ = ["MARK", "items_of", "message_of", "messages_of", "output_of", "plain", "usage_of"]

_CALLS = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "computer_call": "action",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
}
"""Calls that whoever asked has to answer, and where each has its arguments."""

_ANSWER = "_output"

NO_ID = "__fake_id__"
"""The id of an item that no provider made. Source: ``FAKE_RESPONSES_ID`` of the OpenAI Agents SDK, which leaves it out
of what it sends."""


def messages_of(items: str | Iterable[Any]) -> list[Message]:
    """The messages that a request's ``input`` says: a text, or items as dicts or as the client's objects.

    What one model said in a row is one message, as is each person's; each answer to a call is one of its own.
    """
    if isinstance(items, str):
        return [user(items)]
    messages: list[Message] = []
    said: list[Part] = []
    for item in map(plain, items):
        role = _role(item)
        if role == "assistant":
            said += _said(item)
            continue
        messages += _spoken(said)
        said = []
        parts = tuple(_answered(item) if role == "tool" else _told(item))
        messages.append(Message(role=role, parts=parts))  # type: ignore[arg-type]
    return messages + _spoken(said)


def message_of(output: Iterable[Any], *, finish_reason: str | None = None) -> Message:
    """The message that a response's ``output`` says. ``finish_reason`` is for one that ended before its end."""
    items = [plain(item) for item in output]
    answered = {item.get("call_id") for item in items if str(item.get("type")).endswith(_ANSWER)}
    parts = tuple([part for item in items for part in _said(item, hosted=item.get("call_id") in answered)])
    return _model_message(parts, finish_reason)


def output_of(message: Message) -> list[dict[str, Any]]:
    """A response's ``output`` that says ``message``: the items as they came, with the words that it has now.

    Parts that no provider made become items with ``NO_ID`` where the API wants an id.
    """
    made: list[dict[str, Any]] = []
    for part in message.parts:
        item = _item(part)
        if item is None:  # a further piece of the item before
            _pieces(made[-1] if made else _new_item(part, made), part).append(piece_of(part, "output_text"))
        else:
            made.append(item)
    return made


def items_of(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """The items that say ``messages`` in a request's ``input``."""
    made: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "assistant":
            made += [_easy(item) for item in output_of(message)]
        elif message.role == "tool":
            made += [_answer_item(part) for part in message.parts if isinstance(part, ResponsePart)]
        else:
            made.append(_told_item(message))
    return made


def usage_of(usage: Any) -> Usage:
    """The tokens that a response's ``usage`` counts: an object or a mapping; all 0 where there is none."""
    told = usage if isinstance(usage, Mapping) else getattr(usage, "__dict__", {})
    return Usage(
        input_tokens=_count(told, "input_tokens"),
        output_tokens=_count(told, "output_tokens"),
        cached_tokens=_count(_details(told, "input_tokens_details"), "cached_tokens"),
        reasoning_tokens=_count(_details(told, "output_tokens_details"), "reasoning_tokens"),
    )


def _details(told: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = told.get(name)
    return found if isinstance(found, Mapping) else getattr(found, "__dict__", {})


def _count(told: Mapping[str, Any], name: str) -> int:
    found = told.get(name)
    return found if isinstance(found, int) else 0


# ── items to parts ───────────────────────────────────────────────────────────────────────────────────────────────


def _role(item: Mapping[str, Any]) -> str:
    """Who says an item."""
    kind = item.get("type") or "message"
    if kind == "message" or "role" in item:
        role = item.get("role")
        return "system" if role in ("system", "developer") else "user" if role == "user" else "assistant"
    return "tool" if kind.endswith(_ANSWER) and "call_id" in item else "assistant"


def _spoken(parts: Sequence[Part]) -> list[Message]:
    return [_model_message(tuple(parts), None)] if parts else []


def _model_message(parts: tuple[Part, ...], finish_reason: str | None) -> Message:
    calls = any(isinstance(part, CallPart) for part in parts)
    return Message(role="assistant", parts=parts, finish_reason=finish_reason or ("tool_call" if calls else "stop"))


def _said(item: dict[str, Any], *, hosted: bool = False) -> Iterator[Part]:
    """What a model says with one item. ``hosted``: it has answered its own call."""
    kind = item.get("type") or "message"
    if kind == "message" and isinstance(item.get("content"), list | str):
        yield from _pieced(item, "content", Text)
    elif kind == "reasoning":
        yield from _pieced(item, "summary" if item.get("summary") else "content", Reasoning)
    elif kind in _CALLS and _CALLS[kind] in item and isinstance(item.get("call_id"), str) and not hosted:
        yield _call(item, kind)
    else:
        yield Text(extra={MARK: {"item": item}})


def _pieced(item: dict[str, Any], where: str, kind: type[Text | Reasoning]) -> Iterator[Part]:
    """The parts of an item that holds a list of pieces, or one text, under ``where``."""
    pieces = item.get(where)
    if isinstance(pieces, str):
        rest = {name: value for name, value in item.items() if name != where}
        easy = rest in ({"role": "assistant"}, {"role": "assistant", "type": "message"})
        yield Text(content=pieces, extra=None if easy else {MARK: {"item": rest, "text": True}})
    elif not pieces or not all(isinstance(piece, Mapping) for piece in pieces):
        yield kind(extra={MARK: {"item": item}})
    else:
        for place, piece in enumerate(pieces):
            head = {"item": {**item, where: []}, "in": where} if place == 0 else {}
            yield part_of(dict(piece), kind, head, always=True)


def _call(item: dict[str, Any], kind: str) -> CallPart:
    where = _CALLS[kind]
    arguments, note = arguments_heard(item[where]) if kind == "function_call" else (item[where], None)
    left = {name: value for name, value in item.items() if name not in ("call_id", "name", where)}
    mark: dict[str, Any] = {"item": left} if left != {"type": "function_call"} else {}
    mark |= {} if note is None else {"arguments": note}
    name = item.get("name")
    called = name if isinstance(name, str) else kind.removesuffix("_call")
    return CallPart(id=item["call_id"], name=called, arguments=arguments, extra={MARK: mark} if mark else None)


def _answered(item: dict[str, Any]) -> Iterator[Part]:
    """The answer to a call."""
    left = {name: value for name, value in item.items() if name not in ("call_id", "output")}
    extra = None if left == {"type": "function_call_output"} else {MARK: {"item": left}}
    yield ResponsePart(id=str(item["call_id"]), response=item.get("output"), extra=extra)


def _told(item: dict[str, Any]) -> Iterator[Part]:
    """What a person or the code says."""
    content = item.get("content")
    left = {name: value for name, value in item.items() if name != "content"}
    usual = left in ({"role": item["role"]}, {"role": item["role"], "type": "message"}) and item["role"] != "developer"
    head = {} if usual else {"item": left}
    if isinstance(content, list) and content and all(isinstance(piece, Mapping) for piece in content):
        for place, piece in enumerate(content):
            yield part_of(dict(piece), Text, head if place == 0 else {}, always=False)
    elif isinstance(content, str):
        yield Text(content=content, extra={MARK: head} if head else None)
    else:
        yield Text(extra={MARK: {"item": left, "content": content}})


# ── parts to items ───────────────────────────────────────────────────────────────────────────────────────────────


def _item(part: Part) -> dict[str, Any] | None:
    """The item that begins with ``part``; ``None`` where it goes on with the item before."""
    mark = kept(part)
    item = mark.get("item")
    match part:
        case CallPart():
            return _call_item(part, item)
        case Text() | Reasoning() if isinstance(item, dict):
            if mark.get("text"):
                return {**item, "content": part.content}
            if "in" not in mark:
                return item
            return {**item, mark["in"]: [piece_of(part, "output_text")]}
        case _:
            return None if "piece" in mark else _new_item(part, [])


def _new_item(part: Part, made: list[dict[str, Any]]) -> dict[str, Any]:
    """An item for a part that no provider made."""
    if isinstance(part, Reasoning):
        summary = [{"type": "summary_text", "text": part.content}]
        item: dict[str, Any] = {"type": "reasoning", "id": NO_ID, "summary": summary}
    else:
        content = [piece_of(part, "output_text")]
        item = {"type": "message", "id": NO_ID, "role": "assistant", "status": "completed", "content": content}
    return item


def _pieces(item: dict[str, Any], part: Part) -> list[Any]:
    where = "content" if item.get("type", "message") == "message" or not item.get("summary") else "summary"
    pieces: list[Any] = item.setdefault(where, [])
    return pieces


def _easy(item: dict[str, Any]) -> dict[str, Any]:
    """What no provider made as a request may say it, which wants no id of it."""
    if item.get("id") != NO_ID or item.get("type") != "message":
        return item
    return {"role": "assistant", "content": item["content"][0]["text"]}


def _call_item(part: CallPart, item: Any) -> dict[str, Any]:
    left = dict(item) if isinstance(item, dict) else {"type": "function_call"}
    kind = left.get("type", "function_call")
    if kind == "function_call":
        return {**left, "call_id": part.id, "name": part.name, "arguments": arguments_said(part)}
    named = {"name": part.name} if kind == "custom_tool_call" else {}
    return {**left, "call_id": part.id, **named, _CALLS.get(kind, "arguments"): part.arguments}


def _answer_item(part: ResponsePart) -> dict[str, Any]:
    left = kept(part).get("item") or {"type": "function_call_output"}
    return {**left, "call_id": part.id, "output": part.response}


def _told_item(message: Message) -> dict[str, Any]:
    first = kept(message.parts[0]) if message.parts else {}
    head = first.get("item") or {"role": message.role}
    if "content" in first:
        return {**head, "content": first["content"]}
    only = message.parts[0] if len(message.parts) == 1 else None
    if isinstance(only, Text) and "piece" not in kept(only):
        return {**head, "content": only.content}
    return {**head, "content": [piece_of(part, "input_text") for part in message.parts]}
