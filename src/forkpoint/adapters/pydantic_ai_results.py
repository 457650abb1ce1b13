"""What came of a tool of Pydantic AI's, as it is recorded, and what the agent's loop gets of it again.

A plain result is recorded as itself, so that a person reads it, and a fork or a verdict can put another in its place.
Under ``MARK`` alone stands what is more than that: a ``ToolReturn``, a result with files in it, and what a tool says
to the loop (ask again, ask a person, this failed), which is no failure of the call and is not tried again.
"""

from collections.abc import Awaitable
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_ai import messages as theirs
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolFailed
from pydantic_core import PydanticCustomError, PydanticSerializationError, to_jsonable_python

from forkpoint.adapters.pydantic_ai_messages import MARK
from forkpoint.outcomes import Failed, Succeeded
from forkpoint.runtime.asks import Answer

_RETURN: TypeAdapter[Any] = TypeAdapter(theirs.ToolReturn)


async def stored(work: Awaitable[Any], note: str = "") -> Any:
    """What ``work`` comes to, as JSON. ``note`` is told to the model beside the result."""
    try:
        result = await work
    except ModelRetry as said:
        return _marked("model_retry", message=said.message)
    except ToolFailed as said:
        return _marked("tool_failed", message=said.message)
    except ApprovalRequired as said:
        return _marked("approval_required", metadata=said.metadata)
    except CallDeferred as said:
        return _marked("call_deferred", metadata=said.metadata, call_kind=getattr(said, "kind", "external"))
    except ValidationError as said:
        return _marked("validation_error", title=said.title, errors=_errors(said))
    try:
        return _result(_noted(result, note) if note else result)
    except (PydanticSerializationError, TypeError, ValueError):
        return result  # the recorder says that it happened and cannot be used, and which part of it has no form


def came_of(answer: Answer, *, timeout_s: float | None = None) -> Any:
    """What the agent's loop gets for a call: its result, or what the tool said to the loop, raised again.

    Where there is no result because a person decided so, it is the words that a model is told of that.
    """
    match answer.outcome:
        case Succeeded(value=value):
            return loaded(value)
        case Failed(error="Error", text=text):  # put there by a fork's patch: what the model is to see
            raise ToolFailed(text)
        case Failed(error="TimeoutError") if timeout_s is not None:
            raise ModelRetry(f"Timed out after {timeout_s} seconds.")
        case Failed():
            raise answer.failure
        case _:
            return answer.told


def loaded(value: Any) -> Any:
    """The result that ``value`` records; raises what a tool said to the loop instead of one."""
    held = value.get(MARK) if isinstance(value, dict) and len(value) == 1 else None
    if not isinstance(held, dict):
        return value
    match held.get("kind"):
        case "tool_return":
            return _RETURN.validate_python(held["result"])
        case "content":
            return _part(held["part"]).content
        case "plain":
            return held["result"]
        case "model_retry":
            raise ModelRetry(held["message"])
        case "tool_failed":
            raise ToolFailed(held["message"])
        case "approval_required":
            raise ApprovalRequired(metadata=held["metadata"])
        case "call_deferred":
            kind = held["call_kind"]
            raise CallDeferred(metadata=held["metadata"], **({} if kind == "external" else {"kind": kind}))
        case "validation_error":
            raise ValidationError.from_exception_data(held["title"], [_again(error) for error in held["errors"]])
        case _:
            return value


def _marked(kind: str, **more: Any) -> dict[str, Any]:
    return {MARK: {"kind": kind, **to_jsonable_python(more, fallback=str)}}


_PLAIN = (str, bool, int, type(None))


def _result(result: Any) -> Any:
    if type(result) in _PLAIN:
        return result
    if isinstance(result, theirs.ToolReturn):
        return {MARK: {"kind": "tool_return", "result": _RETURN.dump_python(result, mode="json")}}
    request = theirs.ModelRequest(parts=[theirs.ToolReturnPart(tool_name="", content=result, tool_call_id="")])
    part = theirs.ModelMessagesTypeAdapter.dump_python([request], mode="json")[0]["parts"][0]
    content = part["content"]
    if _has_files(result):
        return {MARK: {"kind": "content", "part": part}}
    if isinstance(content, dict) and MARK in content:
        return {MARK: {"kind": "plain", "result": content}}
    return content


def _has_files(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_files(one) for one in value.values())
    if isinstance(value, list | tuple):
        return any(_has_files(one) for one in value)
    return isinstance(value, theirs.FileUrl | theirs.BinaryContent | theirs.UploadedFile)


def _part(dumped: dict[str, Any]) -> Any:
    return theirs.ModelMessagesTypeAdapter.validate_python([{"kind": "request", "parts": [dumped]}])[0].parts[0]


def _noted(result: Any, note: str) -> Any:
    if not isinstance(result, theirs.ToolReturn):
        return theirs.ToolReturn(return_value=result, content=note)
    before = result.content or []
    content = [before] if isinstance(before, str) else list(before)
    return theirs.ToolReturn(return_value=result.return_value, content=[*content, note], metadata=result.metadata)


def _errors(said: ValidationError) -> list[dict[str, Any]]:
    return [dict(error) for error in said.errors(include_url=False, include_context=False)]


def _again(error: dict[str, Any]) -> Any:
    kind = PydanticCustomError(error["type"], "{message}", {"message": error["msg"]})
    return {"type": kind, "loc": tuple(error["loc"]), "input": error.get("input")}
