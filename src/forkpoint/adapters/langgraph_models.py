"""A LangChain chat model whose calls are effects of the recorded function that they are made in.

What is wrapped is the one place where a chat model turns messages into a result: caching, streaming, ids and metadata
are the model's own, within what is performed once; tools, structured output and callbacks work as they do without it.
"""

import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from forkpoint.adapters.langchain_messages import rest_of, to_ours, to_theirs, usage_of
from forkpoint.adapters.langgraph_known import Known
from forkpoint.adapters.langgraph_ready import Ready, says_the_same, setting, without_repeats
from forkpoint.adapters.provider_errors import translated
from forkpoint.definition import ToolRecord
from forkpoint.effects import Recovery
from forkpoint.errors import ForkpointError
from forkpoint.messages import Message
from forkpoint.ports import ModelProgress, ModelRequest, ModelResponse, ModelUnavailable
from forkpoint.runtime.asks import Answer
from forkpoint.runtime.calls import in_thread
from forkpoint.runtime.recorder import Recorder, current

_CALLBACKS = "run_manager"
"""Under which name LangChain gives whoever is to hear of a model's answer."""

Find = Callable[[str], BaseChatModel]
Told = Callable[[ModelProgress], None]


def recorded_model(
    model: BaseChatModel,
    *,
    agent: str | None = None,
    models: Find | None = None,
    recovery: Callable[[str], Recovery] = lambda name: Recovery.HOLD,
) -> Any:
    """``model``, asked through the recorder while a recorded function runs, and as it is anywhere else.

    It is of the same class and works wherever the model does. Every attempt is on record: the client's own repeats are
    switched off. ``agent`` names who asks. ``models`` finds the model of a name that a fork put in this one's place;
    left out, LangChain's ``init_chat_model`` does. ``recovery`` is the class of a tool, as the run records it.

    A call that failed for good raises ``EffectFailed``, live and on replay.
    """
    asking = _Asking(model, agent=agent, models=models, recovery=recovery)
    made: Any = model.model_copy()
    for name in ("_generate_with_cache", "_agenerate_with_cache", "_should_stream"):
        object.__setattr__(made, name, getattr(asking, name))
    return made


class _Asking:
    """What stands in the place of a chat model's own methods."""

    def __init__(
        self, model: BaseChatModel, *, agent: str | None, models: Find | None, recovery: Callable[[str], Recovery]
    ) -> None:
        self._model: Any = model
        self._agent = agent
        self._models = models
        self._recovery = recovery
        self._ready: Ready | None = None

    def _should_stream(self, **asked: Any) -> bool:
        # A recorded answer is whole; while it is made, the model itself streams to whoever listens.
        return False if current() is not None else bool(self._model._should_stream(**asked))

    def _generate_with_cache(self, messages: list[BaseMessage], **given: Any) -> ChatResult:
        recorder = current()
        if recorder is None:
            plain: ChatResult = self._model._generate_with_cache(messages, **given)
            return plain
        callbacks = given.pop(_CALLBACKS, None)

        async def generate(model: Any, messages: list[BaseMessage], progress: Told, **more: Any) -> ChatResult:
            heard = {_CALLBACKS: _heard(callbacks, _Heard(progress))}
            result: ChatResult = await in_thread(lambda: model._generate_with_cache(messages, **heard, **more))
            return result

        found: ChatResult = recorder.waited(
            lambda: self._ask(recorder, messages, given, generate), "model", is_async=False
        )
        return found

    async def _agenerate_with_cache(self, messages: list[BaseMessage], **given: Any) -> ChatResult:
        recorder = current()
        if recorder is None:
            plain: ChatResult = await self._model._agenerate_with_cache(messages, **given)
            return plain
        callbacks = given.pop(_CALLBACKS, None)

        async def generate(model: Any, messages: list[BaseMessage], progress: Told, **more: Any) -> ChatResult:
            heard = {_CALLBACKS: _heard(callbacks, _AsyncHeard(progress))}
            result: ChatResult = await model._agenerate_with_cache(messages, **heard, **more)
            return result

        found: ChatResult = await recorder.waited(
            lambda: self._ask(recorder, messages, given, generate), "model", is_async=True
        )
        return found

    async def _ask(
        self,
        recorder: Recorder,
        messages: list[BaseMessage],
        given: dict[str, Any],
        generate: Callable[..., Awaitable[ChatResult]],
    ) -> ChatResult:
        known = _KNOWN.get(recorder)
        if known is None:
            known = _KNOWN[recorder] = Known()
        ready = self._made_ready()
        request = request_of(ready, messages, given, self._recovery, known)

        async def perform(changed: ModelRequest, progress: Told) -> ModelResponse:
            model, told, more = self._as_changed(ready, request, changed, messages, given)
            pieces: list[ModelProgress] = []

            def tell(piece: ModelProgress) -> None:
                if piece.text:
                    pieces.append(piece)
                    progress(piece)

            try:
                response = _response(await generate(model, told, tell, **more))
                if not pieces and response.message.text:
                    progress(ModelProgress(text=response.message.text))
                return response
            except (ForkpointError, ModelUnavailable):
                raise
            except Exception as error:
                said = translated(error, model=changed.model, keys=_keys(model))
                if said is error:
                    raise
                raise said from error

        return result_of(await recorder.model(request, perform, agent=self._agent))

    def _made_ready(self) -> Ready:
        """The model ready to be asked, as long as it says what it said."""
        if self._ready is None or not says_the_same(self._model, self._ready.said):
            self._ready = Ready.of(self._model)
        return self._ready

    def _as_changed(
        self,
        ready: Ready,
        asked: ModelRequest,
        changed: ModelRequest,
        messages: list[BaseMessage],
        given: dict[str, Any],
    ) -> tuple[Any, list[BaseMessage], dict[str, Any]]:
        """The model to ask, with what, where a fork put something in the place of what the code asks."""
        if ready.alone is None:
            ready.alone = without_repeats(self._model)
        model, told, more = ready.alone, messages, given
        if changed.instructions != asked.instructions:
            rest = messages[1:] if messages and isinstance(messages[0], SystemMessage) else messages
            told = [SystemMessage(content=changed.instructions), *rest] if changed.instructions else list(rest)
        if changed.settings != asked.settings:
            more = {key: item for key, item in given.items() if key in ("tools", "stop")} | dict(changed.settings)
        if changed.model != asked.model:
            model = without_repeats((self._models or _found)(changed.model))
        if changed.tools != asked.tools or (changed.model != asked.model and asked.tools):
            tools = [_tool_told(tool) for tool in changed.tools]
            kept = {key: item for key, item in more.items() if key != "tools"}
            more = kept | (dict(model.bind_tools(tools).kwargs) if tools else {})
        return model, told, more


# ── requests and results ─────────────────────────────────────────────────────────────────────────────────────────────


_KNOWN: WeakKeyDictionary[Recorder, Known] = WeakKeyDictionary()


def request_of(
    ready: Ready,
    messages: Sequence[BaseMessage],
    given: Mapping[str, Any],
    recovery: Callable[[str], Recovery],
    known: Known,
) -> ModelRequest:
    """What a chat model is asked, as a run records it."""
    instructions, rest = "", messages
    if rest and isinstance(rest[0], SystemMessage) and isinstance(rest[0].content, str):
        instructions, rest = rest[0].content, rest[1:]
    asked = {key: setting(item) for key, item in given.items() if key != "tools" and item is not None}
    return ModelRequest(
        model=ready.name,
        instructions=instructions,
        messages=known.told(rest),
        tools=ready.told(given.get("tools") or (), recovery),
        settings={**ready.settings, **asked},
    )


def _tool_told(tool: ToolRecord) -> dict[str, Any]:
    parameters = tool.parameters or {"type": "object", "properties": {}}
    described = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": described}


def _response(result: ChatResult) -> ModelResponse:
    generation = result.generations[0]
    said = to_ours(generation.message)
    rest = {"message": rest_of(generation.message, said)}
    info = {"generation_info": generation.generation_info, "llm_output": result.llm_output}
    rest |= {name: setting(item) for name, item in info.items() if item}
    return ModelResponse(message=said, usage=usage_of(generation.message), rest=rest)


def result_of(answer: Answer) -> ChatResult:
    """A recorded answer as a chat model gives it. Raises ``EffectFailed`` for a call that failed."""
    message, kept = answer.message, answer.value if isinstance(answer.value, dict) else {}
    generation = ChatGeneration(
        message=to_theirs(_spoken(message), kept.get("message")), generation_info=kept.get("generation_info")
    )
    return ChatResult(generations=[generation], llm_output=kept.get("llm_output"))


def _spoken(message: Message) -> Message:
    """A model's message; a fork's patch may have put one in another role's words."""
    from msgspec.structs import replace

    return message if message.role == "assistant" else replace(message, role="assistant")


# ── clients ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _keys(model: Any) -> list[str]:
    """The secrets that a model holds, none of which is to show in an error."""
    held = (item for item in vars(model).values() if hasattr(item, "get_secret_value"))
    return [key for key in (item.get_secret_value() for item in held) if isinstance(key, str) and key]


def _found(name: str) -> BaseChatModel:
    from langchain.chat_models import init_chat_model

    model: BaseChatModel = init_chat_model(name)
    return model


class _Heard(BaseCallbackHandler):
    """Tells a run's watchers what a model streams."""

    run_inline = True

    def __init__(self, progress: Told) -> None:
        self._progress = progress

    def on_llm_new_token(self, token: Any, **more: Any) -> None:
        """A piece of the answer."""
        self._progress(_piece(token, **more))


class _AsyncHeard(AsyncCallbackHandler):
    """The same, for a model that is asked without an OS thread."""

    def __init__(self, progress: Told) -> None:
        self._progress = progress

    async def on_llm_new_token(self, token: Any, **more: Any) -> None:
        """A piece of the answer."""
        self._progress(_piece(token, **more))


def _piece(token: Any, chunk: Any = None, **_: Any) -> ModelProgress:
    message = getattr(chunk, "message", None)
    return ModelProgress(text=str(message.text) if message is not None else token if isinstance(token, str) else "")


def _heard(callbacks: Any, heard: BaseCallbackHandler) -> Any:
    """Who is told of what a model streams, and ``heard`` as well."""
    if callbacks is None:
        return None
    told = copy.copy(callbacks)
    told.__dict__.update(handlers=[*callbacks.handlers, heard])
    return told
