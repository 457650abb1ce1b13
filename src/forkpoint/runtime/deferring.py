"""Events believed before they are on record: what may be asked for again waits for the commit that comes next."""

from msgspec import Struct

from forkpoint.commands import AnyCommand
from forkpoint.ports import Lease
from forkpoint.runtime.writing import Draft
from forkpoint.state import RunState

DEFER_MS = 5
"""How long what is deferred waits at most for a commit to go with."""

DEFERRED_MS = 20
"""How much older what is deferred may be than what it goes on record with: one commit has one time."""


class Deferred(Struct, frozen=True, kw_only=True):
    """What a run's state here is ahead of its record by: commands, their draft, and where the run stood before them."""

    commands: tuple[AnyCommand, ...]
    draft: Draft
    state: RunState
    digest: bytes
    lease: Lease


class MovedError(Exception):
    """Events that a command names have other numbers than when it was made. Never leaves the runtime."""
