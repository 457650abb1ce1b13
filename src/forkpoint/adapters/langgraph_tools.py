"""What a LangChain tool gives, as a run records it, and back: a message's content where that is all, else the whole.

| Recorded | Means |
| --- | --- |
| a text, or any other JSON | the content of a ``ToolMessage`` |
| ``{"$message": {…}}`` | a ``ToolMessage`` with its artifact, status and the rest |
| ``{"$value": …}`` | a ``Command``, or several results, as LangGraph's serializer tells it |
| ``{"$interrupt": …}`` | the tool asked somebody: it has given nothing yet, and runs again when that is answered |
| a failure named ``ToolError`` | a message that tells the model of an error |
"""

import json
from collections.abc import Mapping
from typing import Any, cast

from langchain_core.messages import ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.errors import GraphInterrupt

from forkpoint.adapters.langchain_messages import as_content, rest_of, to_ours, to_theirs
from forkpoint.adapters.langgraph_values import Values
from forkpoint.errors.langgraph import GraphValueUnsafe
from forkpoint.messages import Message, ResponsePart
from forkpoint.outcomes import Cancelled, Failed, Succeeded
from forkpoint.runtime.asks import Answer

SHOWN = 4000
"""How much of an error's text a run keeps of a failure."""

INTERRUPT = "$interrupt"


class ToolError(Exception):
    """A tool's message to the model that something went wrong."""


class NoSafeForm:
    """In the place of a result that has none: the work is done, and its result cannot be used."""


class Results:
    """Results of tools and nodes as JSON; ``allow`` names the classes that they may hold."""

    def __init__(self, allow: Any = ()) -> None:
        named = tuple(allow) or None
        self._values = Values(JsonPlusSerializer(pickle_fallback=False, allowed_msgpack_modules=named))

    def value_told(self, value: Any, where: str) -> Any:
        """Any value as JSON. Raises ``langgraph.no-safe-form``."""
        return self._values.told(self._values.typed(value, where), where)

    def value_of(self, told: Any) -> Any:
        """The value that was told. Raises ``langgraph.not-allowed``."""
        return self._values.value(self._values.written(told))

    def told(self, given: Any, call: Mapping[str, Any]) -> Any:
        """What the tool of ``call`` gave, as its outcome records it. Raises ``ToolError`` for a message of an error."""
        try:
            if not _answers(given, call) or given.artifact:
                return {"$value": self.value_told(given, f"the result of {call['name']!r}")}
        except GraphValueUnsafe:
            return NoSafeForm()
        rest = {name: item for name, item in rest_of(given).items() if name not in ("name", "status")}
        content = cast(ResponsePart, to_ours(given).parts[0]).response
        if rest or (given.status == "error" and (not isinstance(content, str) or len(content) > SHOWN)):
            return {"$message": {"content": content, "status": given.status, **rest}}
        if given.status == "error":
            raise ToolError(content)
        return content

    def given(self, answer: Answer, call: Mapping[str, Any]) -> Any:
        """What a tool's caller is given for a recorded answer. Raises ``EffectFailed`` where the tool raised."""
        match answer.outcome:
            case Succeeded(value=value):
                return self._made(value, call)
            case Failed(error="ToolError", text=text):
                return _message(call, text, status="error")
            case Failed():
                raise answer.failure
            case Cancelled() | None:
                return _message(call, answer.told, status="error")

    def _made(self, value: Any, call: Mapping[str, Any]) -> Any:
        if isinstance(value, dict) and len(value) == 1:
            if INTERRUPT in value:
                raise GraphInterrupt(self.value_of(value[INTERRUPT]))
            if "$message" in value:
                return _message(call=call, **value["$message"])
            if "$value" in value:
                return self.value_of(value["$value"])
        return _message(call, value)


def is_interrupt(answer: Answer) -> bool:
    """Whether the tool has asked somebody and given nothing yet."""
    outcome = answer.outcome
    return isinstance(outcome, Succeeded) and isinstance(outcome.value, dict) and INTERRUPT in outcome.value


def _answers(given: Any, call: Mapping[str, Any]) -> bool:
    """Whether this is one message that answers the call."""
    return isinstance(given, ToolMessage) and (given.tool_call_id, given.name) == (call.get("id"), call["name"])


def _message(call: Mapping[str, Any], content: Any, **rest: Any) -> Any:
    told = Message(role="tool", parts=(ResponsePart(id=call.get("id") or "", response=_plain_content(content)),))
    return to_theirs(told, {"name": call["name"], **rest})


def _plain_content(content: Any) -> Any:
    """A value that a person or a patch gave, as tools of LangChain tell values: a text, blocks, or JSON with spaces."""
    if isinstance(content, str) or (isinstance(content, list) and as_content(content) is content):
        return content
    return json.dumps(content, ensure_ascii=False)
