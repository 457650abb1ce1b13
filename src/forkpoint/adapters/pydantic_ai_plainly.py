"""Pydantic AI's responses as plain data and back, where they are plain: what Pydantic makes of them, without asking it.

Nearly all responses consist of a few kinds of part, of words and of numbers of tokens. Each function here gives for
those what Pydantic gives, or ``None`` for anything else, which is Pydantic's to say.
"""

from dataclasses import fields
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_ai import messages as theirs
from pydantic_ai.usage import RequestUsage
from pydantic_core import to_jsonable_python

_KINDS: dict[str, Any] = {
    "text": theirs.TextPart,
    "thinking": theirs.ThinkingPart,
    "tool-call": theirs.ToolCallPart,
}
_NAMES = {kind: tuple([one.name for one in fields(kind)]) for kind in _KINDS.values()}
_RESPONSE = tuple([one.name for one in fields(theirs.ModelResponse)])

_APART = {"parts", "usage", "timestamp"}
_WORDS = {"content", "tool_name", "args", "tool_call_id", "id", "signature"}
_WORDS |= {"model_name", "provider_name", "provider_url", "provider_response_id", "history_digest"}
_WORDS |= {"run_id", "conversation_id", "model_id", "canonical_system"}
_OBJECTS = {"provider_details", "metadata", "args"}
_REASONS = (None, "stop", "length", "content_filter", "tool_call", "error")
_STATES = ("complete", "suspended")
_TOKENS = {one.name for one in fields(RequestUsage)} - {"details", "cost", "audio_seconds"}
_EMPTY: tuple[Any, ...] = ({}, [])

_to_time = TypeAdapter(datetime).validator.validate_python


class _NotPlain(Exception):
    """Something is here that Pydantic has its own rules for."""


def dumped(response: Any) -> dict[str, Any] | None:
    """A ``ModelResponse`` as plain data, without what is empty."""
    try:
        return _dumped(response)
    except _NotPlain:
        return None


def loaded(said: dict[str, Any]) -> Any:
    """The ``ModelResponse`` that plain data says."""
    try:
        return _loaded(said)
    except (_NotPlain, TypeError, ValidationError):  # a field that is missing or strange too is Pydantic's to say
        return None


def _dumped(response: Any) -> dict[str, Any]:
    if type(response) is not theirs.ModelResponse or type(response.timestamp) is not datetime:
        raise _NotPlain
    given = {name: value for name in _RESPONSE if name not in _APART and (value := getattr(response, name)) is not None}
    told = {name: _copied(value) for name, value in given.items() if value not in _EMPTY}
    told["parts"] = [_dumped_part(part) for part in response.parts]
    told["usage"] = _dumped_usage(response.usage)
    told["timestamp"] = to_jsonable_python(response.timestamp)
    return told


def _dumped_part(part: Any) -> dict[str, Any]:
    names = _NAMES.get(type(part))
    if names is None:
        raise _NotPlain
    return {name: _copied(value) for name in names if (value := getattr(part, name)) is not None}


def _dumped_usage(usage: Any) -> dict[str, Any]:
    if type(usage) is not RequestUsage:
        raise _NotPlain
    told = {name: value for name, value in vars(usage).items() if value}
    return _counted(told)


def _loaded(said: dict[str, Any]) -> Any:
    parts = [_loaded_part(part) for part in said["parts"]]
    more = {name: _checked(name, value) for name, value in said.items() if name not in _APART and name != "kind"}
    if "timestamp" in said:
        more["timestamp"] = _to_time(said["timestamp"])
    return theirs.ModelResponse(parts=parts, usage=RequestUsage(**_counted(said.get("usage", {}))), **more)


def _loaded_part(said: dict[str, Any]) -> Any:
    kind = _KINDS.get(said.get("part_kind", ""))
    if kind is None:
        raise _NotPlain
    return kind(**{name: _checked(name, value) for name, value in said.items() if name != "part_kind"})


def _checked(name: str, value: Any) -> Any:
    """The value of a field, if it is one that Pydantic takes as it is."""
    if type(value) is str and name in _WORDS:
        return value
    fits = type(value) is dict and name in _OBJECTS
    fits = fits or (name == "finish_reason" and value in _REASONS) or (name == "state" and value in _STATES)
    if not fits:
        raise _NotPlain
    return _copied(value)


def _counted(usage: Any) -> dict[str, Any]:
    """A count of tokens, if it is nothing more."""
    if type(usage) is not dict:
        raise _NotPlain
    details = usage.get("details", {})
    if type(details) is not dict or not all(type(count) is int for count in details.values()):
        raise _NotPlain
    if not all(name in _TOKENS and type(count) is int for name, count in usage.items() if name != "details"):
        raise _NotPlain
    return {**usage, "details": dict(details)} if details else {**usage}


def _copied(value: Any) -> Any:
    """The same value, if it is JSON that is written in one way only."""
    if type(value) is str or value is None or type(value) is bool or type(value) is int:
        return value
    if type(value) is dict and all(type(name) is str for name in value):
        return {name: _copied(one) for name, one in value.items()}
    if type(value) is list:
        return [_copied(one) for one in value]
    raise _NotPlain
