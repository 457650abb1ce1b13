"""Commands that record a decision or a wish: no agent is needed, and nobody has to be performing."""

from enum import StrEnum
from typing import Annotated

import typer

from forkpoint.cli.options import AcceptChanges, Actor, AppName, AsJson, EffectName, Resume, RunName, Store
from forkpoint.cli.output import carry_out

PANEL = "Decide"

Reason = Annotated[str, typer.Option("--reason", help="Why; it is recorded.", show_default=False)]


class VerdictName(StrEnum):
    """What may be found out about an effect whose outcome is unknown."""

    OCCURRED = "occurred"
    NOT_OCCURRED = "not_occurred"
    ABANDONED_UNKNOWN = "abandoned_unknown"


def register(app: typer.Typer) -> None:
    """Add the commands that decide."""
    for command in (send, resolve, approve, deny, answer, pause, unpause, interrupt, stop):
        app.command(rich_help_panel=PANEL)(command)


def send(
    run: RunName,
    input: Annotated[str, typer.Argument(help="What to say; @FILE reads it from a file.", show_default=False)],
    *,
    key: Annotated[
        str | None, typer.Option(help="Sending the same again under this key changes nothing.", show_default=False)
    ] = None,
    resume: Resume = False,
    accept_changes: AcceptChanges = False,
    actor: Actor = None,
    store: Store = None,
    app: AppName = None,
    as_json: AsJson = False,
) -> None:
    """Give a run its next input. If the run is busy, the input waits its turn."""
    from forkpoint.cli.ask import ask
    from forkpoint.cli.typed import text_of

    said = text_of(input)
    work = ask(
        run,
        lambda one: one.send(said, key=key, actor=actor),
        "the input is recorded",
        store=store,
        app=app,
        resume=resume,
        accept_changes=accept_changes,
        as_json=as_json,
    )
    carry_out(work, as_json=as_json)


def resolve(
    run: RunName,
    effect: EffectName,
    verdict: Annotated[
        VerdictName,
        typer.Argument(
            metavar="VERDICT",
            help="What became of it: occurred, not_occurred or abandoned_unknown.",
            show_default=False,
        ),
    ],
    *,
    output: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="Its verified result, for 'occurred'; @FILE reads it.", show_default=False),
    ] = None,
    note: Annotated[
        str, typer.Option(help="What you know; the model is told, word for word.", show_default=False)
    ] = "",
    resume: Resume = False,
    accept_changes: AcceptChanges = False,
    actor: Actor = None,
    store: Store = None,
    app: AppName = None,
    as_json: AsJson = False,
) -> None:
    """Decide what became of an effect whose outcome nobody knows.

    'occurred': it did happen, and is not repeated. 'not_occurred': it did not; the agent may choose a new call.
    'abandoned_unknown': nobody will find out, and the model is told so. The same decision twice is one; a different
    second one is refused.
    """
    from forkpoint.cli.ask import ask
    from forkpoint.cli.typed import json_of

    given = {} if output is None else {"output": json_of(output, "--output")}
    work = ask(
        run,
        lambda one: one.resolve(effect, verdict.value, note=note, actor=actor, **given),
        f"effect {effect} is resolved as {verdict.value.replace('_', ' ')}",
        store=store,
        app=app,
        resume=resume,
        accept_changes=accept_changes,
        as_json=as_json,
    )
    carry_out(work, as_json=as_json)


def approve(
    run: RunName,
    effect: EffectName,
    *,
    arguments: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="Other arguments to run it with; @FILE reads them.", show_default=False),
    ] = None,
    digest: Annotated[
        str | None, typer.Option(help="The call as you saw it ('forkpoint waits --json').", show_default=False)
    ] = None,
    resume: Resume = False,
    accept_changes: AcceptChanges = False,
    actor: Actor = None,
    store: Store = None,
    app: AppName = None,
    as_json: AsJson = False,
) -> None:
    """Allow a call that waits for approval, as it is or with other arguments."""
    from forkpoint.cli.ask import ask
    from forkpoint.cli.typed import json_of

    given = {} if arguments is None else {"arguments": json_of(arguments, "--arguments")}
    work = ask(
        run,
        lambda one: one.approve(effect, digest=digest, actor=actor, **given),
        f"effect {effect} is allowed{' with other arguments' if given else ''}",
        store=store,
        app=app,
        resume=resume,
        accept_changes=accept_changes,
        as_json=as_json,
    )
    carry_out(work, as_json=as_json)


def deny(
    run: RunName,
    effect: EffectName,
    reason: Annotated[str, typer.Argument(help="Why; the model is told.", show_default=False)] = "",
    *,
    digest: Annotated[
        str | None, typer.Option(help="The call as you saw it ('forkpoint waits --json').", show_default=False)
    ] = None,
    resume: Resume = False,
    accept_changes: AcceptChanges = False,
    actor: Actor = None,
    store: Store = None,
    app: AppName = None,
    as_json: AsJson = False,
) -> None:
    """Forbid a call that waits for approval."""
    from forkpoint.cli.ask import ask

    work = ask(
        run,
        lambda one: one.deny(effect, reason, digest=digest, actor=actor),
        f"effect {effect} is denied",
        store=store,
        app=app,
        resume=resume,
        accept_changes=accept_changes,
        as_json=as_json,
    )
    carry_out(work, as_json=as_json)


def answer(
    run: RunName,
    effect: EffectName,
    value: Annotated[
        str, typer.Argument(metavar="JSON", help="The result: a JSON value, or @FILE.", show_default=False)
    ],
    *,
    resume: Resume = False,
    accept_changes: AcceptChanges = False,
    actor: Actor = None,
    store: Store = None,
    app: AppName = None,
    as_json: AsJson = False,
) -> None:
    """Give the result of a call that is answered from outside. It is checked against the tool's result type."""
    from forkpoint.cli.ask import ask
    from forkpoint.cli.typed import json_of

    given = json_of(value, "The answer")
    work = ask(
        run,
        lambda one: one.answer(effect, given, actor=actor),
        f"effect {effect} is answered",
        store=store,
        app=app,
        resume=resume,
        accept_changes=accept_changes,
        as_json=as_json,
    )
    carry_out(work, as_json=as_json)


def pause(
    run: RunName,
    *,
    reason: Reason = "",
    actor: Actor = None,
    store: Store = None,
    app: AppName = None,
    as_json: AsJson = False,
) -> None:
    """Have a run do nothing more until 'unpause'; what is in flight ends and is recorded."""
    from forkpoint.cli.ask import ask

    work = ask(run, lambda one: one.pause(reason, actor=actor), "paused", store=store, app=app, as_json=as_json)
    carry_out(work, as_json=as_json)


def unpause(
    run: RunName,
    *,
    steps: Annotated[int | None, typer.Option(min=1, help="A new limit of steps.", show_default=False)] = None,
    tokens: Annotated[int | None, typer.Option(min=1, help="A new limit of tokens.", show_default=False)] = None,
    cost: Annotated[float | None, typer.Option(help="A new limit of cost, in dollars.", show_default=False)] = None,
    seconds: Annotated[float | None, typer.Option(help="A new limit of seconds a turn.", show_default=False)] = None,
    resume: Resume = False,
    accept_changes: AcceptChanges = False,
    actor: Actor = None,
    store: Store = None,
    app: AppName = None,
    as_json: AsJson = False,
) -> None:
    """Let a run go on after a pause or a reached limit; the limit counts anew, or is replaced."""
    from forkpoint.cli.ask import ask
    from forkpoint.definition import Limits

    given = {"steps": steps, "tokens": tokens, "cost": cost, "seconds": seconds}
    limits = Limits(**given) if any(one is not None for one in given.values()) else None  # type: ignore[arg-type]
    work = ask(
        run,
        lambda one: one.unpause(limits=limits, actor=actor),
        "unpaused",
        store=store,
        app=app,
        resume=resume,
        accept_changes=accept_changes,
        as_json=as_json,
    )
    carry_out(work, as_json=as_json)


def interrupt(
    run: RunName,
    *,
    reason: Reason = "",
    actor: Actor = None,
    store: Store = None,
    app: AppName = None,
    as_json: AsJson = False,
) -> None:
    """Call the turn off: what is in flight is signalled, what was not tried is cancelled."""
    from forkpoint.cli.ask import ask

    work = ask(
        run, lambda one: one.interrupt(reason, actor=actor), "interrupted", store=store, app=app, as_json=as_json
    )
    carry_out(work, as_json=as_json)


def stop(
    run: RunName,
    *,
    reason: Reason = "",
    actor: Actor = None,
    store: Store = None,
    app: AppName = None,
    as_json: AsJson = False,
) -> None:
    """End a run for good. It can still be read, compared and forked."""
    from forkpoint.cli.ask import ask

    work = ask(run, lambda one: one.stop(reason, actor=actor), "stopped", store=store, app=app, as_json=as_json)
    carry_out(work, as_json=as_json)
