"""Recorded conversations become runs: whatever the file holds, nothing crashes and nothing is silently dropped."""

import json

import pytest
from chats import FILES, REAL, asks, brought, gives, live, says, shelf

import forkpoint as fp
from forkpoint.errors import (
    ImportNoFile,
    ImportNotChat,
    ImportNotJson,
    ImportUnknownFormat,
    RunExists,
)
from forkpoint.exchange.importing import import_file
from forkpoint.exchange.reading_chats import import_conversations
from forkpoint.messages import BlobPart, CallPart, Reasoning, ResponsePart, Text, UriPart
from forkpoint.testing.fakes import ScriptedModel, calls
from forkpoint.timetravel.trajectory import trajectory


@live
async def test_a_tau_bench_file_becomes_a_run_for_each_trial() -> None:
    async with shelf() as runtime:
        report = await import_file(runtime.edge, FILES / "tau.json", format="tau-bench")
        page = await runtime.runs()
        assert [row.summary.labels["task"] + "/" + row.summary.labels["trial"] for row in page.rows] == ["1/1", "1/0"]
        assert [row.summary.labels["reward"] for row in page.rows] == ["0.0", "1.0"]
        run = await runtime.open(report.runs[0].run)
        state = await run.state()
        assert (state.status, state.step, state.turn, state.agent.instructions) == ("paused", 4, 3, "You book flights.")
        told = trajectory(await run.history())
        assert [one.result for step in told.steps for one in step.calls] == [
            '{"id": "EHGLP3", "paid": 120}',
            "cancelled",
        ]
        assert [str(repair) for repair in report.runs[0].repairs] == [
            "a run has no place for info; left out",
            "message 6: the call id call_A was used before; each call keeps its own result",
        ]
        assert str(report).startswith("2 runs imported")


@live
async def test_an_imported_run_is_read_replayed_and_compared_like_any_other() -> None:
    async with shelf() as runtime:
        report = await import_file(runtime.edge, FILES / "tau.json", format="tau-bench")
        first, second = [await runtime.open(one.run) for one in report.runs]
        history = await first.history()
        assert fp.replay(history).messages == (await first.state()).messages
        for step in range(1, 5):
            request = await first.request(step)
            assert request.instructions == "You book flights."
        assert [part.text for part in request.messages if part.role == "user"] == ["Cancel EHGLP3.", "Yes."]
        assert fp.state_at(history, step=1).step == 1
        assert (await first.state(turn=1)).turn == 1
        found = await runtime.compare(first, second)
        assert (found.diverged_at, found.shared.steps, found.shared.by) == (1, 0, "content")
        for row in (await runtime.runs()).rows:
            assert not row.summary.due


@live
async def test_a_fork_of_an_imported_run_goes_on_with_a_live_agent() -> None:
    done: list[str] = []

    @fp.tool
    def cancel(id: str) -> str:
        """Cancel it."""
        done.append(id)
        return "cancelled"

    model = ScriptedModel(lambda request: "all done" if done else calls(wanted("cancel", {"id": "EHGLP3"})))
    agent = fp.Agent("imported", model=model, instructions="You book flights.", tools=[cancel])
    async with shelf(agent) as runtime:
        report = await import_file(runtime.edge, FILES / "tau.json", format="tau-bench")
        run = await runtime.open(report.runs[0].run)
        effects = [one.effect for step in trajectory(await run.history()).steps for one in step.calls]
        child = await run.fork(step=1, patch=fp.Patch(tool_results={effects[0]: {"paid": 0}}))  # type: ignore[dict-item]
        await child.resume(accept_changes=True)
        state = await child.wait()
        assert (state.status, state.output, done) == ("idle", "all done", ["EHGLP3"])
        head = await run.fork()
        assert (await head.state()).status == "running"


def wanted(name: str, arguments: dict[str, object]) -> CallPart:
    return CallPart(id="c9", name=name, arguments=arguments)


@live
async def test_importing_again_changes_nothing_unless_new_runs_are_wanted() -> None:
    async with shelf() as runtime:
        first = await import_file(runtime.edge, FILES / "tau.json", format="tau-bench")
        again = await import_file(runtime.edge, (FILES / "tau.json").read_bytes(), format="tau-bench")
        assert [one.run for one in again.runs] == [one.run for one in first.runs]
        assert (again.written, all(one.already for one in again.runs)) == ((), True)
        new = await import_file(runtime.edge, FILES / "tau.json", format="tau-bench", again=True)
        assert len(new.written) == 2 and not set(new.written) & set(first.written)
        assert len((await runtime.runs()).rows) == 4


@live
async def test_equal_conversations_of_one_file_are_as_many_runs() -> None:
    async with shelf() as runtime:
        data = json.dumps([[says("user", "hi")], [says("user", "hi")]]).encode()
        report = await import_file(runtime.edge, data)
        assert len(set(report.written)) == 2
        assert (await import_file(runtime.edge, data)).written == ()


@live
async def test_another_run_of_that_name_is_never_taken_for_it() -> None:
    agent = fp.Agent("a", model=ScriptedModel(["x"]))
    async with shelf(agent) as runtime:
        data = json.dumps([says("user", "hi")]).encode()
        (name,) = (await import_file(runtime.edge, data)).written
        async with shelf(agent) as other:
            await other.start("a", "hi", run_id=name, perform=False)
            with pytest.raises(RunExists):
                await import_file(other.edge, data)


@live
async def test_parallel_results_out_of_order_are_put_in_call_order() -> None:
    async with shelf() as runtime:
        run, repairs = await brought(
            runtime,
            says("user", "go"),
            asks(("a", "x"), ("b", "y")),
            gives("b", "of b"),
            gives("a", "of a"),
            says("assistant", "done"),
        )
        state = await run.state()
        fp.validate_transcript(state.messages)
        answers = [
            part.response for message in state.messages for part in message.parts if isinstance(part, ResponsePart)
        ]
        assert answers == ["of a", "of b"]
        assert repairs == ["message 3: the result of x (a) comes after that of a later call; reordered"]


@live
async def test_a_result_belongs_to_the_newest_call_of_its_id_that_has_none() -> None:
    async with shelf() as runtime:
        run, _ = await brought(
            runtime,
            says("user", "go"),
            asks(("a", "first")),
            asks(("a", "second"), ("a", "third")),
            gives("a", "of second"),
            gives("a", "of third"),
            says("assistant", "done"),
        )
        told = await run.trajectory()
        results = {one.name: one.result for step in told.steps for one in step.calls}
        assert (results["second"], results["third"]) == ("of second", "of third")
        assert told.steps[0].calls[0].finding == "abandoned_unknown"


@live
async def test_a_late_result_is_put_to_its_call() -> None:
    async with shelf() as runtime:
        run, repairs = await brought(
            runtime,
            says("user", "go"),
            asks(("a", "x")),
            says("user", "well?"),
            gives("a", "late"),
            says("assistant", "k"),
        )
        told = await run.trajectory()
        assert (told.steps[0].calls[0].result, told.steps[1].turn) == ("late", 2)
        assert repairs == ["message 3: a late result of x (a) of message 1; put there"]


@live
async def test_a_call_without_an_answer_in_the_middle_is_unknown_and_given_up() -> None:
    async with shelf() as runtime:
        run, repairs = await brought(runtime, says("user", "go"), asks(("a", "x")), says("assistant", "k"))
        (one,) = (await run.trajectory()).steps[0].calls
        assert (one.status, one.finding) == ("unknown", "abandoned_unknown")
        state = await run.state()
        fp.validate_transcript(state.messages)
        assert any("the imported file has no answer to this call" in message.text for message in state.messages)
        assert "unknown, and given up as never to be known" in repairs[0]


@live
async def test_a_call_without_an_answer_at_the_end_waits_for_a_decision() -> None:
    async with shelf() as runtime:
        run, repairs = await brought(runtime, says("user", "go"), asks(("a", "x"), ("b", "y")), gives("b"))
        (wait,) = await run.waits()
        assert (wait.kind, wait.name, (await run.brief()).status) == ("unknown", "x", "waiting")
        assert "it waits for a decision" in repairs[0]
        await run.resolve(wait.effect, "not_occurred")
        assert (await run.waits()) == ()


@live
async def test_an_orphan_result_is_kept_as_an_input_that_says_so() -> None:
    async with shelf() as runtime:
        run, repairs = await brought(
            runtime, says("user", "go"), gives("ghost", "boo"), asks(("a", "x")), gives("a"), gives("a", "twice")
        )
        texts = [message.text for message in (await run.state()).messages]
        assert "boo" in texts and "twice" in texts
        assert [repair.split(":")[0] for repair in repairs] == ["message 1", "message 4"]


@live
async def test_consecutive_users_openings_by_the_model_and_double_answers_are_told_as_turns() -> None:
    async with shelf() as runtime:
        run, _ = await brought(
            runtime,
            says("assistant", "Hello, how can I help?"),
            says("user", "one"),
            says("user", "two"),
            says("assistant", "first"),
            says("assistant", "second"),
        )
        told = await run.trajectory()
        assert [step.text for step in told.steps] == ["Hello, how can I help?", "first", "second"]
        assert [message.text for message in told.steps[1].heard] == ["one", "two"]
        assert (await run.brief()).status == "idle"


@live
async def test_system_messages_in_the_middle_and_strange_roles_keep_their_words() -> None:
    async with shelf() as runtime:
        run, repairs = await brought(
            runtime,
            says("developer", "Be brief."),
            says("system", "Be kind."),
            says("user", "go"),
            says("system", "Now be fast."),
            says("critic", "meh"),
            says("assistant", "ok"),
        )
        state = await run.state()
        assert state.agent.instructions == "Be brief.\n\nBe kind."
        assert [message.text for message in state.messages] == ["go", "Now be fast.", "meh", "ok"]
        assert len(repairs) == 4


@live
async def test_older_function_calls_are_read() -> None:
    async with shelf() as runtime:
        run, _ = await brought(
            runtime,
            says("user", "go"),
            {"role": "assistant", "content": None, "function_call": {"name": "x", "arguments": '{"a": 1}'}},
            {"role": "function", "name": "x", "content": "fine"},
            says("assistant", "ok"),
        )
        (one,) = (await run.trajectory()).steps[0].calls
        assert (one.name, one.arguments, one.result) == ("x", {"a": 1}, "fine")


@live
async def test_parts_of_every_kind_are_read() -> None:
    content = [
        {"type": "text", "text": "see", "cache_control": {"type": "ephemeral"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "input_audio", "input_audio": {"data": "BBBB", "format": "mp3"}},
        {"type": "hologram", "depth": 3},
    ]
    async with shelf() as runtime:
        run, repairs = await brought(
            runtime, says("user", content), says("assistant", "nice", reasoning_content="hm", refusal="no")
        )
        asked, said = (await run.state()).messages
        assert [type(part) for part in asked.parts] == [Text, UriPart, BlobPart, BlobPart, Text]
        assert [type(part) for part in said.parts] == [Reasoning, Text, Text]
        assert repairs == ["message 0: its content part 4 is of no known kind; kept as JSON text"]


@live
async def test_arguments_are_objects_or_the_text_they_were() -> None:
    async with shelf() as runtime:
        run, repairs = await brought(
            runtime,
            says("user", "go"),
            asks(
                ("a", "x", {"n": 1}), ("b", "x", '{"n": 2}'), ("c", "x", "{oops"), ("d", "x", "[3]"), ("e", "x", None)
            ),
            *(gives(call) for call in "abcde"),
        )
        told = (await run.trajectory()).steps[0].calls
        assert [one.arguments for one in told] == [{"n": 1}, {"n": 2}, "{oops", "[3]", {}]
        assert len(repairs) == 3


@live
async def test_broken_calls_are_kept_as_text_and_calls_without_ids_get_some() -> None:
    async with shelf() as runtime:
        run, repairs = await brought(
            runtime,
            says("user", "go"),
            {"role": "assistant", "content": "x", "tool_calls": [{"function": {"name": "f"}}, {"id": "q"}, 7]},
            {"role": "tool", "content": "of f", "name": "f"},
            {"role": "assistant", "content": "y", "tool_calls": {"id": 1}},
        )
        told = await run.trajectory()
        assert (told.steps[0].calls[0].id, told.steps[0].calls[0].result) == ("call-1-0", "of f")
        assert '{"id": "q"}' in told.steps[0].text and '{"id": 1}' in told.steps[1].text
        assert len(repairs) == 6


@live
async def test_empty_runs_and_metadata_are_kept() -> None:
    async with shelf() as runtime:
        tool = {"type": "function", "function": {"name": "x", "description": "d", "parameters": {"type": "object"}}}
        data = {"messages": [], "model": "gpt-4o", "tools": [tool], "metadata": {"case": "7"}, "seed": 3, "usage": {}}
        (one,) = (await import_file(runtime.edge, json.dumps(data).encode(), agent="clerk")).runs
        run = await runtime.open(one.run)
        state = await run.state()
        assert (state.agent.name, state.agent.model, state.agent.tools[0].description) == ("clerk", "gpt-4o", "d")
        assert (state.labels["case"], state.labels["seed"], state.status, one.steps) == ("7", "3", "idle", 0)
        assert [str(repair) for repair in one.repairs] == [
            "a run has no place for usage; left out",
            "it has no messages besides instructions; the run has no steps",
        ]


def test_text_that_cannot_be_encoded_loses_only_what_cannot() -> None:
    (one,) = import_conversations(b'[{"role": "user", "content": "a\\ud800b"}]')
    assert one.items[0].parts[0].content == "a\ufffdb"  # type: ignore[union-attr]


def test_lists_objects_and_lines_of_either_are_chats() -> None:
    chat = [says("user", "hi"), says("assistant", "ho")]
    one, lines = json.dumps(chat).encode(), [json.dumps({"messages": chat}), json.dumps(chat)]
    for data, count in (
        (one, 1),
        (json.dumps({"messages": chat}).encode(), 1),
        (json.dumps([chat, {"messages": chat}]).encode(), 2),
        ("\n".join(lines).encode(), 2),
        (("\ufeff" + "\r\n".join([*lines, "", ""])).encode(), 2),
        (json.dumps(chat, indent=2).replace("\n", "\r\n").encode(), 1),
    ):
        found = import_conversations(data)
        assert len(found) == count
        assert len({tuple(one.items) for one in found}) == 1


@pytest.mark.parametrize(
    ("data", "error", "where"),
    [
        (b"", ImportNotJson, "line 1"),
        (b" \r\n", ImportNotJson, "line 1"),
        (b"hello", ImportNotJson, "line 1, column 1"),
        (b'[{"role": "user",\n "content": }]', ImportNotJson, "line 2, column 13"),
        (b'{"messages": []}\n{"messages": []\n', ImportNotJson, "line 2"),
        (b'[{"role": "user", "content": "\xff"}]', ImportNotJson, "line 1"),
        (b"[" * 100_000, ImportNotJson, "line 1"),
        (b'[{"role": "user", "content": NaN}]', ImportNotJson, "line 1"),
        (b"5", ImportNotChat, "$"),
        (b'{"a": 1}', ImportNotChat, "$"),
        (b'[{"role": "user"}, {"content": "x"}]', ImportNotChat, "$[1]"),
        (b'[{"role": "user"}, 7]', ImportNotChat, "$[1]"),
        (b'{"messages": [{"role": 5}]}', ImportNotChat, "$.messages[0]"),
        (b'{"messages": []}\n{"wrong": []}', ImportNotChat, "line 2"),
        (b'[[{"role": "user"}], 5]', ImportNotChat, "$[1]"),
    ],
)
def test_what_is_no_such_file_is_refused_with_its_place(data: bytes, error: type[Exception], where: str) -> None:
    with pytest.raises(error) as refused:
        import_conversations(data)
    assert where in str(refused.value)
    assert "nothing was imported" in str(refused.value)


@pytest.mark.parametrize("data", [b'[{"traj": 5}]', b"[[]]", b'{"messages": []}', b"5"])
def test_what_is_no_tau_bench_file_is_refused(data: bytes) -> None:
    with pytest.raises(ImportNotChat):
        import_conversations(data, "tau-bench")


def test_a_missing_file_and_an_unknown_format_are_refused() -> None:
    with pytest.raises(ImportNoFile):
        import_conversations(FILES / "nothing.json")
    with pytest.raises(ImportNoFile):
        import_conversations(FILES)
    with pytest.raises(ImportUnknownFormat):
        import_conversations(b"[]", "otlp")


@live
async def test_a_refused_file_writes_nothing() -> None:
    async with shelf() as runtime:
        with pytest.raises(ImportNotChat):
            await import_file(runtime.edge, b'[[{"role": "user", "content": "x"}], [{"role": 5}]]')
        assert (await runtime.runs()).rows == ()


@live
async def test_a_registered_secret_of_a_file_never_reaches_the_store() -> None:
    from forkpoint.stores.memory import MemoryJournal

    journal = MemoryJournal()
    async with fp.connect(journal, secrets={"key": "s3cr3t-value"}) as runtime:
        run, _ = await brought(
            runtime,
            says("user", "use s3cr3t-value"),
            asks(("a", "x", {"k": "s3cr3t-value"})),
            gives("a", "s3cr3t-value"),
        )
        for commit in await journal.commits(run.id):
            assert b"s3cr3t" not in commit.body


@live
async def test_a_long_conversation_is_one_commit_with_a_checkpoint() -> None:
    messages = [says("user", "go")]
    for n in range(200):
        messages += [asks((f"c{n}", "x", {"n": n})), gives(f"c{n}", "r" * 50)]
    async with shelf() as runtime:
        run, repairs = await brought(runtime, *messages, says("assistant", "end"))
        assert (repairs, (await run.state(step=150)).step, (await run.brief()).step) == ([], 150, 201)
        assert (await run.request(100)).messages[-1].role == "tool"
        child = await run.fork(step=199, patch=fp.Patch(tool_results={"c17": "patched"}))
        assert "patched" in [
            part.response for m in (await child.state()).messages for part in m.parts if isinstance(part, ResponsePart)
        ]


@pytest.mark.skipif(not REAL.exists(), reason="the recorded airline conversations are not beside this checkout")
@live
async def test_real_conversations_become_runs_whose_every_request_can_be_rebuilt() -> None:
    async with shelf() as runtime:
        report = await import_file(runtime.edge, REAL, format="tau-bench")
        assert len(report.written) == 32
        for one, raw in zip(report.runs, json.loads(REAL.read_text()), strict=True):
            run = await runtime.open(one.run)
            state = await run.state()
            fp.validate_transcript(state.messages)
            said = [m for m in raw["traj"] if m["role"] == "assistant"]
            assert one.steps == len(said)
            results = [m["content"] for m in raw["traj"] if m["role"] == "tool"]
            told = await run.trajectory()
            assert [call.result for step in told.steps for call in step.calls] == results
            for step in range(1, one.steps + 1, 5):
                await run.request(step)
