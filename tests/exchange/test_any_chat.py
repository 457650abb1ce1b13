"""Whatever chat a file holds, it becomes a lawful run that shows every word of it."""

import asyncio
import json
from typing import Any

from chats import shelf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forkpoint.exchange.exporting import export_run
from forkpoint.exchange.importing import import_file
from forkpoint.transcript import first_problem

words = st.text(max_size=8)
ids = st.sampled_from(["a", "b", "c", ""]) | st.none() | st.integers(0, 3)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
parts = st.fixed_dictionaries({"type": st.just("text"), "text": words}) | json_values
content = words | st.none() | st.lists(parts, max_size=3) | json_values
functions = st.fixed_dictionaries(
    {}, optional={"name": st.sampled_from(["x", "y"]) | st.none(), "arguments": json_values}
)
tool_calls = st.lists(st.fixed_dictionaries({"id": ids, "function": functions}) | json_values, max_size=3) | json_values
roles = st.sampled_from(["user", "assistant", "assistant", "tool", "tool", "system", "developer", "function"]) | words
messages = st.fixed_dictionaries(
    {"role": roles},
    optional={
        "content": content,
        "tool_calls": tool_calls,
        "tool_call_id": ids,
        "name": words | st.none(),
        "function_call": functions | st.none(),
        "reasoning_content": content,
        "refusal": words,
        "finish_reason": words | st.none(),
        "other": json_values,
    },
)


def texts_of(chat: list[dict[str, Any]]) -> list[str]:
    """Every text that somebody said or a tool gave: contents, text parts, refusals."""
    found = []
    for message in chat:
        said = message.get("content")
        if isinstance(said, str):
            found.append(said)
        if isinstance(said, list):
            found += [one["text"] for one in said if isinstance(one, dict) and isinstance(one.get("text"), str)]
        if message["role"] == "assistant" and isinstance(message.get("refusal"), str):
            found.append(message["refusal"])
    return found


def every_text(value: Any) -> str:
    """All texts within a JSON value, joined."""
    if isinstance(value, str):
        return value + "\n"
    if isinstance(value, list):
        return "".join(map(every_text, value))
    return "".join(map(every_text, value.values())) if isinstance(value, dict) else ""


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(messages, min_size=1, max_size=8))
def test_any_chat_becomes_a_run_whose_transcript_is_valid_and_whose_export_keeps_every_text(
    chat: list[dict[str, Any]],
) -> None:
    data = json.dumps(chat).encode()
    if b"NaN" in data or b"Infinity" in data:
        data = data.replace(b"-Infinity", b"0").replace(b"NaN", b"0").replace(b"Infinity", b"0")
        chat = json.loads(data)

    async def lives() -> None:
        async with shelf() as runtime:
            (one,) = (await import_file(runtime.edge, data)).runs
            run = await runtime.open(one.run)
            history = await run.history()
            state = await run.state()
            assert first_problem(state.messages) is None
            assert state.step == sum(message["role"] == "assistant" for message in chat)
            for step in range(1, state.step + 1):
                request = await run.request(step)
                assert first_problem(tuple(request.messages)) is None
            for recorded in history:
                assert first_problem((await run.state(recorded.seq)).messages) is None
            told = every_text(json.loads(await export_run(runtime.edge.reader, run.id)))
            for text in texts_of(chat):
                assert text in told
            assert (await runtime.recover()).runs == ()

    asyncio.run(lives())
