"""Names of runs and places in them: run ids, effect ids, fork points and the addresses people type."""

import re
from typing import NewType, TypeAlias

from msgspec import Struct

from forkpoint.errors import BadAddress, BadRunId

RunId = NewType("RunId", str)
"""The name of a run: letters, digits, ``.``, ``_`` and ``-``, at most 128 of them."""

EffectId = NewType("EffectId", int)
"""An effect is named by the ``seq`` of the event that requested it."""

_NUMBER = re.compile(r"[0-9]{1,18}\Z")
_RUN_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9_-])?\Z")


class ForkPoint(Struct, frozen=True):
    """An event of a run, as a place to stand: ``run@seq``."""

    run: str
    seq: int

    def __str__(self) -> str:
        return f"{self.run}@{self.seq}"


class AtSeq(Struct, frozen=True):
    """Right after the event ``seq``."""

    seq: int

    def __str__(self) -> str:
        return str(self.seq)


class AtStep(Struct, frozen=True):
    """After step ``step``: the last event before the model is asked again, or the turn rests."""

    step: int

    def __str__(self) -> str:
        return f"step:{self.step}"


class AtTurn(Struct, frozen=True):
    """At the end of turn ``turn``."""

    turn: int

    def __str__(self) -> str:
        return f"turn:{self.turn}"


class BeforeCall(Struct, frozen=True):
    """Where ``call`` was asked for and not yet answered: a provider's call id, or an effect id in digits."""

    call: str

    def __str__(self) -> str:
        return f"before:{self.call}"


Where: TypeAlias = AtSeq | AtStep | AtTurn | BeforeCall


class Address(Struct, frozen=True):
    """A run, and a moment of it if one was given: ``RUN``, ``RUN@12``, ``RUN@step:3``."""

    run: str
    where: Where | None = None

    def __str__(self) -> str:
        return self.run if self.where is None else f"{self.run}@{self.where}"


def check_run_id(text: object) -> RunId:
    """``text`` as a run id. Raises ``run.bad-id`` for anything else, whatever its type."""
    if isinstance(text, str) and _RUN_ID.match(text):
        return RunId(text)
    raise BadRunId(given=repr(text)[:200])


def parse_address(text: str) -> Address:
    """What ``RUN``, ``RUN@12``, ``RUN@step:3``, ``RUN@turn:2`` or ``RUN@before:CALL`` names.

    Raises ``run.bad-id`` or ``fork.bad-address``.
    """
    run, at, place = text.partition("@")
    return Address(check_run_id(run), parse_where(place) if at else None)


def parse_where(text: str) -> Where:
    """The moment that ``12``, ``step:3``, ``turn:2`` or ``before:CALL`` names. Raises ``fork.bad-address``."""
    kind, colon, value = text.partition(":")
    if not colon and _NUMBER.match(kind):
        return AtSeq(int(kind))
    if kind == "before" and value:
        return BeforeCall(value)
    if kind in ("step", "turn") and _NUMBER.match(value):
        return AtStep(int(value)) if kind == "step" else AtTurn(int(value))
    raise BadAddress(given=text[:200])


def fork_name(run: str, n: int) -> RunId:
    """The default id of the ``n``-th fork of ``run``: ``<run>.fork-<n>``, kept within 128 characters."""
    suffix = f".fork-{n}"
    return RunId(run[: 128 - len(suffix)].rstrip(".") + suffix)
