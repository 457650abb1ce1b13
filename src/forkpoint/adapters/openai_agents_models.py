"""Models of the Agents SDK whose answers are on record: ``ForkpointProvider`` and ``ForkpointModel``."""

import copy
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import Any

from agents import Model, ModelProvider, MultiProvider
from agents.models._retry_runtime import provider_managed_retries_disabled
from agents.models.default_models import get_default_model
from agents.retry import ModelRetryAdvice, ModelRetryNormalizedError
from agents.tracing import get_current_span

from forkpoint.adapters.openai_agents_answers import events_of, whole_of
from forkpoint.adapters.openai_agents_asking import Ask, Tell, closing, streamed, whole
from forkpoint.adapters.openai_agents_known import check_durable
from forkpoint.adapters.openai_agents_requests import Wanted, changed, request_of
from forkpoint.adapters.provider_errors import translated
from forkpoint.effects import ATTEMPTS
from forkpoint.errors import ForkpointError, ModelNotSetUp
from forkpoint.ports import ModelRequest, ModelResponse, ModelUnavailable
from forkpoint.runtime.asks import Answer
from forkpoint.runtime.recorder import Recorder, current


class ForkpointModel(Model):  # type: ignore[misc]
    """A model of the SDK's that is asked on record, in a recorded function; anywhere else, the model as it is.

    For an ``Agent`` or ``RunConfig`` that is given a model object; where models are named, ``ForkpointProvider`` makes
    them. ``name`` is how the run calls it, by default its own. A request is tried ``attempts`` times; the SDK's and the
    client's own repeats are off, so that each is on record. ``timeout_s`` bounds an attempt, in seconds.
    """

    def __init__(
        self,
        model: Model,
        *,
        name: str | None = None,
        provider: ModelProvider | None = None,
        attempts: int = ATTEMPTS,
        timeout_s: float | None = None,
    ) -> None:
        self.inner = model
        self.name = name or str(getattr(model, "model", type(model).__name__))
        self._provider = provider
        self._attempts = attempts
        self._timeout_s = timeout_s

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[Any],
        model_settings: Any,
        tools: list[Any],
        output_schema: Any,
        handoffs: list[Any],
        tracing: Any,
        *,
        previous_response_id: str | None = None,
        conversation_id: str | None = None,
        prompt: Any = None,
    ) -> Any:
        """See the SDK's ``Model``. In a recorded function what came of it is from the record, also the first time."""
        wanted = Wanted(
            system_instructions=system_instructions,
            input=input,
            model_settings=model_settings,
            tools=tools,
            output_schema=output_schema,
            handoffs=handoffs,
            tracing=tracing,
            previous_response_id=previous_response_id,
            conversation_id=conversation_id,
            prompt=prompt,
        )
        recorder = current()
        if recorder is None:
            return await self.inner.get_response(**wanted.given())
        return whole_of(await self._asked(recorder, wanted, whole))

    async def stream_response(
        self,
        system_instructions: str | None,
        input: str | list[Any],
        model_settings: Any,
        tools: list[Any],
        output_schema: Any,
        handoffs: list[Any],
        tracing: Any,
        *,
        previous_response_id: str | None = None,
        conversation_id: str | None = None,
        prompt: Any = None,
    ) -> AsyncIterator[Any]:
        """See the SDK's ``Model``. In a recorded function the events come from the record, once the answer is on it;
        what comes before is told to watchers as progress."""
        wanted = Wanted(
            system_instructions=system_instructions,
            input=input,
            model_settings=model_settings,
            tools=tools,
            output_schema=output_schema,
            handoffs=handoffs,
            tracing=tracing,
            previous_response_id=previous_response_id,
            conversation_id=conversation_id,
            prompt=prompt,
        )
        recorder = current()
        if recorder is None:
            async with closing(self.inner.stream_response(**wanted.given())) as events:
                async for event in events:
                    yield event
            return
        for event in events_of(await self._asked(recorder, wanted, streamed), self.name):
            yield event

    async def _asked(self, recorder: Recorder, wanted: Wanted, ask: Ask) -> Answer:
        check_durable(wanted.tools, recorder.run_id)
        asked = request_of(recorder, wanted, self.name)

        async def perform(request: ModelRequest, tell: Tell) -> ModelResponse:
            model = self._model(request.model)
            try:
                now = changed(wanted, asked, request)
                with provider_managed_retries_disabled(True):
                    return await ask(model, now, tell)
            except (ForkpointError, ModelUnavailable):
                raise
            except Exception as error:
                told = translated(error, model=request.model, keys=_keys(model))
                if told is error:
                    raise
                raise told from error

        agent = _agent_name()

        def answer() -> Awaitable[Answer]:
            return recorder.model(asked, perform, agent=agent, attempts=self._attempts, timeout_s=self._timeout_s)

        found: Answer = await recorder.waited(answer, f"the model {self.name}", is_async=True)
        return found

    def _model(self, name: str) -> Any:
        """The model to ask: this one, or another of which a fork gave the name."""
        if name == self.name:
            return self.inner
        if self._provider is not None:
            return self._provider.get_model(name)
        if not hasattr(self.inner, "model"):
            problem = f"a {type(self.inner).__name__} asks one model only; use ForkpointProvider to have others by name"
            raise ModelNotSetUp(model=name, problem=problem)
        other = copy.copy(self.inner)
        other.model = name
        return other

    def get_retry_advice(self, request: Any) -> Any:
        """In a recorded function: never again, as every attempt was on record and they are spent."""
        if current() is None:
            return self.inner.get_retry_advice(request)
        return ModelRetryAdvice(
            suggested=False,
            replay_safety="unsafe",
            reason="the run has recorded how this request ended",
            normalized=ModelRetryNormalizedError(is_abort=True),
        )

    def _supports_default_prompt_cache_key(self) -> bool:
        # The SDK makes a key by chance, another in every process; a request on record would not be known again.
        found = getattr(self.inner, "_supports_default_prompt_cache_key", None)
        return current() is None and callable(found) and bool(found())

    async def _cleanup_on_run_end(self, owner: object) -> None:
        await self.inner._cleanup_on_run_end(owner)

    async def close(self) -> None:
        """Let go of what the model holds."""
        await self.inner.close()


class ForkpointProvider(ModelProvider):  # type: ignore[misc]
    """The models of another provider of the SDK's, by name, asked on record: for ``RunConfig(model_provider=…)``.

    ``provider`` finds them, by default the SDK's ``MultiProvider``. ``attempts`` and ``timeout_s`` are as for
    ``ForkpointModel``. A fork's ``Patch(model=…)`` names a model as this provider knows it.
    """

    def __init__(
        self,
        provider: ModelProvider | None = None,
        *,
        attempts: int = ATTEMPTS,
        timeout_s: float | None = None,
    ) -> None:
        self._given = provider
        self._attempts = attempts
        self._timeout_s = timeout_s

    @property
    def inner(self) -> Any:
        """The provider that finds the models."""
        if self._given is None:
            self._given = MultiProvider()
        return self._given

    def get_model(self, model_name: str | None) -> Model:
        """See the SDK's ``ModelProvider``."""
        found = self.inner.get_model(model_name)
        if isinstance(found, ForkpointModel):
            return found
        return ForkpointModel(
            found,
            name=model_name or get_default_model(),
            provider=self.inner,
            attempts=self._attempts,
            timeout_s=self._timeout_s,
        )

    async def aclose(self) -> None:
        """Let go of what the provider holds."""
        if self._given is not None and hasattr(self._given, "aclose"):
            await self._given.aclose()


def _keys(model: Any) -> Sequence[str]:
    key = getattr(getattr(model, "_client", None), "api_key", None)
    return [key] if isinstance(key, str) and key else []


def _agent_name() -> str | None:
    """Who asks. The SDK does not tell its models; its spans say it, also where nothing is traced."""
    told = getattr(get_current_span(), "span_data", None)
    name = getattr(told, "agent_name", None)
    if name is None and getattr(told, "type", "") == "agent":
        name = getattr(told, "name", None)
    return name if isinstance(name, str) else None
