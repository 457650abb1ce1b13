"""OpenAI Chat Completions: a request's body as what it asks, an answer's body as what it says, and its stream. Pure.

The first message, if it is the system's or the developer's, is the request's instructions; others stay in their place.
"""

from collections.abc import Mapping
from typing import Any

from forkpoint.adapters.openai_chat_messages import (
    REASONING,
    message_of,
    reason_of,
    reason_said,
    said_by_model,
    said_of,
    usage_of,
)
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

_FIXED = frozenset({"model", "messages", "tools"})


class Chat:
    """Chat Completions as a dialect."""

    name = "openai chat.completions"
    prefixes = ("openai-chat:", "openai:")

    def request(self, body: dict[str, Any], memory: Memory) -> ModelRequest:
        """What ``body`` asks."""
        told = list(body.get("messages") or ())
        first, others = _leading(told)
        rest = {name: value for name, value in body.items() if name != "messages" and name not in DELIVERY}
        instructions, tools, settings = memory.rest({"first": first, "rest": rest}, _defined)
        return ModelRequest(
            model=str(body.get("model") or ""),
            instructions=instructions,
            messages=memory.messages(others, message_of),
            tools=tools,
            settings=settings,
        )

    def changed(self, body: dict[str, Any], asked: ModelRequest, changed: ModelRequest) -> dict[str, Any]:
        """``body``, which asks ``asked``, so that it asks ``changed``."""
        made = with_options(body, asked, changed, fixed=_FIXED) | {"model": model_name(changed.model, self.prefixes)}
        tools = said_tools(changed, _tool_said)
        made.pop("tools", None)
        made |= {"tools": tools} if tools else {}
        first, others = _leading(list(body.get("messages") or ()))
        if changed.instructions != asked.instructions:
            role = {"role": "system"} if first is None else {"role": _field(first, "role")}
            first = {**role, "content": changed.instructions} if changed.instructions else None
        made["messages"] = [*([first] if first is not None else []), *others]
        return made

    def response(self, body: dict[str, Any]) -> ModelResponse:
        """What a whole answer's body says; its ``rest`` is what the message does not."""
        choice, *more = body.get("choices") or [{}]
        told = choice.get("message") or {}
        message = said_by_model(told, reason_of(choice.get("finish_reason")) if told else "error")
        said = said_of(message)
        left = {name: value for name, value in told.items() if name not in said}
        rest = {**body, "choices": [{**choice, "message": left}, *more]}
        return ModelResponse(message=message, usage=usage_of(body.get("usage")), rest={"body": rest})

    def body(self, message: Message, rest: Any, model: str) -> dict[str, Any]:
        """The body of a recorded answer. ``rest`` is ``None`` where a fork put the message in its place."""
        left = (rest or {}).get("body")
        said = said_of(message)
        if left is None:
            choice = {"index": 0, "message": {"content": None, **said}, "finish_reason": reason_said(message)}
            head = {"id": "", "object": "chat.completion", "created": 0, "model": model}
            return {**head, "choices": [{**choice, "logprobs": None}]}
        first, *more = left.get("choices") or [{}]
        return {**left, "choices": [{**first, "message": {**(first.get("message") or {}), **said}}, *more]}

    def gather(self) -> "ChatStream":
        """Somebody who puts a stream together."""
        return ChatStream()

    def events(self, body: dict[str, Any], pieces: list[list[int]], asked: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The chunks of a stream that says ``body``."""
        kept = {name: value for name, value in body.items() if name not in ("choices", "usage")}
        head = {**kept, "object": "chat.completion.chunk"}
        choices = [one for choice in body.get("choices") or () for one in _chunks(choice, pieces)]
        made = [{**head, "choices": [choice]} for choice in choices]
        if (asked.get("stream_options") or {}).get("include_usage"):
            made.append({**head, "choices": [], "usage": body.get("usage")})
        return made

    def begun(self, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those of ``events`` after which nobody would take the answer to be at its end."""
        return [event for event in events if event["choices"] and not event["choices"][0].get("finish_reason")]


class ChatStream:
    """The chunks of one stream, put together."""

    def __init__(self) -> None:
        self._head: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}
        self._pieces: list[int] = []

    def add(self, event: dict[str, Any]) -> ModelProgress | None:
        """Take the next chunk."""
        self._head |= {name: one for name, one in event.items() if name not in _OF_CHUNK and one is not None}
        text = thought = ""
        for told in event.get("choices") or ():
            choice = self._choices.setdefault(told["index"], {"index": told["index"], "message": {}})
            delta = told.get("delta") or {}
            _merge(choice["message"], delta)
            logprobs = told.get("logprobs")
            if isinstance(logprobs, dict):
                _merge(choice.setdefault("logprobs", {}), logprobs)
            left = {name: one for name, one in told.items() if name not in ("index", "delta", "logprobs")}
            choice |= {name: one for name, one in left.items() if one is not None}
            if told["index"] == 0:
                text += delta.get("content") or ""
                thought += next((delta[name] for name in REASONING if isinstance(delta.get(name), str)), "")
        if text:
            self._pieces.append(len(text))
        return ModelProgress(text=text, reasoning=thought) if text or thought else None

    @property
    def whole(self) -> bool:
        """Whether the provider has said why each choice ends."""
        return bool(self._choices) and all(one.get("finish_reason") for one in self._choices.values())

    @property
    def pieces(self) -> list[list[int]]:
        """The lengths in which the first choice's text came."""
        return [self._pieces]

    def body(self) -> dict[str, Any]:
        """The body that would have come in one piece, as far as it came."""
        choices = [
            {"finish_reason": None, "logprobs": None, **one, "message": _finished(one["message"])}
            for _, one in sorted(self._choices.items())
        ]
        return {**self._head, "object": "chat.completion", "choices": choices}


_OF_CHUNK = frozenset({"choices", "object", "obfuscation"})
_SET = frozenset({"index", "id", "type", "role"})


def _merge(whole: dict[str, Any], delta: dict[str, Any]) -> None:
    """Add a piece to what came before: texts go on, lists by their elements' index, the rest is set."""
    for name, value in delta.items():
        before = whole.get(name)
        if value is None:
            whole.setdefault(name, None)
        elif isinstance(value, str) and isinstance(before, str) and name not in _SET:
            whole[name] = before + value
        elif isinstance(value, dict) and isinstance(before, dict):
            _merge(before, value)
        elif isinstance(value, list):
            whole[name] = _merged(before if isinstance(before, list) else [], value)
        elif isinstance(value, dict):
            whole[name] = {}
            _merge(whole[name], value)
        else:
            whole[name] = value


def _merged(whole: list[Any], delta: list[Any]) -> list[Any]:
    for one in delta:
        place = one.get("index") if isinstance(one, dict) else None
        found = next((each for each in whole if place is not None and each.get("index") == place), None)
        if found is not None:
            _merge(found, one)
        elif isinstance(one, dict):
            whole.append({})
            _merge(whole[-1], one)
        else:
            whole.append(one)
    return whole


def _finished(message: dict[str, Any]) -> dict[str, Any]:
    """A message as it comes in one piece: its calls have no index, and no text is null."""
    made = {"role": "assistant", "content": None, **message}
    made["content"] = made["content"] or None
    if made.get("tool_calls"):
        made["tool_calls"] = [{key: one for key, one in call.items() if key != "index"} for call in made["tool_calls"]]
    return made


def _chunks(choice: dict[str, Any], pieces: list[list[int]]) -> list[dict[str, Any]]:
    """What the chunks of one choice hold."""
    index, message = choice.get("index", 0), choice.get("message") or {}
    left = {name: one for name, one in message.items() if name not in ("role", "content", "tool_calls") and one}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += ({name: left.pop(name)} for name in REASONING if name in left)
    lengths = pieces[0] if index == 0 and pieces else []
    content = message.get("content")
    deltas += ({"content": piece} for piece in pieces_in(content if isinstance(content, str) else "", lengths))
    deltas += [left] if left else []
    calls = enumerate(message.get("tool_calls") or ())
    deltas += ({"tool_calls": [{"index": place, **call}]} for place, call in calls)
    made = [{"index": index, "delta": delta, "finish_reason": None} for delta in deltas]
    end = {name: one for name, one in choice.items() if name not in ("index", "message")}
    return [*made, {"index": index, "delta": {}, **end}]


# ── requests ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _field(message: Any, name: str) -> Any:
    return message.get(name) if isinstance(message, Mapping) else getattr(message, name, None)


def _leading(told: list[Any]) -> tuple[Any, list[Any]]:
    """The first message, if it is the system's or the developer's, and the others."""
    if told and _field(told[0], "role") in ("system", "developer"):
        return told[0], told[1:]
    return None, told


def _defined(plain: dict[str, Any]) -> tuple[str, tuple[ToolRecord, ...], dict[str, Any]]:
    """Instructions, tools and settings of a request without its messages."""
    first, rest = plain["first"], plain["rest"]
    tools = declared(rest.get("tools"), _tool)
    settings = {name: value for name, value in rest.items() if name not in _FIXED} | tools.settings
    if first is None:
        return "", tools.records, settings
    content = first.get("content")
    text = content if isinstance(content, str) else "".join(str(one.get("text", "")) for one in content or ())
    own = {name: value for name, value in first.items() if name != "content" or not isinstance(content, str)}
    return text, tools.records, settings if own == {"role": "system"} else {**settings, "system": own}


def _tool(told: dict[str, Any]) -> tuple[ToolRecord, dict[str, Any]] | None:
    held = told.get("function")
    if told.get("type") != "function" or not isinstance(held, dict) or not isinstance(held.get("name"), str):
        return None
    record = ToolRecord(name=held["name"], description=held.get("description") or "", parameters=held.get("parameters"))
    left = {name: value for name, value in held.items() if name not in ("name", "description", "parameters")}
    beside = {name: value for name, value in told.items() if name not in ("type", "function")}
    return record, left | ({"beside": beside} if beside else {})


def _tool_said(record: ToolRecord, options: dict[str, Any]) -> dict[str, Any]:
    beside = options.pop("beside", {})
    told = {"name": record.name, "description": record.description, "parameters": record.parameters}
    return {"type": "function", **beside, "function": {key: one for key, one in told.items() if one} | options}


def chat_tool(tool: Any) -> dict[str, Any]:
    """A tool as Chat Completions wants to be told of it: ``tools=[chat_tool(charge)]``."""
    return _tool_said(tool.record(), {})
