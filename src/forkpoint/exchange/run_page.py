"""A run as one self-contained page: its steps, its events, a link to each. No script; everything is escaped. Pure."""

import datetime
from collections.abc import Iterable, Sequence

import msgspec

from forkpoint.events import EffectRequested, EffectResolved, EffectSettled, Event, RecordedEvent
from forkpoint.messages import Message
from forkpoint.timetravel.pages import page, step_html, text
from forkpoint.timetravel.rendering import side_text, value_text
from forkpoint.timetravel.trajectory import Call, Step, Trajectory, trajectory


def run_page(history: Sequence[RecordedEvent]) -> bytes:
    """The page of a whole history, as the bytes of a file. Its parts are ``#s3`` (step 3) and ``#e12`` (event 12)."""
    told = trajectory(history)
    name = told.run or ""
    body = [
        f"<h1>{text(name)}</h1>",
        f"<p>{text(side_text(told))}</p>",
        f"<p class=dim>Forked from {text(str(told.parent))}.</p>" if told.parent else "",
        _endings(told),
        "<h2>Steps</h2>",
        *(_step(step) for step in told.steps),
        *_heard(told.after),
        "<h2>Events</h2>",
        "<table><tr><th>seq</th><th>what</th><th>time (UTC)</th><th>about</th></tr>",
        *(_event(recorded) for recorded in history),
        "</table>",
    ]
    return page(name, "\n".join(line for line in body if line)).encode()


def _endings(told: Trajectory) -> str:
    """Links to every call that did not simply succeed."""
    links = [
        f'<li><a href="#s{step.number}">step {step.number}</a> {text(call.name)}: {text(_ended(call))}</li>'
        for step in told.steps
        for call in step.calls
        if call.status != "succeeded"
    ]
    if not links:
        return ""
    return f"<h2>{len(links)} calls did not succeed</h2><ul>{''.join(links)}</ul>"


def _ended(call: Call) -> str:
    return call.status if call.error in (None, call.status) else f"{call.status}: {call.error}"


def _step(step: Step) -> str:
    facts = [f"turn {step.turn}"]
    if step.model:
        facts.append(step.model)
    if step.usage is not None:
        facts.append(f"{step.usage.input_tokens} in, {step.usage.output_tokens} out")
    if step.ms is not None:
        facts.append(f"{step.ms} ms")
    at = f' <a href="#e{step.seq}">event {step.seq}</a>' if step.seq else ""
    thought = (
        f"<details><summary>reasoning</summary><pre>{text(step.reasoning)}</pre></details>" if step.reasoning else ""
    )
    said = "".join(_heard(step.heard))
    return (
        f'{said}<div class="step" id="s{step.number}"><div class=dim>{text(", ".join(facts))}{at}</div>'
        f"{thought}{step_html(step)}</div>"
    )


def _heard(messages: Iterable[Message]) -> list[str]:
    return [f"<div class=step><b>{text(one.role)}</b><pre>{text(_said(one))}</pre></div>" for one in messages]


def _said(message: Message) -> str:
    others = [part for part in message.parts if part.__struct_config__.tag != "text"]
    return "\n".join([message.text, *(value_text(msgspec.to_builtins(part)) for part in others)]).strip()


def _event(recorded: RecordedEvent) -> str:
    event, seq = recorded.event, recorded.seq
    at = datetime.datetime.fromtimestamp(recorded.at_ms / 1000, datetime.UTC).isoformat(timespec="milliseconds")
    return (
        f'<tr id="e{seq}"><td><a href="#e{seq}">{seq}</a></td><td>{text(type(event).__name__)}</td>'
        f"<td>{text(at.removesuffix('+00:00'))}</td><td>{_about(event)}</td></tr>"
    )


def _about(event: Event) -> str:
    match event:
        case EffectRequested():
            return text(getattr(event.effect, "tool", None) or type(event.effect).__name__)
        case EffectSettled():
            return f'<a href="#e{event.effect}">effect {event.effect}</a> {text(type(event.outcome).__name__)}'
        case EffectResolved():
            return f'<a href="#e{event.effect}">effect {event.effect}</a> {text(event.finding)}'
        case _:
            effect = getattr(event, "effect", None)
            return f'<a href="#e{effect}">effect {effect}</a>' if isinstance(effect, int) else ""
