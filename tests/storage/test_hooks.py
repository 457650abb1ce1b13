"""What stands between an event and the disk: the ``redact`` hook, the payload codec, and the flush of a commit.

Not tested here: registered secrets (see ``test_secrecy``), and what ``verify`` says of bytes that a codec refuses.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from storage_runs import LARGE, lived, on_store, verified

import forkpoint as fp


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store" / "runs.db"


class Turned:
    """A payload codec that keeps no byte as it was."""

    def encode(self, data: bytes) -> bytes:
        return bytes(byte ^ 0x5A for byte in data)

    decode = encode


def bytes_of(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.iterdir() if file.is_file())


def test_what_a_redact_hook_takes_out_is_in_no_file_and_the_run_goes_on_without_it(path: Path) -> None:
    def redact(event: dict[str, Any]) -> dict[str, Any]:
        if event["is"] == "input":
            event["parts"] = [{**part, "content": "(redacted)"} for part in event["parts"]]
        return event

    lived(path, "of-somebody", redact=redact)
    assert b"Look, of-somebody" not in bytes_of(path)

    async def shown(runtime: fp.Runtime) -> tuple[str, str]:
        run = await runtime.open("of-somebody")
        return (await run.request(1)).messages[0].text, (await run.state()).status

    assert on_store(path, shown) == ("(redacted)", "idle")
    assert verified(path, fold=True).sound


def test_a_payload_codec_stands_before_every_body_and_blob_and_another_process_goes_on_through_it(path: Path) -> None:
    lived(path, "a", codec=Turned())
    assert b"Look, a" not in bytes_of(path).replace(b'"title":"Look, a"', b"")
    assert b"x" * LARGE not in bytes_of(path)

    async def goes_on(runtime: fp.Runtime) -> list[str]:
        run = await runtime.open("a")
        await run.resume()
        await run.send("Again")
        child = await run.fork(step=2)
        await child.resume()
        return [(await one.wait()).status for one in (run, child)]

    assert on_store(path, goes_on, codec=Turned()) == ["idle", "idle"]
    assert verified(path, fold=True, codec=Turned()).sound


@pytest.mark.parametrize(("options", "level"), [({}, 2), ({"durability": "full"}, 2), ({"durability": "normal"}, 1)])
def test_a_commit_is_flushed_before_it_counts_unless_that_is_given_up(
    path: Path, options: dict[str, Any], level: int
) -> None:
    """SQLite's own words: 2 flushes the log at every commit, 1 leaves that to the system until a checkpoint."""

    async def asked() -> int:
        async with fp.connect(path, **options) as runtime:
            journal: Any = runtime.edge.journal
            return int(journal._connection.execute("PRAGMA synchronous").fetchone()[0])

    assert asyncio.run(asked()) == level
