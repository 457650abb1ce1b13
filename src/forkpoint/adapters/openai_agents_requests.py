"""What the Agents SDK asks of a model, as a ``ModelRequest``; and with what a fork put in its place.

Settings are the SDK's ``ModelSettings`` that are set, by name, and two of ours: ``output_schema``, the JSON Schema of a
structured answer, and ``prompt``. Not on record, and passed on as the code gives them: what is for the way and not for
the model (``timeout``, ``retry``, ``extra_headers``, where keys are), values that have no JSON form, and the ids of a
conversation that the provider keeps (``previous_response_id``, ``conversation_id``).
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from agents import AgentOutputSchemaBase, FunctionTool, Handoff, ModelSettings
from msgspec import Struct
from msgspec.structs import replace
from pydantic import TypeAdapter, ValidationError

from forkpoint.adapters.openai_agents_known import record_of
from forkpoint.adapters.openai_agents_marks import performed_elsewhere
from forkpoint.adapters.openai_agents_results import as_recorded
from forkpoint.adapters.openai_items import messages_of, plain
from forkpoint.definition import ToolRecord
from forkpoint.effects import Recovery
from forkpoint.errors import ModelBadSettings, ValueNotJson
from forkpoint.ports import ModelRequest
from forkpoint.runtime.recorder import Recorder
from forkpoint.values import to_json

OUTPUT_SCHEMA = "output_schema"
PROMPT = "prompt"

_ON_THE_WAY = frozenset({"timeout", "retry", "extra_headers"})
"""Settings that say how a model is reached, not what it is asked."""


class Wanted(Struct, frozen=True, kw_only=True):
    """One request in the SDK's own terms: the arguments of ``Model.get_response``."""

    system_instructions: str | None
    input: Any
    model_settings: Any
    tools: Any
    output_schema: Any
    handoffs: Any
    tracing: Any
    previous_response_id: str | None = None
    conversation_id: str | None = None
    prompt: Any = None

    def given(self) -> dict[str, Any]:
        """The arguments by name."""
        return {name: getattr(self, name) for name in self.__struct_fields__}


def request_of(recorder: Recorder, wanted: Wanted, model: str) -> ModelRequest:
    """What is asked, in the words that are put on record."""
    return ModelRequest(
        model=model,
        instructions=wanted.system_instructions or "",
        messages=as_recorded(recorder, messages_of(wanted.input)),
        tools=(*map(record_of, wanted.tools), *map(_handoff_record, wanted.handoffs)),
        settings=_settings(wanted),
    )


def _handoff_record(handoff: Handoff[Any, Any]) -> ToolRecord:
    """A handoff as the model is told of it. It changes nothing outside, so it may happen again."""
    return ToolRecord(
        name=handoff.tool_name,
        description=handoff.tool_description,
        parameters=handoff.input_json_schema,
        recovery=Recovery.REPEAT,
    )


def _settings(wanted: Wanted) -> dict[str, Any]:
    told = _plain_settings(wanted.model_settings)
    schema = wanted.output_schema
    if schema is not None and not schema.is_plain_text():
        told[OUTPUT_SCHEMA] = to_json(schema.json_schema())
    if wanted.prompt is not None:
        told[PROMPT] = to_json(plain(wanted.prompt))
    return told


def _plain_settings(settings: ModelSettings) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if value is None or field.name in _ON_THE_WAY:
            continue
        try:
            told[field.name] = to_json(_without_unset(value))
        except ValueNotJson:
            continue
    return told


def _without_unset(value: Any) -> Any:
    return value.model_dump(mode="json", exclude_unset=True) if hasattr(value, "model_dump") else value


# ── what a fork put in its place ─────────────────────────────────────────────────────────────────────────────────


def changed(wanted: Wanted, asked: ModelRequest, request: ModelRequest) -> Wanted:
    """``wanted`` with what ``request`` has otherwise than ``asked``. Raises ``model.bad-settings``."""
    if request.instructions != asked.instructions:
        wanted = replace(wanted, system_instructions=request.instructions or None)
    if request.settings != asked.settings:
        wanted = _with_settings(wanted, request)
    if request.tools != asked.tools:
        named = {record.name: record for record in request.tools}
        own = {tool.name for tool in wanted.tools} | {one.tool_name for one in wanted.handoffs}
        tools = [_with_record(tool, named[tool.name]) for tool in wanted.tools if tool.name in named]
        tools += [_only_told(record) for record in request.tools if record.name not in own]
        handoffs = [_handed(one, named[one.tool_name]) for one in wanted.handoffs if one.tool_name in named]
        wanted = replace(wanted, tools=tools, handoffs=handoffs)
    return wanted


def _with_settings(wanted: Wanted, request: ModelRequest) -> Wanted:
    given: Mapping[str, Any] = request.settings
    named = {field.name for field in dataclasses.fields(wanted.model_settings)}
    strange = sorted(set(given) - named - {OUTPUT_SCHEMA, PROMPT})
    if strange:
        raise ModelBadSettings(model=request.model, problem=f"there is no setting {', '.join(map(repr, strange))}")
    settings = {name: value for name, value in given.items() if name in named}
    try:
        made = TypeAdapter(ModelSettings).validate_python(settings)
    except ValidationError as error:
        raise ModelBadSettings(model=request.model, problem=str(error)) from error
    kept = set(_plain_settings(wanted.model_settings))
    aside = {name: getattr(wanted.model_settings, name) for name in named - kept - set(settings)}
    return replace(
        wanted,
        model_settings=dataclasses.replace(made, **aside),
        output_schema=_schema(wanted.output_schema, given.get(OUTPUT_SCHEMA)),
        prompt=given.get(PROMPT) if given.get(PROMPT) != _settings(wanted).get(PROMPT) else wanted.prompt,
    )


def _schema(own: Any, given: Any) -> Any:
    if given is None:
        return None
    if own is not None and not own.is_plain_text() and to_json(own.json_schema()) == given:
        return own
    return _OtherSchema(given)


class _OtherSchema(AgentOutputSchemaBase):  # type: ignore[misc]
    """A schema that a fork asks for. The answer is still read by the schema of the agent's own."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema

    def is_plain_text(self) -> bool:
        return False

    def name(self) -> str:
        return str(self._schema.get("title", "output"))

    def json_schema(self) -> dict[str, Any]:
        return self._schema

    def is_strict_json_schema(self) -> bool:
        return False

    def validate_json(self, json_str: str) -> Any:
        return json_str


def _with_record(tool: Any, record: ToolRecord) -> Any:
    """A tool of the code's as ``record`` tells of it."""
    told = record_of(tool)
    if not isinstance(tool, FunctionTool) or (told.description, told.parameters) == (
        record.description,
        record.parameters,
    ):
        return tool
    return _told_tool(record)


def _only_told(record: ToolRecord) -> FunctionTool:
    """A tool that the model is told of and the code does not have: a call of it is for the SDK to refuse."""
    return _told_tool(record)


def _told_tool(record: ToolRecord) -> FunctionTool:
    parameters = record.parameters or {"type": "object", "properties": {}}
    return FunctionTool(
        name=record.name,
        description=record.description,
        params_json_schema=parameters,
        on_invoke_tool=performed_elsewhere,
        strict_json_schema=False,
    )


def _handed(handoff: Handoff[Any, Any], record: ToolRecord) -> Handoff[Any, Any]:
    if (handoff.tool_description, handoff.input_json_schema) == (record.description, record.parameters):
        return handoff
    return dataclasses.replace(
        handoff,
        tool_description=record.description,
        input_json_schema=record.parameters or {},
        strict_json_schema=False,
    )
