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
from langchain_core.utils.function_calling import convert_to_openai_tool

from forkpoint.adapters.langchain_messages import rest_of, to_ours, to_theirs, usage_of
from forkpoint.adapters.langgraph_known import Known
from forkpoint.adapters.provider_errors import translated
from forkpoint.definition import ToolRecord
from forkpoint.effects import Recovery
from forkpoint.errors import ForkpointError, ValueNotJson
from forkpoint.messages import Message
from forkpoint.ports import ModelProgress, ModelRequest, ModelResponse, ModelUnavailable
from forkpoint.runtime.asks import Answer
from forkpoint.runtime.calls import in_thread
from forkpoint.runtime.recorder import Recorder, current
from forkpoint.values import to_json

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
        self._alone: Any = None

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
        request = request_of(self._model, messages, given, self._recovery, known)

        async def perform(changed: ModelRequest, progress: Told) -> ModelResponse:
            model, told, more = self._as_changed(request, changed, messages, given)
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

    def _as_changed(
        self, asked: ModelRequest, changed: ModelRequest, messages: list[BaseMessage], given: dict[str, Any]
    ) -> tuple[Any, list[BaseMessage], dict[str, Any]]:
        """The model to ask, with what, where a fork put something in the place of what the code asks."""
        if self._alone is None:
            self._alone = without_repeats(self._model)
        model, told, more = self._alone, messages, given
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
    model: Any,
    messages: Sequence[BaseMessage],
    given: Mapping[str, Any],
    recovery: Callable[[str], Recovery],
    told: Known,
) -> ModelRequest:
    """What a chat model is asked, as a run records it."""
    known = model._get_ls_params()
    instructions, rest = "", list(messages)
    if rest and isinstance(rest[0], SystemMessage) and isinstance(rest[0].content, str):
        instructions, rest = rest[0].content, rest[1:]
    provider, name = known.get("ls_provider") or type(model).__name__, known.get("ls_model_name")
    own = {key: known[f"ls_{key}"] for key in ("temperature", "max_tokens") if known.get(f"ls_{key}") is not None}
    settings = {**own, **{key: _setting(item) for key, item in given.items() if key != "tools" and item is not None}}
    return ModelRequest(
        model=f"{provider}:{name}" if name else str(provider),
        instructions=instructions,
        messages=told.told(rest),
        tools=tuple(_tool(tool, recovery) for tool in given.get("tools") or ()),
        settings=settings,
    )


def _setting(value: Any) -> Any:
    """A setting as JSON; a class by the schema of what it describes, or its name."""
    try:
        return to_json(value)
    except ValueNotJson:
        if hasattr(value, "model_json_schema"):
            return to_json(value.model_json_schema())
        kind = value if isinstance(value, type) else type(value)
        return f"{kind.__module__}.{kind.__qualname__}"


def _tool(tool: Any, recovery: Callable[[str], Recovery]) -> ToolRecord:
    try:
        told = convert_to_openai_tool(tool)["function"]
    except (ValueError, KeyError, TypeError):  # a tool of the provider's own, which only it knows
        name = str(tool.get("name") or tool.get("type")) if isinstance(tool, dict) else str(tool)
        return ToolRecord(name=name, parameters=_setting(tool), recovery=Recovery.REPEAT)
    name = told["name"]
    return ToolRecord(
        name=name,
        description=told.get("description", ""),
        parameters=to_json(told.get("parameters")),
        recovery=recovery(name),
    )


def _tool_told(tool: ToolRecord) -> dict[str, Any]:
    parameters = tool.parameters or {"type": "object", "properties": {}}
    described = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": described}


def _response(result: ChatResult) -> ModelResponse:
    generation = result.generations[0]
    rest = {"message": rest_of(generation.message)}
    info = {"generation_info": generation.generation_info, "llm_output": result.llm_output}
    rest |= {name: _setting(item) for name, item in info.items() if item}
    return ModelResponse(message=to_ours(generation.message), usage=usage_of(generation.message), rest=rest)


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


def without_repeats(model: Any) -> Any:
    """``model`` without its client's own repeats, so that every attempt is on record."""
    if not isinstance(model, BaseChatModel):
        return model
    fields: Any = type(model).model_fields
    alone: Any = model.model_copy(update={"max_retries": 0} if "max_retries" in fields else None)
    for name in ("_client", "_async_client"):  # made when first used, from what the model says
        alone.__dict__.pop(name, None)
    for root, client in (("root_client", "client"), ("root_async_client", "async_client")):
        found = getattr(alone, root, None)
        if found is not None and hasattr(found, "with_options"):
            once = found.with_options(max_retries=0)
            object.__setattr__(alone, root, once)
            object.__setattr__(alone, client, once.chat.completions)
    return alone


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
