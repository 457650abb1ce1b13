"""Every request of a Pydantic AI agent to a model as an effect, and the response made of its record."""

import copy
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from operator import attrgetter
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai import durable_exec
from pydantic_ai import messages as theirs
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition
from pydantic_core import to_jsonable_python

from forkpoint.adapters.provider_errors import translated
from forkpoint.adapters.pydantic_ai_declared import Declared, record_of
from forkpoint.adapters.pydantic_ai_failures import raised
from forkpoint.adapters.pydantic_ai_heard import Heard
from forkpoint.adapters.pydantic_ai_messages import MARK, dumped_of, rest_of, to_ours, to_response
from forkpoint.adapters.pydantic_ai_usage import cost_of, is_cut, piece_of, usage_of
from forkpoint.definition import ToolRecord
from forkpoint.effects import ATTEMPTS
from forkpoint.outcomes import Succeeded
from forkpoint.ports import ModelProgress, ModelRequest, ModelResponse, ModelUnavailable
from forkpoint.runtime.recorder import Recorder

_PARAMETERS: TypeAdapter[Any] = TypeAdapter(ModelRequestParameters)
_TRANSPORT = ("timeout", "request_timeout", "first_event_timeout", "extra_headers", "max_retries")
"""Settings that say how to reach a provider, not what to ask; they may hold keys and are not recorded."""

_ELSEWHERE = {"function_tools", "output_tools", "instruction_parts"}
_beside = attrgetter(*[name for name in ModelRequestParameters.__dataclass_fields__ if name not in _ELSEWHERE])

Telling = Callable[[ModelProgress], None]
"""Is told the pieces of a stream while they come in."""

_TELLING: ContextVar[Telling | None] = ContextVar("forkpoint_pydantic_ai_telling", default=None)

Handle = Callable[[Any], Awaitable[Any]]
"""Does what Pydantic AI would do: its own code, given its own parameters."""


class Asking:
    """How the models of one agent are asked in one recorded function."""

    def __init__(self, said: Declared) -> None:
        self.heard = Heard()
        self._said = said
        self._records: tuple[list[Any], list[Any], tuple[ToolRecord, ...]] = ([], [], ())
        self._shape: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})

    async def ask(
        self, recorder: Recorder, params: Any, handle: Handle, *, model: str, agent: str, streams: bool
    ) -> Any:
        """The recorded response to one request; live, ``handle`` is given what is to be asked."""
        request = self._request(params, model)

        async def perform(changed: ModelRequest, progress: Telling) -> ModelResponse:
            told = params if changed is request or changed == request else substituted(params, request, changed)
            settings = {**(told.model_settings or {}), "max_retries": 0}
            with durable_exec.durable_unit_scope(), _telling(progress):
                return await _responded(handle(replace(told, model_settings=settings)), changed.model, told, streams)

        more = (params.model_settings or {}).get("max_retries")
        attempts = ATTEMPTS if more is None else 1 + more
        return await self.asked(recorder, request, perform, agent=agent, attempts=attempts)

    async def asked(
        self, recorder: Recorder, request: ModelRequest, perform: Any, *, agent: str, attempts: int = ATTEMPTS
    ) -> Any:
        """The recorded response to ``request``. Raises as Pydantic AI does where there is none."""

        def asked() -> Awaitable[Any]:
            return recorder.model(request, perform, agent=agent, attempts=attempts)

        answer = await recorder.waited(asked, request.model, is_async=True)
        outcome = answer.outcome
        if not isinstance(outcome, Succeeded) or outcome.message is None:
            raise raised(answer, request.model)
        response = to_response(outcome.message, outcome.value)
        self.heard.is_said(response, outcome.message)
        return response

    def _request(self, params: Any, model: str) -> ModelRequest:
        return ModelRequest(
            model=model,
            instructions=_instructions(params),
            messages=self.heard.messages(params.messages),
            tools=self._tools(params.model_request_parameters),
            settings=self._settings(params),
        )

    def _tools(self, parameters: Any) -> tuple[ToolRecord, ...]:
        functions, outputs, records = self._records
        if functions != parameters.function_tools or outputs != parameters.output_tools:
            functions, outputs = list(parameters.function_tools), list(parameters.output_tools)
            records = tuple([record_of(one, self._said) for one in (*functions, *outputs)])
            self._records = (functions, outputs, records)
        return records

    def _settings(self, params: Any) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        if params.model_settings:
            given = {name: one for name, one in params.model_settings.items() if name not in _TRANSPORT}
            plain = to_jsonable_python(given, fallback=lambda value: type(value).__name__)
        shape = self._shape_of(params.model_request_parameters)
        return {**plain, MARK: shape} if shape else plain

    def _shape_of(self, parameters: Any) -> dict[str, Any]:
        """What the parameters of a request say beside its tools and instructions, where it is not the usual."""
        held = _beside(parameters)
        found = self._shape[1]
        if self._shape[0] != held:
            dumped = _PARAMETERS.dump_python(parameters, mode="json", exclude=_ELSEWHERE, exclude_defaults=True)
            found = {
                name: sorted(one) if isinstance(getattr(parameters, name), set) else one for name, one in dumped.items()
            }
            with suppress(Exception):  # what cannot be copied cannot be compared later; it is told anew each time
                self._shape = (copy.deepcopy(held), found)
        return found


async def _responded(asking: Awaitable[Any], model: str, params: Any, streams: bool) -> ModelResponse:
    try:
        response = await asking
    except Exception as error:
        told = translated(error, model=model, keys=_keys(params.run_context))
        own = isinstance(error, UnexpectedModelBehavior) and not isinstance(told, ModelUnavailable)
        if told is error or own:
            raise
        raise told from error
    if streams and is_cut(response):
        raise ModelUnavailable(f"{model} gave no whole answer: the stream ended before the answer did")
    return answered(response)


def answered(response: Any) -> ModelResponse:
    """A response of Pydantic AI's as it is recorded."""
    dumped = dumped_of(response)
    message = to_ours(response, dumped)
    used, cost = usage_of(response.usage), cost_of(response)
    return ModelResponse(message=message, usage=used, cost=cost, rest=rest_of(dumped, message))


def _keys(context: Any) -> list[str]:
    """The keys that an error of the model's provider could repeat."""
    model: Any = getattr(context, "model", None)
    while hasattr(model, "wrapped"):
        model = model.wrapped
    client = getattr(getattr(model, "provider", None), "client", None)
    found = (getattr(client, name, None) for name in ("api_key", "auth_token"))
    return [key for key in found if isinstance(key, str) and key]


@contextmanager
def _telling(progress: Telling) -> Iterator[None]:
    token = _TELLING.set(progress)
    try:
        yield
    finally:
        _TELLING.reset(token)


async def told_live(events: Any) -> Any:
    """The events of a stream, each told as progress of the effect that is being performed."""
    tell = _TELLING.get()
    async for event in events:
        piece = piece_of(event) if tell is not None else None
        if tell is not None and piece is not None:
            tell(piece)
        yield event


# ── what is asked, and what is put in its place ──────────────────────────────────────────────────────────────


def _instructions(params: Any) -> str:
    parts = params.model_request_parameters.instruction_parts
    if parts is not None:
        return theirs.InstructionPart.join(parts) or ""
    asked = [one for one in params.messages if isinstance(one, theirs.ModelRequest)]
    return (asked[-1].instructions or "") if asked else ""


def substituted(params: Any, asked: ModelRequest, changed: ModelRequest) -> Any:
    """The parameters with what a fork set in place of what the code asked, and nothing else touched."""
    if changed.model != asked.model:
        params = replace(params, model_id=changed.model)
    if changed.settings != asked.settings:
        params = replace(params, model_settings=_substituted_settings(params, changed.settings))
    if changed.tools != asked.tools:
        tools = _substituted_tools(params.model_request_parameters, changed.tools)
        params = replace(params, model_request_parameters=tools)
    if changed.instructions != asked.instructions:
        params = _instructed(params, changed.instructions)
    return params


def _substituted_settings(params: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: one for name, one in (params.model_settings or {}).items() if name in _TRANSPORT}
    return {**kept, **{name: one for name, one in settings.items() if name != MARK}}


def _substituted_tools(parameters: Any, tools: tuple[ToolRecord, ...]) -> Any:
    known = {one.name: one for one in (*parameters.function_tools, *parameters.output_tools)}
    outputs = {one.name for one in parameters.output_tools}
    made = [_definition(known.get(one.name), one) for one in tools]
    return replace(
        parameters,
        function_tools=[one for one in made if one.name not in outputs],
        output_tools=[one for one in made if one.name in outputs],
    )


def _definition(known: Any, record: ToolRecord) -> Any:
    said = {"description": record.description or None, "parameters_json_schema": record.parameters}
    return replace(known, **said) if known is not None else ToolDefinition(name=record.name, **said)


def _instructed(params: Any, words: str) -> Any:
    parts = [theirs.InstructionPart(content=words)] if words else []
    messages = list(params.messages)
    for place in range(len(messages) - 1, -1, -1):
        if isinstance(messages[place], theirs.ModelRequest):
            messages[place] = replace(messages[place], instructions=words or None)
            break
    parameters = replace(params.model_request_parameters, instruction_parts=parts)
    return replace(params, messages=messages, model_request_parameters=parameters)
