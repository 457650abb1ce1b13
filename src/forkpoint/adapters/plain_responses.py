"""OpenAI Responses: a request's body as what it asks, an answer's body as what it says, and its stream. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from forkpoint.adapters.openai_items import message_of, messages_of, output_of, usage_of
from forkpoint.adapters.plain_requests import (
    DELIVERY,
    Memory,
    declared,
    model_name,
    pieces_in,
    said_tools,
    with_options,
    with_results,
)
from forkpoint.definition import ToolRecord
from forkpoint.messages import Message
from forkpoint.ports import ModelProgress, ModelRequest, ModelResponse

_FIXED = frozenset({"model", "input", "tools", "instructions"})
_ENDS = ("response.completed", "response.incomplete", "response.failed")
_CUT_SHORT = {"max_output_tokens": "length", "content_filter": "content_filter"}


class Responses:
    """Responses as a dialect."""

    name = "openai responses"
    prefixes = ("openai:", "openai-responses:")

    def request(self, body: dict[str, Any], memory: Memory) -> ModelRequest:
        """What ``body`` asks."""
        rest = {name: value for name, value in body.items() if name != "input" and name not in DELIVERY}
        tools, settings = memory.rest(rest, _defined)
        instructions = body.get("instructions")
        told = body.get("input")
        items = [told] if isinstance(told, str) else list(told or ())
        return ModelRequest(
            model=str(body.get("model") or ""),
            instructions=instructions if isinstance(instructions, str) else "",
            messages=list(_joined(memory.messages(items, _item), memory)),
            tools=tools,
            settings=settings,
        )

    def changed(self, body: dict[str, Any], asked: ModelRequest, changed: ModelRequest) -> dict[str, Any]:
        """``body``, which asks ``asked``, so that it asks ``changed``."""
        made = with_options(body, asked, changed, fixed=_FIXED) | {"model": model_name(changed.model, self.prefixes)}
        tools = said_tools(changed, _tool_said)
        made.pop("tools", None)
        made |= {"tools": tools} if tools else {}
        if changed.instructions != asked.instructions:
            made.pop("instructions", None)
            made |= {"instructions": changed.instructions} if changed.instructions else {}
        return made

    def response(self, body: dict[str, Any]) -> ModelResponse:
        """What a whole answer's body says; its ``rest`` is what the message does not."""
        why = _CUT_SHORT.get((body.get("incomplete_details") or {}).get("reason", ""))
        failed = "error" if body.get("status") in ("failed", "cancelled") else None
        message = message_of(body.get("output") or (), finish_reason=why or failed)
        rest = {name: value for name, value in body.items() if name != "output"}
        return ModelResponse(message=message, usage=usage_of(body.get("usage")), rest={"body": rest})

    def body(self, message: Message, rest: Any, model: str) -> dict[str, Any]:
        """The body of a recorded answer. ``rest`` is ``None`` where a fork put the message in its place."""
        left = (rest or {}).get("body")
        if left is None:
            head = {"id": "", "object": "response", "created_at": 0, "model": model, "status": "completed"}
            left = {**head, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        return {**left, "output": output_of(message)}

    def gather(self) -> "ResponseStream":
        """Somebody who puts a stream together."""
        return ResponseStream()

    def events(self, body: dict[str, Any], pieces: list[list[int]], asked: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The events of a stream that says ``body``."""
        begun = {**body, "status": "in_progress", "output": [], "usage": None}
        made: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
        lengths = iter(pieces)
        for place, item in enumerate(body.get("output") or ()):
            made += _told(place, item, lengths)
        status = body.get("status")
        end = f"response.{status}" if f"response.{status}" in _ENDS else "response.completed"
        made.append({"type": end, "response": body})
        return [{**event, "sequence_number": number} for number, event in enumerate(made)]

    def begun(self, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those of ``events`` after which nobody would take the answer to be at its end."""
        return [event for event in events if event["type"] not in _ENDS and not event["type"].endswith(".done")]


class ResponseStream:
    """The events of one stream, put together. The last of them holds everything."""

    def __init__(self) -> None:
        self._body: dict[str, Any] = {}
        self._items: dict[int, dict[str, Any]] = {}
        self._done: set[int] = set()
        self._pieces: dict[tuple[int, int], list[int]] = {}
        self.whole = False

    def add(self, event: dict[str, Any]) -> ModelProgress | None:
        """Take the next event."""
        kind = event.get("type", "")
        place = event.get("output_index", 0)
        if isinstance(event.get("response"), dict):
            self._body = event["response"]
            self.whole = kind in _ENDS
        elif kind in ("response.output_item.added", "response.output_item.done"):
            self._items[place] = event["item"]
            self._done |= {place} if kind.endswith("done") else set()
        elif kind in ("response.content_part.added", "response.content_part.done") and place in self._items:
            self._keep(place, event.get("content_index", 0), event["part"])
        elif kind == "response.output_text.delta":
            index = event.get("content_index", 0)
            self._pieces.setdefault((place, index), []).append(len(event["delta"]))
            part = self._content(place)[index : index + 1] or [{"type": "output_text", "text": "", "annotations": []}]
            self._keep(place, index, {**part[0], "text": part[0].get("text", "") + event["delta"]})
            return ModelProgress(text=event["delta"])
        elif kind in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
            return ModelProgress(reasoning=event["delta"])
        return None

    def _content(self, place: int) -> list[Any]:
        return list(self._items.get(place, {}).get("content") or ())

    def _keep(self, place: int, index: int, part: dict[str, Any]) -> None:
        """What has come of an item that may never be done."""
        content = self._content(place)
        item = self._items.get(place, {"type": "message", "role": "assistant"})
        self._items[place] = {**item, "content": [*content[:index], part]}

    @property
    def pieces(self) -> list[list[int]]:
        """The lengths in which each text came."""
        return [lengths for _, lengths in sorted(self._pieces.items())]

    def body(self) -> dict[str, Any]:
        """The body that would have come in one piece, as far as it came; calls that were cut off are left out."""
        if self.whole:
            return self._body
        items = [item for place, item in sorted(self._items.items()) if place in self._done or item.get("content")]
        return {**self._body, "output": items}


def _told(place: int, item: dict[str, Any], lengths: Iterator[list[int]]) -> Iterator[dict[str, Any]]:
    """The events that bring one item."""
    at = {"output_index": place, "item_id": item.get("id", "")}
    match item:
        case {"type": "message", "content": list(content)}:
            yield {"type": "response.output_item.added", "output_index": place, "item": {**item, "content": []}}
            for index, piece in enumerate(content):
                yield from _text({**at, "content_index": index}, piece, lengths)
        case {"type": "function_call", "arguments": str(arguments)}:
            yield {"type": "response.output_item.added", "output_index": place, "item": {**item, "arguments": ""}}
            kind = "response.function_call_arguments"
            yield {"type": f"{kind}.delta", **at, "delta": arguments}
            yield {"type": f"{kind}.done", **at, "arguments": arguments, "name": item.get("name")}
        case {"type": "reasoning", "summary": list(summary)}:
            yield {"type": "response.output_item.added", "output_index": place, "item": {**item, "summary": []}}
            for index, piece in enumerate(summary):
                yield from _summary({**at, "summary_index": index}, piece)
        case _:
            yield {"type": "response.output_item.added", "output_index": place, "item": item}
    yield {"type": "response.output_item.done", "output_index": place, "item": item}


def _text(at: dict[str, Any], piece: dict[str, Any], lengths: Iterator[list[int]]) -> Iterator[dict[str, Any]]:
    kind, where = ("output_text", "text") if piece.get("type") == "output_text" else ("refusal", "refusal")
    text = str(piece.get(where) or "")
    own = next(lengths, []) if kind == "output_text" else []
    more: dict[str, Any] = {"logprobs": []} if kind == "output_text" else {}
    yield {"type": "response.content_part.added", **at, "part": {**piece, where: ""}}
    yield from ({"type": f"response.{kind}.delta", **at, "delta": one, **more} for one in pieces_in(text, own))
    yield {"type": f"response.{kind}.done", **at, where: text, **more}
    yield {"type": "response.content_part.done", **at, "part": piece}


def _summary(at: dict[str, Any], piece: dict[str, Any]) -> Iterator[dict[str, Any]]:
    kind, text = "response.reasoning_summary", str(piece.get("text") or "")
    yield {"type": f"{kind}_part.added", **at, "part": {**piece, "text": ""}}
    yield {"type": f"{kind}_text.delta", **at, "delta": text}
    yield {"type": f"{kind}_text.done", **at, "text": text}
    yield {"type": f"{kind}_part.done", **at, "part": piece}


# ── requests ─────────────────────────────────────────────────────────────────────────────────────────────────────


_MADE = ("parsed", "parsed_arguments")
"""What the client's helpers make of an answer. It is no part of it."""


def _item(told: Any) -> tuple[Message, ...]:
    made = messages_of(told if isinstance(told, str) else [_as_answered(told)])
    return tuple([with_results(one) if one.role == "tool" else one for one in made])


def _as_answered(item: dict[str, Any]) -> dict[str, Any]:
    left = {name: one for name, one in item.items() if name not in _MADE}
    content = left.get("content")
    if isinstance(content, list) and any("parsed" in piece for piece in content if isinstance(piece, dict)):
        left["content"] = [{name: one for name, one in piece.items() if name not in _MADE} for piece in content]
    return left


def _joined(messages: Iterable[Message], memory: Memory) -> Iterator[Message]:
    """What one model said in a row as one message."""
    said: list[Message] = []
    for message in messages:
        if message.role == "assistant":
            said.append(message)
            continue
        if said:
            yield memory.joined(said)
            said = []
        yield message
    if said:
        yield memory.joined(said)


def _defined(rest: dict[str, Any]) -> tuple[tuple[ToolRecord, ...], dict[str, Any]]:
    """Tools and settings of a request without its items."""
    tools = declared(rest.get("tools"), _tool)
    taken = _FIXED if isinstance(rest.get("instructions"), str | None) else _FIXED - {"instructions"}
    return tools.records, {name: value for name, value in rest.items() if name not in taken} | tools.settings


def _tool(told: dict[str, Any]) -> tuple[ToolRecord, dict[str, Any]] | None:
    if told.get("type") != "function" or not isinstance(told.get("name"), str):
        return None
    record = ToolRecord(name=told["name"], description=told.get("description") or "", parameters=told.get("parameters"))
    known = ("type", "name", "description", "parameters")
    return record, {name: value for name, value in told.items() if name not in known}


def _tool_said(record: ToolRecord, options: dict[str, Any]) -> dict[str, Any]:
    told = {"name": record.name, "description": record.description, "parameters": record.parameters}
    usual = {"parameters": {"type": "object", "properties": {}}, "strict": False}
    return {"type": "function"} | usual | {key: one for key, one in told.items() if one} | options


def responses_tool(tool: Any) -> dict[str, Any]:
    """A tool as the Responses API wants to be told of it: ``tools=[responses_tool(charge)]``."""
    return _tool_said(tool.record(), {})
