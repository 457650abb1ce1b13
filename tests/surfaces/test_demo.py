"""The demo is played once for real, and everything it tells is looked at from outside.

Not tested here: how it looks on a terminal, and how long it takes.
"""

import asyncio
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from forkpoint.demo.clerk import next_message
from forkpoint.demo.payments import Books
from forkpoint.demo.stage import new_folder
from forkpoint.demo.telling import Account, Telling
from forkpoint.errors import DemoDiffers, DemoFolderUsed
from forkpoint.messages import Message, answer, user
from forkpoint.state import RunState
from forkpoint.wiring import connect

RUN, FORK = "collect-17", "collect-17.fork-1"
DEMO = [sys.executable, "-m", "forkpoint", "demo"]


class Played:
    """A demo that was played to its end, and the folder that it left."""

    def __init__(self, folder: Path) -> None:
        ended = subprocess.run([*DEMO, "--json", "--folder", str(folder)], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        self.folder = folder
        self.account: dict[str, Any] = json.loads(ended.stdout)
        self.ledger = read_ledger(folder)
        self.run, self.fork = state_of(folder, RUN), state_of(folder, FORK)

    def type(self, command: str) -> "subprocess.CompletedProcess[str]":
        """Paste a line into a shell, after the line that leads there."""
        line = f"{self.account['enter']} && {command}"
        return subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=False)


def read_ledger(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "ledger.jsonl").read_text("utf-8").splitlines()]


def state_of(folder: Path, run: str) -> RunState:
    async def look() -> RunState:
        async with connect(folder / ".forkpoint" / "runs.db") as runtime:
            return await (await runtime.open(run)).state()

    return asyncio.run(look())


def last_subject(state: RunState) -> str:
    calls = [call for message in state.messages for call in message.calls if call.name == "mail"]
    return str(calls[-1].arguments["subject"])


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return Played(tmp_path_factory.mktemp("demo") / "kept here")


# ── what it tells is so ──────────────────────────────────────────────────────────────────────────────────────────


def test_the_killed_charge_took_place_once(played: Played) -> None:
    assert [one["invoice"] for one in played.ledger if one["did"] == "charge"] == ["17"]


def test_the_killed_mail_was_asked_twice_and_sent_once(played: Played) -> None:
    sent = [one["to"] for one in played.ledger if one["did"] == "mail"]
    assert sent == ["grace@example.com", "ada@example.com"]
    assert [one["id"] for one in played.ledger if one["did"] == "nothing"] == ["m_1"]


def test_the_process_was_really_killed(played: Played) -> None:
    first = played.account["scenes"][0]
    assert (first["status"], shlex.split(first["command"])[1]) == (-signal.SIGKILL, "start")


def test_the_run_is_finished(played: Played) -> None:
    assert (played.run.status, played.run.step, played.run.waits) == ("idle", 4, ())
    assert "Invoice 17 is collected" in played.run.output


def test_the_fork_goes_another_way_and_waits_before_it_touches_the_world(played: Played) -> None:
    assert [(wait.kind, wait.call) for wait in played.fork.waits] == [("approval", "mail_17")]
    assert last_subject(played.run) == "Receipt for invoice 17"
    assert last_subject(played.fork) == "Invoice 17 is still open"


def test_every_scene_was_checked_and_names_its_command(played: Played) -> None:
    scenes = played.account["scenes"]
    assert all(scene["checked"] and scene["command"] for scene in scenes)
    told = [shlex.split(scene["command"])[1] for scene in scenes if scene["command"].startswith("forkpoint ")]
    assert told == ["start", "recover", "waits", "resolve", "resume", "show", "request", "fork", "compare"]


def test_the_folder_reads_as_an_example(played: Played) -> None:
    kept = {path.name for path in played.folder.iterdir()}
    assert {"billing.py", "pyproject.toml", "invoices.json", "ledger.jsonl", ".forkpoint"} <= kept
    example = (played.folder / "billing.py").read_text("utf-8")
    assert all(said in example for said in ("read_only=True", "@fp.tool  #", "idempotent=True", "fp.Agent("))


# ── what it shows works afterwards ───────────────────────────────────────────────────────────────────────────────


def test_every_command_it_shows_works_afterwards_and_does_nothing_twice(played: Played) -> None:
    for command in played.account["commands"]:
        ended = played.type(command)
        assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
    assert read_ledger(played.folder) == played.ledger
    assert state_of(played.folder, RUN).seq == played.run.seq


def test_what_it_suggests_in_the_end_works_without_the_service_of_the_demo(played: Played) -> None:
    for command in played.account["more"]:
        ended = played.type(command)
        assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
    fork = state_of(played.folder, FORK)
    assert (fork.status, fork.waits) == ("idle", ())
    mailed = [one["subject"] for one in read_ledger(played.folder) if one["did"] == "mail"]
    assert mailed[2:] == ["Invoice 17 is still open", "Receipt for invoice 18"]


# ── where it does not go well ────────────────────────────────────────────────────────────────────────────────────


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(DemoFolderUsed):
        new_folder(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_claim_that_does_not_hold_is_an_error_and_is_not_told() -> None:
    telling = Telling(Account(folder="f", enter="cd f"), None, pause=False)
    telling.begin("Counting")
    telling.check("One charge", 1, 1)
    with pytest.raises(DemoDiffers) as caught:
        telling.check("No charge", 1, 0)
    assert telling.account.scenes[0].checked == ["One charge"]
    assert (caught.value.exit_status, caught.value.found, caught.value.expected) == (70, "1", "0")


def test_a_story_that_goes_wrong_ends_with_70_and_leaves_no_process(tmp_path: Path) -> None:
    """Here because the one thing it lacks is the command that shows the ledger."""
    environment = os.environ | {"PATH": str(tmp_path)}
    folder = tmp_path / "demo"
    ended = subprocess.run(
        [*DEMO, "--folder", str(folder)], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 70
    assert "'cat' does what it should" in ended.stderr
    assert str(folder) in ended.stderr.replace("\n", "")
    assert not is_served(folder)


def test_an_interrupted_demo_leaves_no_process(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    with subprocess.Popen(
        [*DEMO, "--folder", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        next(line for line in demo.stdout if line.startswith("2. "))
        assert is_served(folder)
        demo.send_signal(signal.SIGINT)
        demo.communicate()
    assert demo.returncode == 130
    assert not is_served(folder)


def is_served(folder: Path) -> bool:
    """Whether anything listens where the payment service of ``folder`` said it would."""
    port = int((folder / "payments.port").read_text("utf-8"))
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


# ── the people in it ─────────────────────────────────────────────────────────────────────────────────────────────

INVOICE = {"number": "17", "customer": "Ada", "email": "ada@example.com", "due_cents": 4200}


def asked(found: dict[str, Any]) -> Message:
    """What the clerk says after these answers."""
    return next_message([user("Collect invoice 17."), *(answer(call, told) for call, told in found.items())])


@pytest.mark.parametrize(
    ("charge", "subject"),
    [
        ({"status": "paid"}, "Receipt for invoice 17"),
        ({"resolved": "occurred"}, "Receipt for invoice 17"),
        ({"status": "declined", "reason": "no money"}, "Invoice 17 is still open"),
    ],
)
def test_the_clerk_writes_what_became_of_the_charge(charge: dict[str, str], subject: str) -> None:
    (letter,) = asked({"read_17": INVOICE, "charge_17": charge}).calls
    assert (letter.name, letter.arguments["subject"]) == ("mail", subject)


def test_the_clerk_charges_again_only_what_never_happened() -> None:
    (again,) = asked({"read_17": INVOICE, "charge_17": {"resolved": "not_occurred"}}).calls
    assert (again.id, again.name) == ("charge_17_2", "charge")
    for doubt in ({"resolved": "abandoned_unknown"}, {"error": "denied", "message": "no"}, "who knows"):
        said = asked({"read_17": INVOICE, "charge_17": doubt})
        assert (said.calls, "not known" in said.text) == ((), True)


def test_the_clerk_charges_nothing_that_is_not_due() -> None:
    (letter,) = asked({"read_17": INVOICE | {"due_cents": 0}}).calls
    assert letter.name == "mail"
    assert asked({"read_17": {"error": "LookupError", "message": "no such invoice"}}).text.endswith("not be read.")


@pytest.fixture
def books(tmp_path: Path) -> Books:
    return Books(new_folder(tmp_path / "shop"))


def test_a_key_makes_two_askings_one_deed_and_without_one_they_are_two(books: Books) -> None:
    letter = {"to": "a", "subject": "b", "key": "k"}
    assert books.mail(letter) == books.mail(letter)
    charge = {"number": "17", "cents": 4200}
    assert books.charge(charge) != books.charge(charge)
    assert [one["did"] for one in books.lines()] == ["mail", "nothing", "charge", "charge"]


def test_what_was_charged_is_due_no_more(books: Books) -> None:
    books.charge({"number": "17", "cents": 4000})
    assert (books.invoice("17") or {})["due_cents"] == 200
    assert books.invoice("99") is None


def test_the_script_is_where_the_commands_look_for_it() -> None:
    assert (Path(sysconfig.get_path("scripts")) / "forkpoint").exists()
