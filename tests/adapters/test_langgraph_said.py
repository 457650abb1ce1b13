"""Messages in a thread's journal: short where they are as most are, and the same when they are read."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langgraph", reason="the extra 'langgraph' is not installed")

import msgspec
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from tests.adapters.langgraph_stage import at

import forkpoint as fp
import forkpoint.events as fp_events
from forkpoint.adapters.langgraph import ForkpointSaver
from forkpoint.adapters.langgraph_said import said_in, said_of, whole_of
from forkpoint.adapters.langgraph_values import Values

CALL = {"name": "charge", "args": {"cents": 500}, "id": "c1", "type": "tool_call"}

SHORT: list[BaseMessage] = [
    HumanMessage("hi", id="1"),
    HumanMessage([{"type": "text", "text": "x"}, "plain"], name="bob", additional_kwargs={"a": [1, None, 2.5]}),
    SystemMessage(""),
    AIMessage("x" * 100, id="a", tool_calls=[CALL]),
    AIMessage("", usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}),
    AIMessage([{"type": "thinking", "thinking": "hm"}], invalid_tool_calls=[{**CALL, "args": "{", "error": "bad"}]),  # type: ignore[list-item]
    ToolMessage("r", tool_call_id="c", name="t", artifact={"k": [1, 2]}, id="9"),
    ToolMessage("bad", tool_call_id="c", status="error"),
    ToolMessage("zero", tool_call_id="c", artifact=0),
]


class Own(AIMessage):
    """A class that is no message of LangChain's."""


WHOLE: list[BaseMessage] = [
    AIMessageChunk("piece", id="a"),
    Own("x"),
    AIMessage("more", mine=1),
    ToolMessage("r", tool_call_id="c", artifact=b"bytes"),
    ToolMessage("r", tool_call_id="c", artifact=(1, 2)),
    ToolMessage("r", tool_call_id="c", artifact=float("inf")),
    AIMessage("x", additional_kwargs={"$": 1}),
    AIMessage("x", additional_kwargs={"deep": [{"$said": {"type": "ai"}}]}),
    AIMessage("\ud800"),
]


@pytest.mark.parametrize("message", SHORT)
def test_a_short_message_is_what_the_serializer_writes_without_what_is_usual(message: BaseMessage) -> None:
    values = Values(JsonPlusSerializer(pickle_fallback=False))
    written = values.typed(message, "here")
    said = said_of(message)
    assert said is not None
    assert said[1] == message.__dict__
    assert values.written(said[0]) == written
    assert whole_of(said[0]) == values.told(written, "here")
    assert said_in(values.told(written, "here")) == said[0]
    assert len(msgspec.json.encode(said[0])) < len(msgspec.json.encode(values.told(written, "here"))) - 100


@pytest.mark.parametrize("message", WHOLE, ids=lambda message: repr(message)[:40].encode("ascii", "replace").decode())
def test_any_other_message_is_told_as_any_other_class(message: BaseMessage) -> None:
    assert said_of(message) is None


INSIDE = ToolMessage("r", tool_call_id="c", artifact=HumanMessage("inside"))


def put(saver: ForkpointSaver, messages: list[BaseMessage], step: int, after: Any = None) -> Any:
    checkpoint: Any = {**empty_checkpoint(), "id": f"{step:032d}"}
    checkpoint["channel_values"] = {"messages": messages}
    checkpoint["channel_versions"] = {"messages": step}
    parent = after or at("t", checkpoint_ns="")
    return saver.put(parent, checkpoint, {"source": "loop", "step": step}, {"messages": step})


@pytest.mark.parametrize("message", [*SHORT, *WHOLE[:1], *WHOLE[2:], INSIDE], ids=str)
def test_a_message_comes_back_as_langgraphs_own_serializer_gives_it_back(message: BaseMessage, tmp_path: Path) -> None:
    with ForkpointSaver(tmp_path / "runs.db") as saver:
        config = put(saver, [message], 1)
    theirs = JsonPlusSerializer()
    with ForkpointSaver(tmp_path / "runs.db") as saver:
        found = saver.get_tuple(config)
    assert found is not None
    came = found.checkpoint["channel_values"]["messages"][0]
    assert came == theirs.loads_typed(theirs.dumps_typed(message))
    assert came.model_fields_set == theirs.loads_typed(theirs.dumps_typed(message)).model_fields_set


class Elses(JsonPlusSerializer):
    """A serializer of one's own: what it writes of a message cannot be known without asking it."""


def test_a_message_on_record_in_its_long_form_is_read_and_not_written_again(tmp_path: Path) -> None:
    before = [message for message in SHORT if len(str(message.content)) > 1]
    with ForkpointSaver(tmp_path / "runs.db", serde=Elses(pickle_fallback=False)) as saver:
        config = put(saver, before, 1)
    with ForkpointSaver(tmp_path / "runs.db") as saver:
        found = saver.get_tuple(config)
        assert found is not None
        assert found.checkpoint["channel_values"]["messages"] == before
        put(saver, [*before, HumanMessage("and this is new" * 10)], 2, after=config)

    async def results() -> list[Any]:
        async with fp.connect(tmp_path / "runs.db") as runtime:
            history = await (await runtime.open("t")).history()
        ends = [told.event for told in history if isinstance(told.event, fp_events.EffectSettled)]
        return [end.outcome.value for end in ends]  # type: ignore[union-attr]

    first, second = asyncio.run(results())
    assert all("$ext" in node for node in first)
    assert [node["$said"]["content"][:15] for node in second] == ["and this is new"]
