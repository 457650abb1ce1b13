"""What a tool of the Agents SDK returned, as it is put on record, and what the SDK is given of the record."""

import json
import math
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from agents import FunctionTool
from agents.exceptions import ToolTimeoutError
from agents.tool import (
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputText,
    default_tool_timeout_error_message,
)
from msgspec.structs import replace

from forkpoint.agents.asking import EffectFailed
from forkpoint.messages import Message, ResponsePart
from forkpoint.outcomes import Failed, Succeeded
from forkpoint.runtime.asks import Answer
from forkpoint.runtime.recorder import Recorder

_SHOWN: "WeakKeyDictionary[Recorder, dict[tuple[str, str], Any]]" = WeakKeyDictionary()
"""Of the calls that a run's code was answered: the call's id and the text that the SDK shows the model, with the value
on record that the text says."""

_PIECES = (ToolOutputText, ToolOutputImage, ToolOutputFileContent)


def recordable(tool: FunctionTool, value: Any) -> Any:
    """A tool's result as JSON, so that the SDK shows the model the same words for it.

    JSON data stays as it is. Texts, images and files for the model become the dicts that the SDK takes for them; a
    result with a declared schema, its data; anything else, the text that the SDK would make of it.
    """
    if _is_plain(value):
        return value
    if isinstance(value, _PIECES):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, list | tuple) and value and all(isinstance(one, _PIECES) for one in value):
        return [one.model_dump(mode="json", exclude_none=True) for one in value]
    adapter = getattr(tool, "_output_type_adapter", None)
    if adapter is not None:
        return adapter.dump_python(adapter.validate_python(value), mode="json", by_alias=True)
    if getattr(tool, "output_json_schema", None) is not None:
        return value  # has a JSON form, or the call says that it has none
    return str(value)


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind in (str, int, bool) or value is None:
        return True
    if kind is float:
        return math.isfinite(value)
    if kind is list:
        return all(map(_is_plain, value))
    return kind is dict and all(type(name) is str and _is_plain(one) for name, one in value.items())


async def shown(tool: FunctionTool, context: Any, answer: Answer) -> Any:
    """What the SDK is given for an answer. Raises what the tool raised, as recorded: the SDK shows that to the model.

    What a person decided is no error of the tool's: the model is told.
    """
    match answer.outcome:
        case Succeeded(value=value):
            return value
        case Failed() as failed if _ran_out_of_time(tool, failed):
            return await _late(tool, context)
        case Failed():
            raise answer.failure
    if getattr(tool, "output_json_schema", None) is not None:
        raise EffectFailed(text_of(answer.told), error="Decided", effect=answer.effect)
    return text_of(answer.told)


def text_of(value: Any) -> str:
    """A JSON value as a model reads it: a text as it is."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _ran_out_of_time(tool: FunctionTool, failed: Failed) -> bool:
    return tool.timeout_seconds is not None and failed.text.startswith(f"no result within {tool.timeout_seconds} s")


async def _late(tool: FunctionTool, context: Any) -> str:
    """What the SDK says of a call that ran out of time."""
    seconds = tool.timeout_seconds
    assert seconds is not None
    error = ToolTimeoutError(tool_name=tool.name, timeout_seconds=seconds)
    if tool.timeout_behavior == "raise_exception":
        raise error
    if tool.timeout_error_function is None:
        return str(default_tool_timeout_error_message(tool_name=tool.name, timeout_seconds=seconds))
    told = tool.timeout_error_function(context, error)
    return str(await told if hasattr(told, "__await__") else told)


# ── what the model is shown of it ────────────────────────────────────────────────────────────────────────────────


def note(recorder: Recorder, call: str, result: Any) -> None:
    """Remember what the SDK was given for a call, so that the text it makes of that is known for it."""
    if isinstance(result, str):
        return
    texts = _SHOWN.setdefault(recorder, {})
    for text in (str(result), json.dumps(result, ensure_ascii=False, separators=(",", ":"))):
        texts[call, text] = result


def as_recorded(recorder: Recorder, messages: Iterable[Message]) -> list[Message]:
    """Messages in which a text that only spells the recorded result of a call is that result.

    So it is on record once, and the call is known by it where steps are told and compared.
    """
    texts = _SHOWN.get(recorder) or {}
    return [_message_as_recorded(texts, message) if message.role == "tool" else message for message in messages]


def _message_as_recorded(texts: dict[tuple[str, str], Any], message: Message) -> Message:
    part = message.parts[0]
    if (
        not isinstance(part, ResponsePart)
        or not isinstance(part.response, str)
        or (part.id, part.response) not in texts
    ):
        return message
    return replace(message, parts=(replace(part, response=texts[part.id, part.response]),))
