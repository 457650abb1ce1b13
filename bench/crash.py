"""`python -m bench --crash`: die between a tool's effect and its record, then recover, and count."""

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.effect import FATAL_STEP, happened
from bench.measure import ChildFailedError, Tell, ask
from bench.peers import Listed, listed


@dataclass(frozen=True, slots=True, kw_only=True)
class Crashed:
    """What became of one peer's lost call: how often its effect happened, and what the peer says of it.

    `times` is None when the peer was left out or failed; `says` then tells why.
    """

    peer: str
    times: int | None
    says: str

    def flat(self) -> dict[str, object]:
        """The row for `--json`."""
        return asdict(self)


def crashes(peers: Sequence[str], tell: Tell) -> tuple[Crashed, ...]:
    """Crash and recover every peer named; `tell` is given a line before each."""
    return tuple(_crashed(listed(name), tell) for name in peers)


def told(found: Sequence[Crashed]) -> str:
    """The findings as text, a paragraph a peer."""
    head = "SIGKILL after the tool's effect and before its record, then recovery by the peer's own means"
    lines = [f"{one.peer}: {_times(one.times)}\n    {one.says}" for one in found]
    return "\n".join([head, "", *lines])


def _times(times: int | None) -> str:
    if times is None:
        return "not tried"
    return f"the effect happened {'once' if times == 1 else f'{times} times'}"


def _crashed(peer: Listed, tell: Tell) -> Crashed:
    if missing := peer.missing():
        return Crashed(peer=peer.name, times=None, says=f"left out, {missing}")
    tell(f"{peer.name}, crash and recovery")
    with tempfile.TemporaryDirectory(prefix="forkpoint-bench-") as place:
        folder = Path(place) / "store"
        folder.mkdir()
        witness = Path(place) / "witness.txt"
        try:
            ask(peer, "crash", str(folder), killed=True, witness=str(witness))
            says = ask(peer, "recover", str(folder), witness=str(witness))["says"]
        except ChildFailedError as error:
            return Crashed(peer=peer.name, times=happened(FATAL_STEP, witness), says=f"failed, {error}")
        return Crashed(peer=peer.name, times=happened(FATAL_STEP, witness), says=says)
