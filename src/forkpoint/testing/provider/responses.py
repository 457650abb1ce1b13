"""OpenAI Responses. Source: the OpenAI API reference, "Responses" and its streaming events."""

from collections.abc import Iterator
from typing import Any

from forkpoint.messages import CallPart, Message, Part, Reasoning, Text, Usage
from forkpoint.testing.provider import wire

_CUT_SHORT = {"length": "max_output_tokens", "content_filter": "content_filter"}


class Responses:
    """Responses as a dialect."""

    def read(self, body: dict[str, Any]) -> tuple[str, tuple[Message, ...]]:
        """Instructions and messages of a request's body."""
        raw = body.get("input") or []
        items = [{"role": "user", "content": raw}] if isinstance(raw, str) else raw
        told = [body["instructions"]] if body.get("instructions") else []
        told += [wire.joined(one["content"]) for one in items if one.get("role") in ("system", "developer")]
        said = [one for item in items if item.get("role") not in ("system", "developer") for one in _said(item)]
        return "\n\n".join(told), wire.conversation(said)

    def whole(self, asked: wire.Asked, answer: wire.Answer) -> dict[str, Any]:
        """The body of an answer that is not streamed."""
        output = [_item(asked, at, part) for at, part in enumerate(answer.message.parts)]
        why = _CUT_SHORT.get(answer.message.finish_reason or "")
        return {
            **_head(asked),
            "status": "incomplete" if why else "completed",
            "incomplete_details": {"reason": why} if why else None,
            "output": output,
            "usage": _usage(answer.usage),
        }

    def events(self, asked: wire.Asked, answer: wire.Answer) -> Iterator[tuple[str | None, dict[str, Any] | str]]:
        """The events of an answer that is streamed."""
        begun = {**_head(asked), "status": "in_progress", "output": [], "usage": None}
        whole = self.whole(asked, answer)
        told: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
        for at, part in enumerate(answer.message.parts):
            told += _told(at, _item(asked, at, part), part)
        told.append({"type": f"response.{whole['status']}", "response": whole})
        for number, event in enumerate(told):
            yield event["type"], {**event, "sequence_number": number}

    def error(self, fault: wire.Fault) -> dict[str, Any]:
        """The body that tells of a fault."""
        return {"error": {"message": fault.text, "type": fault.kind, "code": fault.kind, "param": None}}


def _said(item: dict[str, Any]) -> Iterator[tuple[str, Part]]:
    kind = item.get("type", "message")
    if kind == "function_call":
        call = CallPart(id=item["call_id"], name=item["name"], arguments=wire.value(item["arguments"]))
        yield "assistant", call
    elif kind == "function_call_output":
        yield "tool", wire.result(item["call_id"], item["output"])
    elif kind == "reasoning":
        attached = item.get("encrypted_content")
        extra = {"signature": attached} if attached else None
        yield "assistant", Reasoning(content=wire.joined(item.get("summary")), extra=extra)
    elif kind == "message":
        for one in wire.items(item["content"]):
            if one["type"] == "input_image":
                yield item["role"], wire.image(one["image_url"])
            elif one.get("text"):
                yield item["role"], Text(content=one["text"])


def _head(asked: wire.Asked) -> dict[str, Any]:
    return {
        "id": f"resp_{asked.number}",
        "object": "response",
        "created_at": wire.CREATED_S,
        "model": asked.model,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "temperature": 1.0,
        "top_p": 1.0,
    }


def _item(asked: wire.Asked, at: int, part: Part) -> dict[str, Any]:
    name = f"{asked.number}_{at}"
    match part:
        case CallPart():
            called = {"call_id": part.id, "name": part.name, "arguments": wire.arguments(part)}
            return {"type": "function_call", "id": f"fc_{name}", "status": "completed", **called}
        case Reasoning():
            summary = [{"type": "summary_text", "text": part.content}] if part.content else []
            attached = wire.signature(part)
            return {"type": "reasoning", "id": f"rs_{name}", "summary": summary, "encrypted_content": attached}
        case _:
            content: list[Any] = [{"type": "output_text", "text": getattr(part, "content", ""), "annotations": []}]
            told = {"role": "assistant", "status": "completed", "content": content}
            return {"type": "message", "id": f"msg_{name}", **told}


def _told(at: int, item: dict[str, Any], part: Part) -> Iterator[dict[str, Any]]:
    place: dict[str, Any] = {"output_index": at, "item_id": item["id"]}
    match part:
        case CallPart():
            yield {"type": "response.output_item.added", "output_index": at, "item": {**item, "arguments": ""}}
            for piece in wire.pieces(item["arguments"]):
                yield {"type": "response.function_call_arguments.delta", **place, "delta": piece}
            done = {"name": item["name"], "arguments": item["arguments"]}
            yield {"type": "response.function_call_arguments.done", **place, **done}
        case Reasoning():
            bare = {**item, "summary": [], "encrypted_content": None}
            yield {"type": "response.output_item.added", "output_index": at, "item": bare}
            if item["summary"]:
                yield from _summary({**place, "summary_index": 0}, part.content)
        case _:
            yield {"type": "response.output_item.added", "output_index": at, "item": {**item, "content": []}}
            yield from _text({**place, "content_index": 0}, item["content"][0])
    yield {"type": "response.output_item.done", "output_index": at, "item": item}


def _summary(place: dict[str, Any], text: str) -> Iterator[dict[str, Any]]:
    kind = "response.reasoning_summary"
    yield {"type": f"{kind}_part.added", **place, "part": {"type": "summary_text", "text": ""}}
    for piece in wire.pieces(text):
        yield {"type": f"{kind}_text.delta", **place, "delta": piece}
    yield {"type": f"{kind}_text.done", **place, "text": text}
    yield {"type": f"{kind}_part.done", **place, "part": {"type": "summary_text", "text": text}}


def _text(place: dict[str, Any], content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "response.content_part.added", **place, "part": {**content, "text": ""}}
    for piece in wire.pieces(content["text"]):
        yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **place, "text": content["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": content}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total,
    }
