"""A store that was altered is told from one that was not, with the run and the event.

Not tested: alterations below SQLite's rows (a page's header, the free list); those SQLite tells as ``store.damaged``.
"""

import sqlite3
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from storage_runs import ask, change, file_hashes, forked, lived, on_store, told, verified

import forkpoint as fp
from forkpoint.codec import event_digest
from forkpoint.errors import RunNotFound
from forkpoint.ports import MARK_BYTES
from forkpoint.runtime import checkpoints
from forkpoint.runtime.verifying import MAX_FINDINGS


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store" / "runs.db"


def flips(path: Path, table: str, column: str, every: int = 1) -> Iterator[tuple[int, int]]:
    """Flip one bit of every byte of a column, one after the other; each is put back before the next."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        for rowid, whole in connection.execute(f"SELECT rowid, {column} FROM {table}").fetchall():
            for place in range(0, len(whole), every):
                altered = whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :]
                connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (altered, rowid))
                yield rowid, place
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (whole, rowid))


@pytest.mark.parametrize("fold", [False, True])
def test_a_store_as_it_was_written_is_sound(path: Path, fold: bool) -> None:
    lived(path, "a", "b", steps=120)
    forked(path, "a", "child", 300)
    forked(path, "child", "grandchild", 300)
    before = file_hashes(path.parent)
    verdict = verified(path, fold=fold)
    assert told(verdict) == []
    assert verdict.sound
    assert (verdict.runs, verdict.folded) == (4, fold)
    own = [head - at for head, at in ask(path, "SELECT head, at FROM runs")]
    assert verdict.events == sum(own)
    assert verdict.blobs == 1
    assert verdict.checkpoints == len(ask(path, "SELECT 1 FROM checkpoints")) > 0
    assert "cannot be seen" in verdict.cannot_see
    assert file_hashes(path.parent) == before


@pytest.mark.parametrize(("column", "every"), [("body", 3), ("marks", 1), ("kinds", 1)])
def test_one_altered_byte_of_any_commit_is_found_with_its_run_and_event(path: Path, column: str, every: int) -> None:
    lived(path, "a", steps=2)
    forked(path, "a", "child", 5)
    rows = ask(path, "SELECT c.id, r.run, length(c.kinds) FROM commits c JOIN runs r ON r.number = c.id >> 32")
    spans = {rowid: (run, (rowid & 0xFFFFFFFF) - count + 1, rowid & 0xFFFFFFFF) for rowid, run, count in rows}
    tried = 0

    async def work(runtime: fp.Runtime) -> None:
        nonlocal tried
        for rowid, place in flips(path, "commits", column, every):
            run, first, last = spans[rowid]
            found = told(await runtime.verify())
            assert any(one == run and first <= seq <= last for one, seq, _ in found), (run, first, last, place, found)
            tried += 1

    on_store(path, work)
    assert tried > 10
    assert verified(path).sound


def test_the_event_is_named_exactly_whatever_byte_of_it_was_altered(path: Path) -> None:
    lived(path, "a", steps=2)

    async def work(runtime: fp.Runtime) -> None:
        for rowid, place in flips(path, "commits", "body", 7):
            ((body, count),) = ask(path, "SELECT body, length(kinds) FROM commits WHERE id = ?", rowid)
            expected = (rowid & 0xFFFFFFFF) - count + 1 + min(wholes[rowid][:place].count(b"\n"), count - 1)
            ((run, seq, _), *_) = told(await runtime.verify("a"))
            assert run == "a"
            assert seq == expected, body

    wholes = dict(ask(path, "SELECT id, body FROM commits"))
    on_store(path, work)


@pytest.mark.parametrize(("table", "column", "every"), [("blobs", "body", 97), ("checkpoints", "body", 53)])
@pytest.mark.parametrize("fold", [False, True])
def test_one_altered_byte_of_a_blob_or_checkpoint_is_found_with_the_event(
    path: Path, table: str, column: str, every: int, fold: bool
) -> None:
    lived(path, "a", steps=120 if table == "checkpoints" else 2)
    code = "blob.corrupt" if table == "blobs" else "checkpoint.altered"

    async def work(runtime: fp.Runtime) -> None:
        for _ in flips(path, table, column, every * (5 if fold else 1)):
            ((run, seq, found),) = told(await runtime.verify(fold=fold))
            assert (run, found) == ("a", code)
            assert seq > 0

    on_store(path, work)


def test_a_blob_that_is_gone_is_told_for_every_event_that_refers_to_it(path: Path) -> None:
    lived(path, "a", "b", steps=4)
    change(path, "DELETE FROM refs")
    change(path, "DELETE FROM blobs")
    found = told(verified(path))
    assert {code for _, _, code in found} == {"blob.missing"}
    assert sorted({run for run, _, _ in found}) == ["a", "b"]
    assert len(found) == 4


def test_findings_beyond_many_are_counted(path: Path) -> None:
    lived(path, "a", steps=2 * MAX_FINDINGS + 200)
    change(path, "DELETE FROM refs")
    change(path, "DELETE FROM blobs")
    verdict = verified(path)
    assert len(verdict.findings) == MAX_FINDINGS
    assert verdict.more == 100


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("DELETE FROM commits WHERE id = (SELECT max(id) FROM commits)", "event.missing"),
        ("DELETE FROM commits WHERE id = (SELECT min(id) FROM commits)", "event.missing"),
        ("UPDATE runs SET digest = zeroblob(32)", "run.row-altered"),
        ("UPDATE runs SET head = head - 1", "run.row-altered"),
        ("UPDATE runs SET head = head + 1", "event.missing"),
        ("UPDATE commits SET at_ms = at_ms + 1", "event.altered"),
        ("UPDATE commits SET kinds = zeroblob(length(kinds))", "event.misfiled"),
    ],
)
def test_what_does_not_hang_together_is_told(path: Path, statement: str, expected: str) -> None:
    lived(path, "a", steps=1)
    change(path, statement)
    assert expected in {code for _, _, code in told(verified(path))}


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE commits SET step = step + 1", "event.misfiled"),
        ("UPDATE commits SET turn = 0", "event.misfiled"),
        ("UPDATE runs SET summary = replace(CAST(summary AS TEXT), 'done', 'gone')", "run.row-altered"),
    ],
)
def test_what_is_derived_is_held_against_the_state(path: Path, statement: str, expected: str) -> None:
    lived(path, "a", steps=1)
    change(path, statement)
    assert verified(path).sound
    assert expected in {code for _, _, code in told(verified(path, fold=True))}


def rewritten(path: Path, run: str, old: bytes, new: bytes) -> None:
    """Alter a run's events as somebody would who knows the format: with every digest after them made to fit."""
    number, before = ask(path, "SELECT number, run FROM runs WHERE run = ?", run)[0][0], bytes(32)
    commits = ask(path, "SELECT id, at_ms, body FROM commits WHERE id >> 32 = ? ORDER BY id", number)
    for rowid, at_ms, body in commits:
        lines = body.replace(old, new).split(b"\n")
        marks = []
        for seq, line in enumerate(lines, (rowid & 0xFFFFFFFF) - len(lines) + 1):
            before = event_digest(before, run, seq, at_ms, line)
            marks.append(before)
        whole = b"".join(mark[:MARK_BYTES] for mark in marks[:-1]) + before
        change(path, "UPDATE commits SET body = ?, marks = ? WHERE id = ?", b"\n".join(lines), whole, rowid)
    change(path, "UPDATE runs SET digest = ? WHERE number = ?", before, number)


def test_a_past_that_was_rewritten_whole_does_not_fit_the_forks_that_share_it(path: Path) -> None:
    lived(path, "a", steps=1)
    head = ask(path, "SELECT head FROM runs")[0][0]
    forked(path, "a", "child", head)
    rewritten(path, "a", b"it is 0", b"it is 9")
    assert told(verified(path)) == [("child", head + 1, "fork.past-altered")]
    assert told(verified(path, "child")) == [("child", head + 1, "fork.past-altered")]
    assert verified(path, "a").sound


def test_what_a_model_was_shown_is_held_against_the_digest_of_its_request(path: Path) -> None:
    lived(path, "a", steps=1)
    rewritten(path, "a", b"it is 0", b"it is 9")
    assert verified(path, "a").sound
    assert "request.altered" in {code for _, _, code in told(verified(path, "a", fold=True))}


def test_a_checkpoint_with_another_state_and_a_digest_to_fit_is_found_and_not_read(path: Path) -> None:
    lived(path, "a", steps=120)
    ((rowid, digest, body),) = ask(path, "SELECT id, digest, body FROM checkpoints ORDER BY id LIMIT 1")
    data = body[32:].replace(b'"title":"Look, a"', b'"title":"Look, b"')
    assert data != body[32:]
    seq = rowid & 0xFFFFFFFF
    mark = checkpoints._mark("a", seq, digest, data)
    change(path, "UPDATE checkpoints SET body = ? WHERE id = ?", mark + data, rowid)
    assert told(verified(path, fold=True)) == [("a", seq, "checkpoint.altered")]
    # Of another event: its digest is not the journal's, and it is ignored.
    other = checkpoints._mark("a", seq, bytes(32), data)
    change(path, "UPDATE checkpoints SET digest = ?, body = ? WHERE id = ?", bytes(32), other + data, rowid)
    assert told(verified(path)) == [("a", seq, "checkpoint.altered")]

    async def title(runtime: fp.Runtime) -> str:
        return (await (await runtime.open("a")).state(seq)).title

    assert on_store(path, title) == "Look, a"


def test_an_event_of_a_newer_release_is_named_and_the_rest_is_still_checked(path: Path) -> None:
    lived(path, "a", steps=1)
    rewritten(path, "a", b'{"is":"requested"', b'{"is":"dreamt_of"')
    found = told(verified(path, fold=True))
    assert {code for _, _, code in found} == {"event.unknown"}
    assert len(found) > 1


def test_what_follows_from_nothing_before_it_is_told(path: Path) -> None:
    lived(path, "a", steps=1)
    rewritten(path, "a", b'{"is":"settled","of":', b'{"is":"settled","of":9')
    assert told(verified(path, fold=True))


def test_one_runs_fault_hides_no_other(path: Path) -> None:
    lived(path, "a", "b", "c", steps=1)
    change(path, "UPDATE commits SET body = x'00' WHERE id >> 32 IN (1, 3)")
    assert sorted({run for run, _, _ in told(verified(path))}) == ["a", "c"]
    assert verified(path, "b").sound


def test_what_deleted_runs_left_to_their_forks_is_checked_too(path: Path) -> None:
    lived(path, "a", steps=1)
    forked(path, "a", "child", 4)
    on_store(path, lambda runtime: runtime.delete("a"))
    verdict = verified(path, fold=True)
    assert verdict.sound
    assert verdict.runs == 2
    change(path, "UPDATE commits SET at_ms = at_ms + 1 WHERE id >> 32 = 1")
    assert told(verified(path)) == [("a", 1, "event.altered")]


class Deflated:
    def encode(self, data: bytes) -> bytes:
        return zlib.compress(data)

    def decode(self, data: bytes) -> bytes:
        return zlib.decompress(data)


def test_bytes_that_a_payload_codec_refuses_are_told(path: Path) -> None:
    lived(path, "a", steps=2, codec=Deflated())
    assert verified(path, fold=True, codec=Deflated()).sound
    change(path, "UPDATE commits SET body = x'00' WHERE id = (SELECT max(id) FROM commits)")
    change(path, "UPDATE blobs SET body = x'00'")
    found = {code for _, _, code in told(verified(path, codec=Deflated()))}
    assert found == {"event.unreadable", "blob.corrupt"}


def test_memory_does_not_grow_with_a_runs_length(path: Path) -> None:
    lived(path, "short", steps=150)
    lived(path, "long", steps=1200)

    async def peak(runtime: fp.Runtime, run: str) -> int:
        tracemalloc.start()
        try:
            assert (await runtime.verify(run)).sound
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    async def work(runtime: fp.Runtime) -> tuple[int, int]:
        return await peak(runtime, "short"), await peak(runtime, "long")

    short, long = on_store(path, work)
    assert long < 1.5 * short


def test_a_run_that_is_not_there_is_refused(path: Path) -> None:
    lived(path, "a", steps=1)
    with pytest.raises(RunNotFound):
        verified(path, "b")


def test_a_report_can_be_written_as_json(path: Path) -> None:
    lived(path, "a", steps=1)
    change(path, "UPDATE commits SET at_ms = 0")
    plain = msgspec.json.decode(msgspec.json.encode(verified(path)))
    assert plain["findings"][0]["code"] == "event.altered"
