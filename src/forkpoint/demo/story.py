"""The story: a run is killed in the middle of a charge, recovered, decided and finished; then forked and compared.

Nothing is told that was not checked: against the store, and against the payment service's own ledger.
"""

import asyncio
import json
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING

from forkpoint.demo.facts import CallFacts, RunFacts, divergence, run_facts
from forkpoint.demo.payments import LEDGER, ledger_of
from forkpoint.demo.stage import ServedStage, make_store, new_folder
from forkpoint.demo.telling import Account, Telling

if TYPE_CHECKING:
    from rich.console import Console

RUN = "collect-17"
FORK = f"{RUN}.fork-1"
INPUT = "Collect invoices 17 and 18, and mail the receipts."
DECLINED = {"status": "declined", "reason": "the card has expired"}


def run_demo(folder: Path | None = None, *, console: "Console | None" = None, pause: bool = False) -> Account:
    """Play the whole story in ``folder`` (a new temporary one, if left out), which is kept, and give an account of it.

    It is told on ``console`` as it happens; ``pause`` waits for Enter before each command. Needs no network but
    127.0.0.1. Raises ``demo.folder-used`` for a folder with something in it, and ``demo.differs`` if anything that is
    told turns out not to be so.
    """
    began_s = time.monotonic()
    place = new_folder(folder)
    stage = ServedStage(place, withhold=2)
    try:
        asyncio.run(make_store(place))
        account = Account(folder=str(place), enter=stage.enter)
        _Story(stage, Telling(account, console, pause=pause)).tell()
    finally:
        stage.close()
    account.took_ms = int((time.monotonic() - began_s) * 1000)
    return account


class _Story:
    def __init__(self, stage: ServedStage, telling: Telling) -> None:
        self._stage = stage
        self._telling = telling
        self._check = telling.check

    def tell(self) -> None:
        self._opening()
        self._start_and_kill()
        self._recover()
        self._waits()
        self._ledger()
        self._resolve()
        self._resume()
        self._show()
        self._request()
        self._fork()
        self._compare()
        self._ending()

    # ── the scenes ───────────────────────────────────────────────────────────────────────────────────────────

    def _opening(self) -> None:
        self._telling.say("Forkpoint's story: real processes, a real kill, no network, no account.", "bold")
        self._telling.explain(
            f"Everything happens in {self._stage.folder} and stays there. The agent is billing.py. It pays through a "
            f"service in a process of its own; {LEDGER} holds what that service really did. To type along:"
        )
        self._telling.say(f"   {self._stage.enter}", "cyan")

    def _start_and_kill(self) -> None:
        self._telling.begin(
            "Killed in the middle of a charge",
            "The agent reads two invoices, then charges a card and mails a receipt, both at once. The service does "
            "both and does not answer; at that moment the agent's process is killed, with SIGKILL.",
        )
        ended = self._type("start", "billing", INPUT, "--id", RUN, killed_after=2)
        facts = self._facts()
        self._check("The process is dead: ended by signal 9", ended, -9)
        self._check("The card was charged and the mail sent: the ledger has one of each", self._did(), (1, 1))
        in_flight = sorted(name for name, call in facts.calls.items() if call.in_flight)
        self._check("The journal knows that both were tried, and of neither how it ended", in_flight, _BOTH)

    def _recover(self) -> None:
        before = self._facts().calls
        self._telling.begin(
            "Recovered in a new process",
            "What is done is kept. The mail may be asked for again, under its key. The charge has no key: nobody here "
            "knows whether it took place, and a wrong guess costs somebody money.",
        )
        self._type("recover")
        calls, status = self._facts().calls, self._facts().state.status
        self._check("Both invoices were read once: what is done is kept", _tries(calls, "read"), [1, 1])
        mail, charge = calls["mail_18"], calls["charge_17"]
        self._check("The mail was asked again under the same key", mail.keys, before["mail_18"].keys * 2)
        self._check("The service knew the key, and sent no second mail", (self._did()[1], mail.endings[-1]), _SENT_ONCE)
        self._check("The charge was not tried again", (charge.attempts, self._did()[0]), (1, 1))
        self._check("Its outcome is unknown, and the run waits for a person", (charge.endings, status), _DOUBT)

    def _waits(self) -> None:
        self._telling.begin("What waits for a person")
        self._type("waits")
        waiting = [(wait.call, wait.kind) for wait in self._facts().state.waits]
        self._check("One decision is needed: the charge's", waiting, [("charge_17", "unknown")])

    def _ledger(self) -> None:
        self._telling.begin("What really happened", "Somebody looks where the truth about charges is kept.")
        self._type("cat", LEDGER, of_forkpoint=False)
        self._check("The charge took place, once", self._charged(), ["ch_1"])

    def _resolve(self) -> None:
        output = _compact({"charge": "ch_1", "status": "paid"})
        effect = self._facts().calls["charge_17"].effect
        self._telling.begin("Decided by a person", "The decision is recorded beside the doubt, with the note.")
        note = "ch_1 is in the ledger"
        self._type("resolve", RUN, str(effect), "occurred", "--output", output, "--note", note)
        charge = self._facts().calls["charge_17"]
        self._check("The decision is on record; the unknown outcome before it too", _story_of(charge), _DECIDED)
        self._check("Deciding charged nothing", self._charged(), ["ch_1"])

    def _resume(self) -> None:
        self._telling.begin("Finished")
        self._type("resume", RUN)
        state = self._facts().state
        self._check("The run has come to its end", (state.status, state.turn), ("idle", 1))
        self._check("Two receipts were mailed", self._did()[1], 2)
        self._telling.begin("One charge")
        self._type("grep", '"charge"', LEDGER, of_forkpoint=False)
        self._check("Killed, recovered and finished: the card was charged once", self._charged(), ["ch_1"])

    def _show(self) -> None:
        self._telling.begin("The run, told from its journal", "Reading performs nothing.")
        self._type("show", RUN)
        self._check("It took four steps", self._facts().state.step, 4)

    def _request(self) -> None:
        self._telling.begin("What the model was shown at step 2", "Rebuilt from the journal, checked by its digest.")
        self._type("request", f"{RUN}@step:2")
        self._check("Looking performed nothing", self._did(), (1, 2))

    def _fork(self) -> None:
        before = self._facts().digest
        self._telling.begin(
            "What if the card had been declined?",
            "A fork shares the run's past up to step 2, but for the one answer that is changed there. What it would do "
            "to the world waits for a person, so that trying a 'what if' never sends a mail by accident.",
        )
        self._type("fork", f"{RUN}@step:2", "--result", f"charge_17={_compact(DECLINED)}", "--resume")
        child = self._facts(FORK)
        waiting = [(wait.call, wait.kind) for wait in child.state.waits]
        self._check("The fork would mail a reminder, and waits to be allowed", waiting, [("mail_17", "approval")])
        self._check("Nothing was charged and nothing was mailed", self._did(), (1, 2))
        self._check("The run it came from is as it was, to the byte", self._facts().digest, before)

    def _compare(self) -> None:
        self._telling.begin("Where the two part")
        self._type("compare", RUN, FORK)
        parted = divergence(self._facts(), self._facts(FORK))
        self._check("They part at step 2, where the answer was changed", parted, 2)
        letters = _subject(self._facts()), _subject(self._facts(FORK))
        self._check("The run mailed a receipt; the fork would mail a reminder", letters, (_RECEIPT, _REMINDER))

    def _ending(self) -> None:
        effect = self._facts(FORK).calls["mail_17"].effect
        more = [
            self._stage.command("approve", FORK, str(effect), "--resume"),
            self._stage.command("start", "billing", "Collect invoice 18"),
            self._stage.command("tree"),
        ]
        self._telling.account.more += map(shlex.join, more)
        self._telling.say("")
        self._telling.say("All of that was real. Every command above works in the folder, and so do these:", "bold")
        for line in (self._stage.enter, *self._telling.account.more):
            self._telling.say(f"   {line}", "cyan")

    # ── what the scenes are made of ──────────────────────────────────────────────────────────────────────────

    def _type(self, *words: str, killed_after: int = 0, of_forkpoint: bool = True) -> int:
        """Type a command and show what it prints; its exit status, which is 0 unless it is killed."""
        typed = self._stage.command(*words) if of_forkpoint else list(words)
        keep = not self._telling.on_terminal
        self._telling.typed(shlex.join(typed))
        if killed_after:
            ended = self._stage.run_and_kill(typed, after=killed_after, keep=keep)
        else:
            ended = self._stage.run(typed, keep=keep)
        self._telling.ended(ended.status, ended.output)
        if not killed_after and ended.status != 0:
            self._check(f"'{words[0]}' does what it should", f"exit status {ended.status}", "exit status 0")
        self._telling.account.commands.append(shlex.join(typed))
        return ended.status

    def _facts(self, run: str = RUN) -> RunFacts:
        return run_facts(self._stage.store, run)

    def _did(self) -> tuple[int, int]:
        """How many charges and how many mails there really were."""
        lines = ledger_of(self._stage.folder)
        return sum(one["did"] == "charge" for one in lines), sum(one["did"] == "mail" for one in lines)

    def _charged(self) -> list[str]:
        """The charges there really were for invoice 17."""
        return [one["id"] for one in ledger_of(self._stage.folder) if one["did"] == "charge" and one["invoice"] == "17"]


_BOTH = ["charge_17", "mail_18"]
_SENT_ONCE = (1, "succeeded")
_DOUBT = (["lost"], "waiting")
_DECIDED = (["lost"], ["occurred"])
_RECEIPT = "Receipt for invoice 17"
_REMINDER = "Invoice 17 is still open"


def _compact(value: dict[str, str]) -> str:
    return json.dumps(value, separators=(",", ":"))


def _tries(calls: dict[str, CallFacts], tool: str) -> list[int]:
    """How often each call of a tool was tried."""
    return [call.attempts for name, call in calls.items() if name.startswith(tool)]


def _story_of(call: CallFacts) -> tuple[list[str], list[str]]:
    return call.endings, call.findings


def _subject(facts: RunFacts) -> str:
    """The subject of the last letter that the run's model asked for."""
    calls = [call for message in facts.state.messages for call in message.calls if call.name == "mail"]
    return str(calls[-1].arguments["subject"])
