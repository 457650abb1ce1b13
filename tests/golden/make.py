"""Write the golden journals of a release that are not there yet: ``python tests/golden/make.py v0_2``.

A golden journal is never written again: what a release has written must be read for ever, so a change that makes
``test_golden`` fail is a fault of the change. One that is there already is left as it is.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from forkpoint.codec import encode_event
from forkpoint.commands import (
    Advance,
    Answer,
    Ask,
    CallPlan,
    ChangeAgent,
    Found,
    Interrupt,
    Late,
    Pause,
    Plan,
    Recover,
    Resolve,
    Return,
    Send,
    Settle,
    Start,
    Stop,
    Unpause,
)
from forkpoint.decide import start
from forkpoint.definition import AgentRecord, Compaction, Limits
from forkpoint.effects import ModelCall, Recovery, StepCall, ToolCall
from forkpoint.events import KINDS, Keep, Put, ResultPatch, SnapshotTaken, WorkspaceRewound
from forkpoint.folding import fold
from forkpoint.messages import BlobPart, CallPart, FilePart, Message, Reasoning, Text, UriPart, user
from forkpoint.outcomes import Cancelled, Failed, Succeeded
from forkpoint.timetravel.patches import Replace, as_edits, edited
from forkpoint.transcript import known_messages, loose
from given import (
    Past,
    agent,
    asks,
    decides,
    dispatched,
    ends,
    fails,
    given,
    plans,
    says,
    settled,
    started,
    state_digest,
    unknown,
)

HERE = Path(__file__).resolve().parent
BIG = "large " * 1000


def everything() -> Past:
    """A run in which every kind of event took place, and every ending of an effect."""
    rich = Message(
        role="assistant",
        parts=(
            Reasoning(content="first I look", extra={"signature": "c2lnbmVk"}),
            Text(content="a moment — 😀"),
            CallPart(id="a", name="look", arguments={"of": [1, None, 2.5]}),
            CallPart(id="a", name="mail", arguments={"to": "x@example.com"}),
            CallPart(id="b", name="charge", arguments={"cents": 100}),
            CallPart(id="c", name="book", arguments="not {json"),
            CallPart(id="d", name="wire"),
            CallPart(id="e", name="ask", arguments={}),
        ),
        finish_reason="tool_call",
    )
    spoken = (Text(content="hello"), BlobPart(mime_type="image/png", content="AAAA"), FilePart(file_id="f1"))
    past = given(
        started(None, limits=Limits(steps=4, seconds=3600.0), compaction=Compaction(after_tokens=50, keep_steps=1))
    )
    past = past.after(Send(parts=(*spoken, UriPart(uri="https://example.com/a")), key="k1", actor="ann"))
    past = past.after(SnapshotTaken(tree="sha256:aa", why="start"), Advance(by="p1"))
    past = past.after(fails("", "ConnectionError", transient=True), dispatched(later_ms=600))
    past = past.after(settled(past, "", Succeeded(message=rich), cost=0.25, ms=40))
    past = past.after(plans(past), dispatched(), Send(parts=(Text(content="and then?"),)))
    past = past.after(ends("look", {"due": 3, "note": BIG}, set={"seen": 1, "gone": 2}), ends("charge", None))
    past = past.after(Recover(), Found(effect=past.effect("book").seq, finding="not_occurred"), dispatched(), Recover())
    past = past.after(Found(effect=past.effect("book").seq, finding="occurred", outcome=Succeeded(value="seat 3")))
    past = past.after(decides("wire", "edited", arguments={"of": "less"}, actor="ann"), dispatched())
    past = past.after(settled(past, "wire", Failed(error="ToolBadResult", text="odd", happened=True), unset=("gone",)))
    past = past.after(Answer(effect=past.effect("ask").seq, value="blue", actor="bob"))
    mail = past.effect("mail").seq
    past = past.after(Resolve(effect=mail, verdict="not_occurred", note="the box is empty", actor="ann"))
    past = past.after(asks("look", "mail", tokens=60), dispatched(), unknown("mail", "timeout"), fails("look"))
    second = past.effect("mail").seq
    past = past.after(Late(effect=second, outcome=Succeeded(value="sent")), Advance(by="p2"), says("in short"))
    past = past.after(Late(effect=mail, outcome=Succeeded(value="sent too")))
    past = past.after(Resolve(effect=mail, verdict="occurred", actor="ann"), Pause(reason="lunch"), Unpause())
    past = past.after(ChangeAgent(agent=agent(attempts=2), differences=("attempts: 3, now 2",), actor="ann"))
    past = past.after(says("one"), asks("mail", "wire", "look", planned=False))
    refused = Failed(error="InvalidArguments", text="of: missing")
    plan = (CallPlan(tool="mail", refused=refused), CallPlan(tool="wire", gated=True, digest="d"))
    past = past.after(Plan(plans=(*plan, CallPlan(tool="look", recorded=(9, Succeeded(value="then"))))))
    past = past.after(decides("wire", "denied", reason="too much"), Advance(by="p2"), Unpause(limits=Limits(steps=9)))
    past = past.after(SnapshotTaken(failed="the disk is full", outside=("a.txt",)))
    past = past.after(WorkspaceRewound(tree="sha256:bb", before="sha256:aa", to=4, actor="ann"))
    past = past.after(Advance(by="p2"), Interrupt(reason="wait"))
    past = past.after(settled(past, "", Cancelled(reason="cancelled", partial=user("I was"))))
    return past.after(Send(parts=(Text(content="last"),)), asks("mail", "book"), dispatched())


def forks(parent: Past) -> dict[str, Past]:
    """Forks of it, and a fork of a fork, with every part of a patch."""
    told = parent.upto(len(parent.events)).state
    looked = next(entry.effect for entry in told.transcript.entries if entry.effect)
    held = parent.forked(run="held", input=(Text(content="what if"),), effects="ask", labels={"try": "1"}, actor="ann")
    known = known_messages(told)
    edits = as_edits(known, edited(known, [Replace(0, user("In short: nothing."))]), loose=loose(told))
    changed = parent.forked(
        run="changed",
        edits=edits,
        state={"seen": 2},
        tool_results=(ResultPatch(effect=looked, call="c1", error="it broke"),),
        agent=agent(attempts=1),
        changed=("settings",),
        pending="run",
        effects="recorded",
        workspace="elsewhere",
    )
    changed = changed.after(dispatched(), ends("mail", 1), Recover())
    deeper = changed.forked(run="deeper", state=None, pending="skip").after(Stop(reason="enough"))
    fresh = parent.forked(5, run="fresh", edits=(Keep(start=0, stop=1), Put(message=user("more")))).after(says("hi"))
    return {"held": held, "changed": changed, "deeper": deeper, "fresh": fresh}


def functions() -> dict[str, Past]:
    """Runs of a function: two conversations side by side, a step, calls with and without a message, and its ends."""
    text = (Text(content="17", extra={"arguments": {"args": ["17"], "named": {}}}),)
    past = given().recorded(*start(Start(agent=AgentRecord(name="loop"), input=text, function="loop")))
    clerk = AgentRecord(name="clerk", model="m:1", instructions="Collect.")
    judge = AgentRecord(name="judge", model="m:2")
    go = Advance(by="p1", after=0)
    past = past.after(Ask(effect=ModelCall(add=(user("collect"),), digest="", identity="i1"), agent=clerk), go)
    look = CallPart(id="a", name="look", arguments={"of": 1})
    said = Message(role="assistant", parts=(look,), finish_reason="tool_call")
    first = past.effect("").seq
    past = past.after(settled(past, "", Succeeded(message=said, value={"id": "r1"}), cost=0.5))
    message = past.events[-1].seq
    past = past.after(Ask(effect=ToolCall(tool="look", message=message, identity="i2"), gated=True, digest="d"))
    past = past.after(decides("look", "allowed"), go, ends("look", {"due": 5}))
    answered = past.events[-1].seq
    past = past.after(Ask(effect=ModelCall(add=(user("judge it"),), digest="", identity="i3"), agent=judge), go)
    other = past.effect("").seq
    again = ModelCall(add=(answered, user("well?")), digest="", identity="i4", since=first)
    past = past.after(Ask(effect=again, agent=clerk), go)
    past = past.after(says_to(past, other, "fair"), says_to(past, past.events[-2].seq, "paid"))
    kept = ModelCall(add=(user("and now?"),), digest="", identity="i5", since=other, keep=1)
    past = past.after(Ask(effect=kept, agent=judge), go, fails("", "BadRequest"))
    past = past.after(
        Ask(effect=StepCall(name="total", arguments=[1, BIG], identity="i6", recovery=Recovery.RETRY)), go
    )
    past = past.after(Recover(), go, ends("total", 6))
    own = ToolCall(tool="mail", message=0, arguments={"to": "x"}, identity="i7", id="own")
    past = past.after(Ask(effect=own), go, Recover())
    past = past.after(
        Resolve(effect=past.effect("mail").seq, verdict="occurred", outcome=Succeeded(value="sent"), actor="ann")
    )
    failed = past.after(Return(outcome=Failed(error="ValueError", text="no")), Unpause())
    patched = past.forked(first + 1, run="patched", tool_results=(ResultPatch(effect=first, call="", message=said),))
    other_way = past.forked(run="other", input=text, agent=judge, changed=("model",))
    return {
        "function": failed.after(Return(outcome=Succeeded(value={"total": 6}))),
        "function-patched": patched.after(Return(outcome=Succeeded(value=None))),
        "function-other": other_way,
    }


def says_to(past: Past, effect: int, text: str) -> Settle:
    """The model call ``effect`` is answered."""
    message = Message(role="assistant", parts=(Text(content=text),), finish_reason="stop")
    return Settle(effect=effect, attempt=1, outcome=Succeeded(message=message))


def lines(past: Past) -> list[dict[str, object]]:
    """A history as it is kept: each event's place, time, digest and exact bytes."""
    return [
        {
            "run": one.run,
            "seq": one.seq,
            "at_ms": one.at_ms,
            "digest": one.digest.hex(),
            "event": encode_event(one.event).decode(),
        }
        for one in past.events
    ]


def main(release: str) -> None:
    """Write the journals of a release that are not there yet, and their digests, into a folder of that name."""
    folder = HERE / release
    folder.mkdir(exist_ok=True)
    parent = everything()
    pasts = {"everything": parent} | forks(parent) | functions()
    kinds = {type(recorded.event) for past in pasts.values() for recorded in past.events}
    assert kinds == set(KINDS), f"not covered: {set(KINDS) - kinds}"
    kept = folder / "digests.json"
    digests = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    for name, past in pasts.items():
        if name in digests:
            continue
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines(past))
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
        digests[name] = {
            str(seq): state_digest(fold(past.events[:seq]))
            for seq in sorted({1, len(past.events) // 2, len(past.events)})
        }
    kept.write_text(json.dumps(digests, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
