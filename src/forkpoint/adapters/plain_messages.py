"""Anthropic Messages: a request's body as what it asks, an answer's body as what it says, and its stream. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from forkpoint.adapters.anthropic_messages import blocks_of, messages_of, reason_said, said_by_model, usage_of
from forkpoint.adapters.plain_requests import (
    DELIVERY,
    Memory,
    declared,
    model_name,
    pieces_in,
    said_tools,
    with_options,
)
from forkpoint.definition import ToolRecord
from forkpoint.messages import Message
from forkpoint.ports import ModelProgress, ModelRequest, ModelResponse

_ENDS = ("content_block_stop", "message_delta", "message_stop")
_FIXED = frozenset({"model", "messages", "tools", "system"})


class Messages:
    """Anthropic Messages as a dialect."""

    name = "anthropic messages"
    prefixes = ("anthropic:",)

    def request(self, body: dict[str, Any], memory: Memory) -> ModelRequest:
        """What ``body`` asks."""
        rest = {name: value for name, value in body.items() if name != "messages" and name not in DELIVERY}
        instructions, tools, settings = memory.rest(rest, _defined)
        return ModelRequest(
            model=str(body.get("model") or ""),
            instructions=instructions,
            messages=memory.messages(body.get("messages") or (), messages_of),
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
            made.pop("system", None)
            made |= {"system": changed.instructions} if changed.instructions else {}
        return made

    def response(self, body: dict[str, Any]) -> ModelResponse:
        """What a whole answer's body says; its ``rest`` is what the message does not."""
        content = body.get("content") or []
        message = said_by_model(content, body.get("stop_reason") or "end_turn")
        said = blocks_of(message.parts)
        left = [
            {key: one for key, one in block.items() if key not in held}
            for block, held in zip(content, said, strict=True)
        ]
        rest = {**body, "content": left if any(left) else []}
        return ModelResponse(message=message, usage=usage_of(body.get("usage")), rest={"body": rest})

    def body(self, message: Message, rest: Any, model: str) -> dict[str, Any]:
        """The body of a recorded answer. ``rest`` is ``None`` where a fork put the message in its place."""
        left = (rest or {}).get("body")
        said = blocks_of(message.parts)
        if left is None:
            head = {"id": "", "type": "message", "role": "assistant", "model": model, "content": said}
            end = {"stop_reason": reason_said(message), "stop_sequence": None}
            return {**head, **end, "usage": {"input_tokens": 0, "output_tokens": 0}}
        more = left.get("content") or [{}] * len(said)
        return {**left, "content": [{**block, **one} for block, one in zip(said, more, strict=True)]}

    def gather(self) -> "MessageStream":
        """Somebody who puts a stream together."""
        return MessageStream()

    def events(self, body: dict[str, Any], pieces: list[list[int]], asked: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The events of a stream that says ``body``."""
        begun = {**body, "content": [], "stop_reason": None, "stop_sequence": None}
        made: list[dict[str, Any]] = [{"type": "message_start", "message": begun}]
        lengths = iter(pieces)
        for index, block in enumerate(body.get("content") or ()):
            own = next(lengths, []) if block.get("type") == "text" else []
            bare, deltas = _told(block, own)
            made.append({"type": "content_block_start", "index": index, "content_block": bare})
            made += ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
            made.append({"type": "content_block_stop", "index": index})
        end = {"stop_reason": body.get("stop_reason"), "stop_sequence": body.get("stop_sequence")}
        made.append({"type": "message_delta", "delta": end, "usage": body.get("usage") or {}})
        return [*made, {"type": "message_stop"}]

    def begun(self, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those of ``events`` after which nobody would take the answer to be at its end."""
        return [event for event in events if event["type"] not in _ENDS]


class MessageStream:
    """The events of one stream, put together."""

    def __init__(self) -> None:
        self._body: dict[str, Any] = {"content": []}
        self._inputs: dict[int, str] = {}
        self._pieces: dict[int, list[int]] = {}
        self.whole = False

    def add(self, event: dict[str, Any]) -> ModelProgress | None:
        """Take the next event."""
        match event:
            case {"type": "message_start", "message": dict(message)}:
                self._body = {**message, "content": list(message.get("content") or ())}
            case {"type": "content_block_start", "content_block": dict(block)}:
                self._body["content"].append(dict(block))
            case {"type": "content_block_delta", "index": int(index), "delta": dict(delta)}:
                return self._delta(index, self._body["content"][index], delta)
            case {"type": "content_block_stop", "index": int(index)} if self._inputs.get(index):
                self._body["content"][index]["input"] = _json(self._inputs.pop(index))
            case {"type": "message_delta", "delta": dict(delta)}:
                usage = {name: one for name, one in (event.get("usage") or {}).items() if one is not None}
                self._body |= delta
                self._body["usage"] = {**(self._body.get("usage") or {}), **usage}
            case {"type": "message_stop"}:
                self.whole = True
            case _:
                pass
        return None

    def _delta(self, index: int, block: dict[str, Any], delta: dict[str, Any]) -> ModelProgress | None:
        match delta:
            case {"type": "text_delta", "text": str(text)}:
                block["text"] = block.get("text", "") + text
                self._pieces.setdefault(index, []).append(len(text))
                return ModelProgress(text=text)
            case {"type": "thinking_delta", "thinking": str(thought)}:
                block["thinking"] = block.get("thinking", "") + thought
                return ModelProgress(reasoning=thought)
            case {"type": "input_json_delta", "partial_json": str(text)}:
                self._inputs[index] = self._inputs.get(index, "") + text
            case {"type": "citations_delta", "citation": citation}:
                block["citations"] = [*(block.get("citations") or ()), citation]
            case _:
                _go_on(block, {name: one for name, one in delta.items() if name != "type"})
        return None

    @property
    def pieces(self) -> list[list[int]]:
        """The lengths in which each text came."""
        texts = (place for place, block in enumerate(self._body["content"]) if block.get("type") == "text")
        return [self._pieces.get(place, []) for place in texts]

    def body(self) -> dict[str, Any]:
        """The body that would have come in one piece, as far as it came; calls that were cut off are left out."""
        content = [block for place, block in enumerate(self._body["content"]) if place not in self._inputs]
        return {**self._body, "content": content}


def _go_on(block: dict[str, Any], delta: dict[str, Any]) -> None:
    """Add to a block what there is no word for: texts go on, the rest is set."""
    for name, value in delta.items():
        before = block.get(name)
        block[name] = before + value if isinstance(before, str) and isinstance(value, str) else value


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _told(block: dict[str, Any], lengths: list[int]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """How a block begins in a stream, and the deltas that make it whole."""
    match block:
        case {"type": "text", "text": str(text)}:
            told = [{"type": "text_delta", "text": piece} for piece in pieces_in(text, lengths)]
            cited = [{"type": "citations_delta", "citation": one} for one in block.get("citations") or ()]
            return {**block, "text": "", **({"citations": []} if cited else {})}, told + cited
        case {"type": "thinking", "thinking": str(thought)}:
            told = [{"type": "thinking_delta", "thinking": thought}] if thought else []
            signed = [{"type": "signature_delta", "signature": block.get("signature") or ""}]
            return {**block, "thinking": "", "signature": ""}, told + signed
        case {"type": "tool_use" | "server_tool_use" | "mcp_tool_use", "input": dict(arguments)}:
            text = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": text}]
        case _:
            return block, []


# ── requests ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _defined(rest: dict[str, Any]) -> tuple[str, tuple[ToolRecord, ...], dict[str, Any]]:
    """Instructions, tools and settings of a request without its messages."""
    tools = declared(rest.get("tools"), _tool)
    settings = {name: value for name, value in rest.items() if name not in _FIXED} | tools.settings
    system = rest.get("system")
    if system is None or isinstance(system, str):
        return system or "", tools.records, settings
    text = "\n\n".join(str(block.get("text", "")) for block in system)
    return text, tools.records, {**settings, "system": system}


def _tool(told: dict[str, Any]) -> tuple[ToolRecord, dict[str, Any]] | None:
    if told.get("type", "custom") not in ("custom", None) or "input_schema" not in told:
        return None
    record = ToolRecord(
        name=str(told.get("name")), description=told.get("description") or "", parameters=told["input_schema"]
    )
    known = ("name", "description", "input_schema")
    return record, {name: value for name, value in told.items() if name not in known}


def _tool_said(record: ToolRecord, options: dict[str, Any]) -> dict[str, Any]:
    told = {"name": record.name, "description": record.description, "input_schema": record.parameters}
    usual = {"input_schema": {"type": "object", "properties": {}}}
    return usual | {key: one for key, one in told.items() if one} | options


def message_tool(tool: Any) -> dict[str, Any]:
    """A tool as Anthropic's API wants to be told of it: ``tools=[message_tool(charge)]``."""
    return _tool_said(tool.record(), {})
