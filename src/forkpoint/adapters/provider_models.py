"""Models by name: ``ProviderModel("openai:gpt-5")``, through Pydantic AI's direct requests and the providers' clients.

The extra ``models`` has what this needs; it is imported when a model is first asked.
"""

import asyncio
import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from typing import Any

from forkpoint.adapters.provider_errors import missing, translated
from forkpoint.adapters.pydantic_ai_usage import cost_of, is_cut, piece_of, usage_of
from forkpoint.errors import ForkpointError, ModelBadSettings
from forkpoint.ports import ModelProgress, ModelRequest, ModelResponse, ModelUnavailable

OUTPUT_SCHEMA = "output_schema"
"""The setting that has a JSON Schema which the answer's text must fit."""

_OURS = frozenset({"max_retries"})
"""Settings of Pydantic AI that a run does not pass on: repeating a request is the run's part, on record."""

_ASKED_THROUGH = ("pydantic_ai.direct", "forkpoint.adapters.pydantic_ai_messages")
"""What the first request would import, imported before."""

_SILENT = {"framing_announcement": "never"}
"""Pydantic AI may add instructions of its own; a model is shown what is on record and nothing else."""


class ProviderModel:
    """A model of any provider that Pydantic AI speaks to, by its name: ``openai:gpt-5``, ``anthropic:claude-opus-4-5``.

    ``openai:`` is the Responses API, ``openai-chat:`` is Chat Completions, which others speak too: give ``base_url``.
    Without ``api_key`` the provider's environment variable is used. ``stream=False`` asks for the answer in one piece.
    ``timeout_s`` is how long may pass without a byte. ``model`` is a model of Pydantic AI's, made by yourself, to ask
    instead of one found by name. The clients' own repeats are switched off, so that every attempt is on record.

    An agent's settings are Pydantic AI's ``ModelSettings`` (``temperature``, ``max_tokens``, …) and the provider's
    own (``openai_reasoning_effort``, ``anthropic_thinking``, …), and ``output_schema``: a JSON Schema for the answer.

    Connections are kept between requests until ``close``; a runtime closes the models it asked. Raises
    ``adapter.missing`` where the extra is not installed.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        stream: bool = True,
        timeout_s: float | None = None,
        model: Any = None,
    ) -> None:
        if importlib.util.find_spec("pydantic_ai") is None:
            raise missing(name)
        self._name = name
        self._place = {"base_url": base_url, "api_key": api_key}
        self._stream = stream
        self._timeout_s = timeout_s
        self._given = model
        self._opened: dict[asyncio.AbstractEventLoop, asyncio.Task[Any]] = {}

    def __repr__(self) -> str:
        return f"ProviderModel({self._name!r})"

    @property
    def name(self) -> str:
        """The name that a run records."""
        return self._name

    async def respond(self, request: ModelRequest, progress: Callable[[ModelProgress], None]) -> ModelResponse:
        """Answer ``request``. Raises ``ModelUnavailable`` where asking again may help.

        Other errors are ``model.refused``, ``model.bad-settings``, ``model.not-set-up`` and ``adapter.missing``.
        """
        keys = [key for key in (self._place["api_key"],) if key]
        try:
            model = await self._open()
            keys += _keys(model)
            # The first to come opens the connections, the last to leave closes them; ``_open`` holds them in between.
            async with model:
                return await self._ask(model, request, progress)
        except (ForkpointError, ModelUnavailable):
            raise
        except Exception as error:
            told = translated(error, model=self._name, keys=keys)
            if told is error:
                raise
            raise told from error

    async def close(self) -> None:
        """Let connections go once nobody uses them. The model can be asked again, and then opens new ones."""
        opened = self._opened.pop(asyncio.get_running_loop(), None)
        if opened is None:
            return
        await asyncio.wait([opened])
        if not opened.cancelled() and opened.exception() is None:
            await opened.result().__aexit__(None, None, None)

    async def _open(self) -> Any:
        """The model for this event loop, which a connection belongs to."""
        loop = asyncio.get_running_loop()
        for other in [one for one in self._opened if one.is_closed()]:
            del self._opened[other]
        opened = self._opened.get(loop)
        if opened is None:
            opened = self._opened[loop] = loop.create_task(self._enter())
        try:
            return await asyncio.shield(opened)
        except Exception:
            self._opened.pop(loop, None)  # what is missing may be there when it is asked next
            raise

    async def _enter(self) -> Any:
        # Importing a provider's client takes seconds the first time; other runs go on meanwhile.
        model = await asyncio.to_thread(self._make)
        client = _client(model)
        if hasattr(client, "max_retries"):
            client.max_retries = 0
        await model.__aenter__()
        return model

    def _make(self) -> Any:
        for module in _ASKED_THROUGH:
            importlib.import_module(module)
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
        from pydantic_ai.providers import infer_provider_class

        place = {name: value for name, value in self._place.items() if value is not None}
        if self._given is not None:
            return self._given
        try:
            if not place:
                return infer_model(self._name)
            return infer_model(self._name, lambda provider: infer_provider_class(provider)(**place))
        except (TypeError, ValueError) as error:
            raise UserError(str(error)) from error

    async def _ask(self, model: Any, request: ModelRequest, progress: Callable[[ModelProgress], None]) -> ModelResponse:
        from pydantic_ai import direct

        from forkpoint.adapters.pydantic_ai_messages import to_ours, to_theirs

        settings = self._settings(model, request.settings)
        asked = {
            "messages": to_theirs(request.messages, request.instructions, provider=model.system),
            "model_settings": settings,
            "model_request_parameters": _parameters(request),
        }
        if self._stream:
            response = await self._streamed(direct.model_request_stream(model, **asked), progress)
        else:
            response = await direct.model_request(model, **asked)
        message = to_ours(response)
        if not self._stream and message.text:
            progress(ModelProgress(text=message.text))
        return ModelResponse(message=message, usage=usage_of(response.usage), cost=cost_of(response))

    async def _streamed(self, asking: Any, progress: Callable[[ModelProgress], None]) -> Any:
        async with asking as stream:
            async for event in stream:
                piece = piece_of(event)
                if piece is not None:
                    progress(piece)
        response = stream.get()
        if is_cut(response) or response.state != "complete":
            raise ModelUnavailable(f"{self._name} gave no whole answer: the stream ended before the answer did")
        return response

    def _settings(self, model: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
        known = _known_settings(model)
        strange = sorted(set(settings) - known - {OUTPUT_SCHEMA})
        if strange:
            names = ", ".join(map(repr, strange))
            raise ModelBadSettings(model=self._name, problem=f"there is no setting {names}")
        passed = {name: value for name, value in settings.items() if name != OUTPUT_SCHEMA}
        timeout = {} if self._timeout_s is None else {"timeout": self._timeout_s}
        return {name: value for name, value in _SILENT.items() if name in known} | timeout | passed


def _client(model: Any) -> Any:
    """The provider's own client, where the model has one."""
    return getattr(getattr(model, "provider", None), "client", None)


def _keys(model: Any) -> list[str]:
    found = (getattr(_client(model), name, None) for name in ("api_key", "auth_token"))
    return [key for key in found if isinstance(key, str) and key]


def _known_settings(model: Any) -> set[str]:
    """The settings that a model takes: everybody's, and those that its own module declares."""
    from pydantic_ai.settings import ModelSettings

    declared = [ModelSettings]
    for kind in type(model).__mro__:
        within = vars(sys.modules[kind.__module__])
        declared += [one for name, one in within.items() if name.endswith("ModelSettings")]
    return {key for one in declared for key in getattr(one, "__annotations__", ())} - _OURS


def _parameters(request: ModelRequest) -> Any:
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition
    from pydantic_ai.tools import ToolDefinition

    tools = [
        ToolDefinition(
            name=tool.name,
            description=tool.description or None,
            parameters_json_schema=tool.parameters or {"type": "object", "properties": {}},
        )
        for tool in request.tools
    ]
    schema = request.settings.get(OUTPUT_SCHEMA)
    if schema is None:
        return ModelRequestParameters(function_tools=tools)
    output = OutputObjectDefinition(json_schema=schema, name=schema.get("title"))
    return ModelRequestParameters(function_tools=tools, output_mode="native", output_object=output)
