"""Spans as OTLP/JSON: what the protocol's JSON encoding asks for, from any journal, also by the command line."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from chats import FILES, live, shelf

import forkpoint as fp
from forkpoint.cli.main import main
from forkpoint.codec import decode_event
from forkpoint.events import RecordedEvent
from forkpoint.exchange.exporting import export_file, export_run
from forkpoint.exchange.importing import import_file
from forkpoint.exchange.otlp import otlp_bytes
from forkpoint.testing.fakes import ScriptedModel, call, calls
from forkpoint.timetravel.span_shapes import Span
from forkpoint.timetravel.spans import spans

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("v*/*.jsonl"))

VALUES: dict[str, type] = {"stringValue": str, "boolValue": bool, "intValue": str, "doubleValue": float}
SPAN = {"traceId", "spanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano", "attributes", "status"}
MORE = {"parentSpanId", "events", "links"}


def requested(data: bytes) -> list[dict[str, Any]]:
    """The spans of an export, each checked against the protocol's JSON encoding."""
    assert data.isascii() and data.count(b"\n") == 1 and data.endswith(b"\n")
    request = json.loads(data)
    assert set(request) == {"resourceSpans"}
    (resource,) = request["resourceSpans"]
    assert set(resource) == {"resource", "scopeSpans"}
    assert attributes(resource["resource"])["service.name"] == "forkpoint"
    (scoped,) = resource["scopeSpans"]
    assert scoped["scope"] == {"name": "forkpoint", "version": fp.__version__}
    for span in scoped["spans"]:
        check(span)
    found: list[dict[str, Any]] = scoped["spans"]
    return found


def check(span: dict[str, Any]) -> None:
    assert SPAN <= set(span) <= SPAN | MORE
    assert span["kind"] in (1, 3)
    assert isinstance(span["name"], str) and span["name"]
    assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
    assert set(span["status"]) <= {"code", "message"}
    assert span["status"].get("code", 2) == 2
    place(span)
    if "parentSpanId" in span:
        assert re.fullmatch(r"[0-9a-f]{16}", span["parentSpanId"])
    attributes(span)
    for event in span.get("events", []):
        assert set(event) == {"timeUnixNano", "name", "attributes"}
        assert isinstance(event["timeUnixNano"], str)
        attributes(event)
    for link in span.get("links", []):
        assert set(link) == {"traceId", "spanId", "attributes"}
        place(link)
        attributes(link)


def place(held: dict[str, Any]) -> None:
    assert re.fullmatch(r"[0-9a-f]{32}", held["traceId"])
    assert re.fullmatch(r"[0-9a-f]{16}", held["spanId"])


def attributes(held: dict[str, Any]) -> dict[str, Any]:
    """Attributes by name, each of a type that it says."""
    keys = [one["key"] for one in held["attributes"]]
    assert len(keys) == len(set(keys))
    return {one["key"]: valued(one["value"]) for one in held["attributes"]}


def valued(value: dict[str, Any]) -> Any:
    ((kind, held),) = value.items()
    if kind == "arrayValue":
        return [valued(item) for item in held["values"]]
    assert type(held) is VALUES[kind]
    return int(held) if kind == "intValue" else held


@fp.tool(read_only=True)
def look(n: int) -> dict[str, Any]:
    """Look."""
    if n > 1:
        raise KeyError("ada@example.org")
    return {"n": n, "text": "x" * 6000}


@fp.tool(approval=True)
def mail(to: str) -> str:
    """Mail."""
    return "sent"


def clerk(*replies: Any) -> fp.Agent:
    def script(request: Any) -> Any:
        spoken = sum(1 for message in request.messages if message.role == "assistant")
        return replies[spoken] if spoken < len(replies) else "done"

    return fp.Agent("clerk", model=ScriptedModel(script), instructions="Look. " * 2000, tools=[look, mail])


def of(exported: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (span,) = [span for span in exported if span["name"] == name]
    return span


@live
async def test_a_run_comes_out_as_one_request_that_keeps_to_the_protocol() -> None:
    async with shelf(clerk(calls(call("look", n=1)), calls(call("look", "c2", n=2)))) as runtime:
        run = await runtime.start("clerk", "go", run_id="r")
        await run.wait()
        data = await export_run(runtime.edge.reader, "r", format="otel")
        exported = requested(data)
        assert [span["name"] for span in exported] == [
            "chat model",
            "execute_tool look",
            "chat model",
            "execute_tool look",
            "chat model",
            "invoke_agent clerk",
        ]
        failed = exported[3]
        assert (failed["status"], attributes(failed)["error.type"]) == ({"code": 2}, "KeyError")
        assert attributes(failed)["forkpoint.effect"] > 0
        assert (await export_run(runtime.edge.reader, "r", format="otel")) == data
        told = spans(await run.history())
        assert [(span["traceId"], span["spanId"]) for span in exported] == [(one.trace_id, one.span_id) for one in told]


@live
async def test_content_comes_out_only_if_it_is_asked_for_and_then_whole(tmp_path: Path) -> None:
    async with shelf(clerk(calls(call("look", n=1)), calls(call("look", "c2", n=2)))) as runtime:
        await (await runtime.start("clerk", "hello ada@example.org", run_id="r")).wait()
        reader = runtime.edge.reader
        plain = await export_run(reader, "r", format="otel")
        assert b"ada@" not in plain and b"xxx" not in plain and b"Look." not in plain
        await export_file(reader, "r", tmp_path / "r.json", format="otel", content=True)
        exported = requested((tmp_path / "r.json").read_bytes())
        chat, tool = attributes(exported[0]), attributes(exported[1])
        assert json.loads(chat["gen_ai.system_instructions"]) == [{"type": "text", "content": "Look. " * 2000}]
        assert json.loads(tool["gen_ai.tool.call.result"]) == {"n": 1, "text": "x" * 6000}
        shown = json.loads(attributes(exported[4])["gen_ai.input.messages"])
        assert shown[2]["parts"][0]["response"]["text"] == "x" * 6000
        assert "ada@example.org" in exported[3]["status"]["message"]


@live
async def test_a_fork_comes_out_without_the_past_and_linked_to_it() -> None:
    async with shelf(clerk(calls(call("look", n=1)))) as runtime:
        run = await runtime.start("clerk", "go", run_id="origin")
        await run.wait()
        child = await run.fork(step=1, run_id="kid", patch=fp.Patch(input="again"))
        await child.resume()
        await child.wait()
        reader = runtime.edge.reader
        parents = requested(await export_run(reader, "origin", format="otel"))
        kids = requested(await export_run(reader, "kid", format="otel"))
        assert {attributes(span)["forkpoint.run"] for span in kids} == {"kid"}
        assert {span["traceId"] for span in kids} & {span["traceId"] for span in parents} == set()
        linked = [link["spanId"] for span in kids for link in span.get("links", [])]
        assert set(linked) == {of(parents, "execute_tool look")["spanId"]}


@live
async def test_a_run_comes_out_in_the_middle_of_something_and_as_it_stood_at_any_moment() -> None:
    async with shelf(clerk(calls(call("mail", to="ada")))) as runtime:
        run = await runtime.start("clerk", "go", run_id="r")
        state = await run.wait()
        assert state.status == "waiting"
        exported = requested(await export_run(runtime.edge.reader, "r", format="otel"))
        assert [attributes(span)["forkpoint.outcome"] for span in exported] == ["succeeded", "open", "open"]
        for seq in range(1, state.seq + 1):
            requested(await export_run(runtime.edge.reader, "r", format="otel", upto=seq))


@live
async def test_an_imported_conversation_comes_out() -> None:
    async with shelf() as runtime:
        report = await import_file(runtime.edge, FILES / "tau.json", format="tau-bench")
        for one in report.runs:
            exported = requested(await export_run(runtime.edge.reader, one.run, format="otel", content=True))
            assert sum(span["name"].startswith("chat") for span in exported) == one.steps


@pytest.mark.parametrize("journal", GOLDEN, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_journals_of_every_release_come_out(journal: Path) -> None:
    lines = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
    history = [
        RecordedEvent(
            line["run"],
            line["seq"],
            line["at_ms"],
            bytes.fromhex(line["digest"]),
            decode_event(line["event"].encode(), run=line["run"], seq=line["seq"]),
        )
        for line in lines
    ]
    for content in (False, True):
        assert requested(otlp_bytes(spans(history, content=content)))


def test_every_type_of_value_comes_out_as_that_type() -> None:
    words = {"s": 'ü"\n', "b": True, "i": 2**40, "f": 1.0, "t": ("a", "b"), "e": ()}
    span = Span(name="n", trace_id="0" * 31 + "1", span_id="0" * 15 + "1", start_ns=1, end_ns=2, attributes=words)
    (exported,) = requested(otlp_bytes([span]))
    assert attributes(exported) == {**words, "t": ["a", "b"], "e": []}
    assert [next(iter(one["value"])) for one in exported["attributes"]][:4] == [*VALUES][:4]
    assert exported["status"] == {}


def test_the_command_line_writes_spans_and_content_only_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORKPOINT_STORE", raising=False)
    Path("chat.json").write_text('[{"role":"user","content":"hello ada"},{"role":"assistant","content":"hi"}]')
    store = ["--store", "x.db"]
    assert main(["import", "chat.json", *store]) == 0
    assert main(["export", "chat-", "run.json", "--format", "otel", *store]) == 0
    assert "as otel" in capsys.readouterr().out
    assert [span["name"] for span in requested(Path("run.json").read_bytes())] == ["chat", "invoke_agent imported"]
    assert "ada" not in Path("run.json").read_text()
    assert main(["export", "chat-", "more.json", "--format", "otel", "--content", *store]) == 0
    assert "hello ada" in Path("more.json").read_text()
    capsys.readouterr()
    assert main(["export", "chat-", "page.html", "--content", "--json", *store]) == 2
    said = capsys.readouterr()
    assert "cli.unfit" in said.out + said.err
    assert not Path("page.html").exists()
