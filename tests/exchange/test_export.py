"""Runs out of a store: as a chat, as an exact journal that comes back whole, and as a page; safely written."""

import json
import os
import stat
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from chats import FILES, asks, brought, gives, live, says, shelf

import forkpoint as fp
from forkpoint.codec import encode_event, event_digest
from forkpoint.definition import AgentRecord
from forkpoint.errors import (
    ExportDiffers,
    ExportExists,
    ExportFailed,
    ExportNotAFile,
    ImportAltered,
    ImportNotChat,
    ImportOtherRun,
    ImportSecret,
    ImportUnknownFormat,
    RunNotFound,
)
from forkpoint.events import RunStarted
from forkpoint.exchange.exporting import export_file, export_run
from forkpoint.exchange.files import write_file
from forkpoint.exchange.importing import import_file
from forkpoint.stores.memory import MemoryJournal
from forkpoint.testing.fakes import ScriptedModel, call, calls


@fp.tool(read_only=True)
def look(n: int) -> dict[str, Any]:
    """Look."""
    return {"n": n, "text": "x" * 6000}


def looker() -> fp.Agent:
    def script(request: Any) -> Any:
        spoken = sum(1 for message in request.messages if message.role == "assistant")
        return calls(call("look", n=spoken)) if spoken < 2 else "done"

    return fp.Agent("looker", model=ScriptedModel(script), instructions="Look.", tools=[look])


@live
async def test_a_chat_comes_out_as_it_went_in() -> None:
    messages = [
        says("system", "Be kind."),
        says("user", [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "https://e.org/a"}}]),
        asks(("a", "x", '{"n": 1}'), ("a", "y", "{oops"), content="hm"),
        gives("a", "one"),
        gives("a", "two"),
        says("assistant", "thinking aloud", reasoning_content="well"),
        says("user", "more"),
        says("system", "Mind the gap."),
        says("user", "and more", name="Ada"),
        says("assistant", "done"),
    ]
    messages.insert(1, says("user", [{"type": "hologram", "text": 'so "to" say'}, {"type": "text", "text": "x"}]))
    async with shelf() as runtime:
        run, _ = await brought(runtime, *messages)
        out = json.loads(await export_run(runtime.edge.reader, run.id))
        assert out["messages"] == messages
        assert [tool["function"]["name"] for tool in out["tools"]] == ["x", "y"]


@live
async def test_an_exported_chat_can_be_imported_and_says_the_same() -> None:
    async with shelf() as runtime:
        report = await import_file(runtime.edge, FILES / "tau.json", format="tau-bench")
        for one in report.runs:
            data = await export_run(runtime.edge.reader, one.run)
            (back,) = (await import_file(runtime.edge, data)).runs
            found = await runtime.compare(one.run, back.run)
            assert (found.diverged_at, found.drift) == (None, ())


@live
async def test_an_exported_journal_comes_back_exactly_with_the_past_it_shares() -> None:
    async with shelf(looker()) as runtime:
        run = await runtime.start("looker", "go", run_id="origin")
        await run.wait()
        child = await run.fork(step=1, run_id="kid", patch=fp.Patch(input="again"))
        await child.resume()
        await child.wait()
        data = await export_run(runtime.edge.reader, "kid", format="forkpoint")
        history, state = await child.history(), await child.state()
    async with shelf(looker()) as other:
        report = await import_file(other.edge, data, format="forkpoint")
        assert [(one.run, one.already) for one in report.runs] == [("origin", False), ("kid", False)]
        back = await other.open("kid")
        assert await back.history() == history
        assert (await back.state()).messages == state.messages
        assert [str(point) for point in await back.lineage()] == [f"origin@{child_at(history)}"]
        assert (await export_run(other.edge.reader, "kid", format="forkpoint")) == data
        again = await import_file(other.edge, data, format="forkpoint")
        assert again.written == ()
        assert (await back.request(2)).messages == (await back.request(2)).messages
        assert (await other.recover()).runs == ()


def child_at(history: list[fp.RecordedEvent]) -> int:
    return next(one.seq for one in history if one.run == "kid") - 1


@live
async def test_a_run_in_the_middle_of_something_is_paused_where_it_is_brought() -> None:
    async with shelf(looker()) as runtime:
        run = await runtime.start("looker", "go", run_id="r", perform=False)
        data = await export_run(runtime.edge.reader, run.id, format="forkpoint")
    async with shelf(looker()) as other:
        report = await import_file(other.edge, data, format="forkpoint")
        back = await other.open("r")
        assert ((await back.brief()).status, (await other.recover()).runs) == ("paused", ())
        assert "may still be performed where it came from" in str(report)
        assert (await import_file(other.edge, data, format="forkpoint")).written == ()


@live
async def test_an_import_of_a_journal_goes_on_where_it_was_cut_off() -> None:
    async with shelf(looker()) as runtime:
        run = await runtime.start("looker", "go", run_id="r")
        await run.wait()
        reader = runtime.edge.reader
        part = await export_run(reader, "r", format="forkpoint", upto=(await run.state(step=3)).seq)
        shorter = await export_run(reader, "r", format="forkpoint", upto=1)
    async with shelf() as other:
        await import_file(other.edge, shorter, format="forkpoint")
        report = await import_file(other.edge, part, format="forkpoint")
        assert report.written == ("r",)
        assert (await import_file(other.edge, shorter, format="forkpoint")).written == ()


@live
async def test_every_altered_line_of_a_journal_is_refused_and_nothing_is_written() -> None:
    async with shelf(looker()) as runtime:
        run = await runtime.start("looker", "go", run_id="r")
        await run.wait()
        data = await export_run(runtime.edge.reader, "r", format="forkpoint")
    lines = data.splitlines(keepends=True)
    changed = [
        data.replace(b'"go"', b'"no"'),
        data.replace(b"xxx", b"xyx", 1),
        data.replace(b'"outcome":', b'"outcame":', 1),
    ]
    changed += [b"".join(lines[:-1]), b"".join([*lines[:3], *lines[4:]]), b"".join([*lines, lines[-1]])]
    changed += [data.replace(b'"at_ms":17', b'"at_ms":18', 1), lines[0]]
    async with shelf() as other:
        for bad in changed:
            assert bad != data
            with pytest.raises(ImportAltered) as refused:
                await import_file(other.edge, bad, format="forkpoint")
            assert "line" in str(refused.value) or "end of the file" in str(refused.value)
        for bad in (b"", b"{}", b"[1]", data.replace(b'"forkpoint":1', b'"forkpoint":2')):
            with pytest.raises(ImportNotChat):
                await import_file(other.edge, bad, format="forkpoint")
        assert (await other.runs()).rows == ()


@live
async def test_a_journal_of_another_run_of_that_name_is_refused() -> None:
    async with shelf(looker()) as runtime:
        await (await runtime.start("looker", "go", run_id="r")).wait()
        data = await export_run(runtime.edge.reader, "r", format="forkpoint")
    async with shelf(looker()) as other:
        await (await other.start("looker", "else", run_id="r")).wait()
        before = await (await other.open("r")).digest()
        with pytest.raises(ImportOtherRun):
            await import_file(other.edge, data, format="forkpoint")
        assert await (await other.open("r")).digest() == before


@live
async def test_a_journal_that_another_release_wrote_otherwise_is_not_exported_inexactly() -> None:
    event = encode_event(RunStarted(agent=AgentRecord(name="a"))).replace(b"{", b"{ ", 1)
    digest = event_digest(bytes(32), "r", 1, 5, event).hex()
    head = {"forkpoint": 1, "run": "r", "head": 1, "digest": digest, "stretches": [["r", 0, 1]]}
    line = b'{"run":"r","seq":1,"at_ms":5,"digest":"%b","event":%b}' % (digest.encode(), event)
    async with shelf() as runtime:
        report = await import_file(runtime.edge, json.dumps(head).encode() + b"\n" + line, format="forkpoint")
        assert report.written == ("r",)
        with pytest.raises(ExportDiffers):
            await export_run(runtime.edge.reader, "r", format="forkpoint")
        assert json.loads(await export_run(runtime.edge.reader, "r")) == {"messages": []}


@live
async def test_a_journal_with_a_secret_of_this_store_is_refused() -> None:
    async with shelf() as runtime:
        run, _ = await brought(runtime, says("user", "use s3cr3t-value"))
        data = await export_run(runtime.edge.reader, run.id, format="forkpoint")
    async with fp.connect(MemoryJournal(), secrets={"key": "s3cr3t-value"}) as other:
        with pytest.raises(ImportSecret):
            await import_file(other.edge, data, format="forkpoint")
        assert (await other.runs()).rows == ()


class Page(HTMLParser):
    """Every tag, and every attribute, of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.names |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name == "href"]
        self.ids |= {value or "" for name, value in attrs if name == "id"}


@live
async def test_a_page_needs_no_server_runs_no_script_and_links_to_every_event() -> None:
    evil = "<img src=x onerror=alert(1)></script><script>alert(2)</script>\x1b]0;x\x07\"'"
    async with shelf() as runtime:
        run, _ = await brought(
            runtime,
            says("system", evil),
            says("user", evil),
            asks(("a", evil, json.dumps({evil: evil})), ("b", "silent"), content=evil),
            gives("a", evil),
            says("assistant", evil, reasoning_content=evil),
        )
        page = (await export_run(runtime.edge.reader, run.id, format="html")).decode()
        found = Page(page)
        assert not found.tags & {"img", "script", "iframe", "link", "object", "form"}
        assert not any(name.startswith("on") for name in found.names) and "\x1b" not in page
        assert "default-src 'none'" in page and "http://" not in page and "https://" not in page
        head = (await run.brief()).seq
        assert {f"e{seq}" for seq in range(1, head + 1)} | {"s1", "s2"} == found.ids
        assert all(link.startswith("#") and link[1:] in found.ids for link in found.links)
        assert "1 calls did not succeed" in page


@live
async def test_formats_and_runs_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    async with shelf() as runtime:
        run, _ = await brought(runtime, says("user", "x"))
        with pytest.raises(ImportUnknownFormat):
            await export_run(runtime.edge.reader, run.id, format="pdf")
        with pytest.raises(RunNotFound):
            await export_file(runtime.edge.reader, "nobody", tmp_path / "x")
        assert await export_file(runtime.edge.reader, run.id, tmp_path / "x") == (tmp_path / "x").stat().st_size


def test_an_export_is_private_and_never_over_another_file_unasked(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    write_file(path, b"one")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(ExportExists):
        write_file(path, b"two")
    assert path.read_bytes() == b"one"
    path.chmod(0o644)
    write_file(path, b"three", force=True)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"three", 0o600)
    assert [one.name for one in tmp_path.iterdir()] == ["out.json"]


@pytest.mark.parametrize("force", [False, True])
def test_an_export_follows_no_link(tmp_path: Path, force: bool) -> None:
    target, link, dangling = tmp_path / "precious", tmp_path / "link", tmp_path / "dangling"
    target.write_bytes(b"precious")
    link.symlink_to(target)
    dangling.symlink_to(tmp_path / "nothing")
    for path in (link, dangling, tmp_path):
        with pytest.raises(ExportNotAFile):
            write_file(path, b"x", force=force)
    assert target.read_bytes() == b"precious"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["dangling", "link", "precious"]


def test_an_export_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ExportFailed):
        write_file(tmp_path / "no" / "such" / "folder", b"x")
    with pytest.raises(ExportFailed):
        write_file("nul\0", b"x")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ExportFailed) as refused:
        write_file(tmp_path / "x", b"x")
    assert "No space left" in str(refused.value)
    assert list(tmp_path.iterdir()) == []
