"""A LangChain chat model made ready to be asked through the recorder: once, for as long as it says what it said."""

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import is_
from typing import Any

import msgspec
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.utils.function_calling import convert_to_openai_tool
from msgspec import Struct

from forkpoint.definition import ToolRecord
from forkpoint.effects import Recovery
from forkpoint.errors import ValueNotJson
from forkpoint.values import to_json


class Ready(Struct):
    """What is made of a model once: its name and settings, and ``alone``: it without its client's own repeats."""

    said: Mapping[str, Any]
    name: str
    settings: Mapping[str, Any]
    alone: Any = None
    offered: tuple[bytes, tuple[ToolRecord, ...]] = (b"", ())

    @classmethod
    def of(cls, model: Any) -> "Ready":
        """What is made of ``model`` as it is now."""
        known = model._get_ls_params()
        provider, name = known.get("ls_provider") or type(model).__name__, known.get("ls_model_name")
        own = {key: known[f"ls_{key}"] for key in ("temperature", "max_tokens") if known.get(f"ls_{key}") is not None}
        named = f"{provider}:{name}" if name else str(provider)
        return cls(said_of(model), named, own)

    def told(self, tools: Sequence[Any], recovery: Callable[[str], Recovery]) -> tuple[ToolRecord, ...]:
        """Tools as a run records them, made again where one is another than before."""
        written, (before, records) = _written(tools), self.offered
        if not written or written != before:
            records = tuple(_tool(tool, recovery) for tool in tools)
            self.offered = (written, records)
        return records


def _written(tools: Sequence[Any]) -> bytes:
    """Tools that are told as data, to know them again by; nothing for any other."""
    if not all(isinstance(tool, dict) for tool in tools):
        return b""
    try:
        return msgspec.json.encode(tools)
    except (TypeError, ValueError):
        return b""


def said_of(model: Any) -> dict[str, Any]:
    """What a model holds, as it would be copied."""
    return {**vars(model), **(model.__pydantic_private__ or {})}


def says_the_same(model: Any, said: Mapping[str, Any]) -> bool:
    """Whether a model holds the very objects that ``said_of`` found."""
    now = said_of(model)
    return now.keys() == said.keys() and same_objects(now.values(), said.values())


def same_objects(a: Collection[Any], b: Collection[Any]) -> bool:
    """Whether both hold the same objects, in the same order."""
    return len(a) == len(b) and all(map(is_, a, b))


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


def _tool(tool: Any, recovery: Callable[[str], Recovery]) -> ToolRecord:
    try:
        told = convert_to_openai_tool(tool)["function"]
    except (ValueError, KeyError, TypeError):  # a tool of the provider's own, which only it knows
        name = str(tool.get("name") or tool.get("type")) if isinstance(tool, dict) else str(tool)
        return ToolRecord(name=name, parameters=setting(tool), recovery=Recovery.REPEAT)
    name = told["name"]
    return ToolRecord(
        name=name,
        description=told.get("description", ""),
        parameters=to_json(told.get("parameters")),
        recovery=recovery(name),
    )


def setting(value: Any) -> Any:
    """A setting as JSON; a class by the schema of what it describes, or its name."""
    try:
        return to_json(value)
    except ValueNotJson:
        if hasattr(value, "model_json_schema"):
            return to_json(value.model_json_schema())
        kind = value if isinstance(value, type) else type(value)
        return f"{kind.__module__}.{kind.__qualname__}"
