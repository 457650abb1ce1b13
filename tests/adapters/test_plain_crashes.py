"""Hand-written loops in processes that are killed. What really happened is counted by a file and by the provider."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.adapters.plain_child import Work
from tests.adapters.plain_stage import each_api, each_kind

from forkpoint.messages import CallPart, Message
from forkpoint.testing.fakes import call, calls
from forkpoint.testing.provider_server import API, Asked, ProviderServer, Told

ROOT = Path(__file__).parents[2]


def collecting(asked: Asked) -> Told:
    """Charges, then mails, then says so."""
    done = sum(1 for one in asked.messages if one.role == "tool")
    if done == 0:
        return calls(call("charge", id="c1", number="17", cents=4200), text="First the money.")
    return calls(call("mail", id="c2", to="bo")) if done == 1 else "Collected."


def at_once(asked: Asked) -> Told:
    """Asks for everything at once."""
    if asked.messages[-1].role == "tool":
        return "Collected."
    parts = (
        CallPart(id="c1", name="mail", arguments={"to": "al"}),
        CallPart(id="c2", name="charge", arguments={"number": "17", "cents": 4200}),
        CallPart(id="c3", name="mail", arguments={"to": "bo"}),
    )
    return Message(role="assistant", parts=parts)


class Nursery:
    """The process that forks others."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.adapters.plain_child"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True, bufsize=1)

    def start(self, work: Work) -> int:
        """A process that does ``work``."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(work).decode() + "\n")
        return self.hear()

    def hear(self) -> int:
        """The next thing it says: a process's id, or how that ended."""
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """Let it come to its end."""
        self._process.communicate(timeout=60)


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    found = Nursery()
    yield found
    found.close()


class Stage:
    """A store, a witness, and processes over both."""

    def __init__(
        self, folder: Path, nursery: Nursery, server: ProviderServer, api: API, *, is_async: bool, **work: Any
    ) -> None:
        self.witness, self._said, self._nursery = folder / "witness", folder / "said", nursery
        paths = {"store": folder / "runs.db", "witness": self.witness, "said": self._said}
        more = {"url": server.url, "api": api, "is_async": is_async}
        self._work: dict[str, Any] = {**{name: str(path) for name, path in paths.items()}, **more, **work}

    def start(self, **work: Any) -> int:
        """A process that works."""
        return self._nursery.start(Work(**{**self._work, **work}))

    def work(self, **work: Any) -> dict[str, Any]:
        """What a process says that works to its end."""
        self.start(**work)
        assert self._nursery.hear() == 0
        found: dict[str, Any] = json.loads(self._said.read_text())
        return found

    def die(self, **work: Any) -> None:
        """A process that is killed."""
        self.start(**work)
        assert self._nursery.hear() == -signal.SIGKILL

    def happened(self) -> list[tuple[str, str]]:
        """What really happened: what, and under which key."""
        lines = [line.split(" ") for line in self.witness.read_text().splitlines()]
        return [(what, key) for what, _, key in lines]


@each_kind
@each_api
def test_a_charge_that_is_lost_in_a_crash_is_done_again_under_its_key_and_nothing_else_is(
    api: API, is_async: bool, tmp_path: Path, nursery: Nursery
) -> None:
    form = {"chat": "whole", "responses": "streamed", "messages": "helper"}[api]
    with ProviderServer(collecting) as server:
        stage = Stage(tmp_path, nursery, server, api, is_async=is_async, form=form)
        stage.die(dies="charge")
        assert len(server.requests) == 1
        assert stage.work() == {"result": "Collected."}
        happened = stage.happened()
        assert [what for what, _ in happened] == ["charge", "charge", "mail-bo"]
        assert happened[0] == happened[1]  # who keeps keys charges once
        assert len(server.requests) == 3
        assert stage.work() == {"result": "Collected."}
        assert len(server.requests) == 3


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize(("api", "is_async"), [("chat", True), ("responses", True), ("messages", False)])
def test_a_mail_that_is_lost_in_a_crash_waits_for_a_person_and_the_loop_goes_on(
    api: API, is_async: bool, before: bool, tmp_path: Path, nursery: Nursery
) -> None:
    with ProviderServer(collecting) as server:
        stage = Stage(tmp_path, nursery, server, api, is_async=is_async)
        stage.die(dies="mail-bo", before=before)
        said = stage.work()
        assert "mail" in said["waits"]
        assert len(server.requests) == 2
        assert stage.work(resolve="occurred") == {"result": "Collected."}
        expected = ["charge"] if before else ["charge", "mail-bo"]
        assert [what for what, _ in stage.happened()] == expected
        assert len(server.requests) == 3
        assert server.requests[-1].messages[-1].parts[0].response == "sent to bo"


@each_api
def test_of_parallel_tools_only_what_was_lost_waits_and_the_others_are_not_done_again(
    api: API, tmp_path: Path, nursery: Nursery
) -> None:
    with ProviderServer(at_once) as server:
        stage = Stage(tmp_path, nursery, server, api, is_async=True, at_once=True)
        stage.die(dies="mail-bo")
        said = stage.work()
        assert "mail" in said["waits"]
        assert stage.work(resolve="occurred") == {"result": "Collected."}
        happened = [what for what, _ in stage.happened()]
        assert (happened.count("mail-al"), happened.count("mail-bo")) == (1, 1)
        assert len({key for what, key in stage.happened() if what == "charge"}) == 1
        assert len(server.requests) == 2
        answers = [one.parts[0].response for one in server.requests[-1].messages if one.role == "tool"]
        assert answers == ["sent to al", {"charged": 4200}, "sent to bo"]


@pytest.mark.parametrize(("api", "is_async", "form"), [("chat", True, "streamed"), ("messages", False, "whole")])
def test_a_model_call_that_is_lost_in_a_crash_is_asked_again_and_no_tool_is(
    api: API, is_async: bool, form: str, tmp_path: Path, nursery: Nursery
) -> None:
    started: list[int] = []

    def script(asked: Asked) -> Told:
        if asked.number == 2:
            os.kill(started[0], signal.SIGKILL)
        return collecting(asked)

    with ProviderServer(script) as server:
        stage = Stage(tmp_path, nursery, server, api, is_async=is_async, form=form)
        started.append(stage.start())
        assert nursery.hear() == -signal.SIGKILL
        assert stage.work() == {"result": "Collected."}
        assert [what for what, _ in stage.happened()] == ["charge", "mail-bo"]
        assert len(server.requests) == 4
        assert server.requests[1].body == server.requests[2].body
