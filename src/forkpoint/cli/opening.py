"""Stores opened the way a command needs them: to look, to ask, or to perform."""

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from forkpoint.cli.settings import AppChoice, StoreChoice, choose_app, choose_store
from forkpoint.errors import AppMissing, BadRunId, RunAmbiguous, RunNotFound
from forkpoint.ids import Address, check_run_id, parse_where

if TYPE_CHECKING:
    from forkpoint.apps import App
    from forkpoint.ports import Journal, RunRow
    from forkpoint.runtime.files import Workspaces
    from forkpoint.runtime.reading import Reader
    from forkpoint.runtime.runtime import Runtime
    from forkpoint.runtime.writing import PayloadCodec
    from forkpoint.workspace.port import Workspace

SHOWN_CANDIDATES = 6
"""How many runs an ambiguous beginning of an id names."""

MOST_CANDIDATES = 200
"""How many runs may share a beginning before it is taken to be ambiguous unseen."""


def now_ms() -> int:
    """Milliseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000_000


def chosen_store(given: str | None) -> StoreChoice:
    """The store that is meant here and now."""
    return choose_store(given, environment=os.environ, folder=Path.cwd())


def chosen_app(given: str | None) -> AppChoice | None:
    """The agents that are meant here and now, if any."""
    return choose_app(given, folder=Path.cwd())


def loaded_app(choice: AppChoice | None) -> "App":
    """The app of ``choice``; one without agents where there is none."""
    from forkpoint.apps import App, load_app

    return App() if choice is None else load_app(choice.name, folder=choice.folder, chosen=choice.chosen)


class Shelf:
    """A store opened for reading: nothing is performed, no agent is loaded."""

    def __init__(self, journal: "Journal", choice: StoreChoice, codec: "PayloadCodec | None") -> None:
        self.journal = journal
        self.choice = choice
        self._codec = codec
        self._folders: Workspaces | None = None

    @cached_property
    def reader(self) -> "Reader":
        """What reads histories and states; a list of runs needs none, and is quicker for not loading it."""
        from forkpoint.runtime.reading import Reader
        from forkpoint.runtime.writing import Writer

        return Reader(self.journal, Writer(codec=self._codec))

    def files_of(self, run: str, root: str) -> "Workspace":
        """What is stored of a run's workspace. Raises the ``snapshot.store-*`` errors."""
        from forkpoint.wiring import connect

        if self._folders is None:
            self._folders = connect(self.journal).workspaces
        return self._folders.stored(run, root)

    def close_files(self) -> None:
        """Let go of the contents of workspaces, if they were looked at."""
        if self._folders is not None:
            self._folders.close()

    async def row(self, given: str) -> "RunRow":
        """The row of the run that an id, or the beginning of just one, names."""
        run = await full_id(self.journal, given)
        row = await self.journal.row(run)
        if row is None:
            raise RunNotFound(run=run)
        return row

    async def address(self, given: str) -> Address:
        """``RUN`` or ``RUN@AT`` with the whole id in place of its beginning."""
        return await full_address(self.journal, given)


@asynccontextmanager
async def reading(store: str | None, *, app: str | None = None) -> AsyncIterator[Shelf]:
    """The chosen store, opened for reading only; it must be there.

    ``app`` is loaded only if it is given: a store whose payloads were encoded is read with its codec.
    """
    from forkpoint.stores.choosing import open_store

    choice = chosen_store(store).required()
    codec = loaded_app(chosen_app(app)).codec if app else None
    journal = open_store(choice.name, read_only=True)
    shelf = Shelf(journal, choice, codec)
    try:
        yield shelf
    finally:
        shelf.close_files()
        await journal.close()


@asynccontextmanager
async def runtime_for(
    store: str | None, *, app: str | None, agents: bool = False, create: bool = False, read_only: bool = False
) -> AsyncIterator["Runtime"]:
    """The chosen store with what the chosen app offers.

    ``agents`` says that some are needed (raises ``app.missing``), ``create`` that the store may be made.
    What is written passes the app's secrets and hooks also where nothing is performed.
    """
    from forkpoint.stores.choosing import open_store
    from forkpoint.wiring import connect

    choice = chosen_store(store) if create else chosen_store(store).required()
    wanted = chosen_app(app) if app or not read_only else None
    if agents and wanted is None:
        raise AppMissing()
    loaded = loaded_app(wanted)
    runtime = connect(
        open_store(choice.name, read_only=read_only),
        agents=loaded.agents,
        functions=loaded.functions,
        models=loaded.models,
        secrets=loaded.secrets,
        redact=loaded.redact,
        codec=loaded.codec,
    )
    async with runtime:
        yield runtime


async def full_id(journal: "Journal", given: str) -> str:
    """The id that ``given`` is, or is the beginning of; forks that were named after their parent aside.

    Raises ``run.not-found`` or ``run.ambiguous``.
    """
    from forkpoint.ports import RunFilter

    beginning = _check_beginning(given)
    if not given.endswith("."):
        row = await journal.row(beginning)
        if row is not None and not row.deleted:
            return row.run
    page = await journal.rows(RunFilter(prefix=given), limit=MOST_CANDIDATES)
    if not page.rows:
        raise RunNotFound(run=given)
    names = sorted((row.run for row in page.rows), key=lambda name: (len(name), name))
    if page.next is None and all(name.startswith(f"{names[0]}.fork-") for name in names[1:]):
        return names[0]
    more = " and others" if len(names) > SHOWN_CANDIDATES else ""
    raise RunAmbiguous(given=given, runs=", ".join(names[:SHOWN_CANDIDATES]) + more)


def _check_beginning(given: str) -> str:
    try:
        return check_run_id(given.rstrip("."))
    except BadRunId:
        raise BadRunId(given=repr(given)[:200]) from None


async def full_address(journal: "Journal", given: str) -> Address:
    """``RUN`` or ``RUN@AT`` with the whole id. Raises as ``full_id`` does, and ``fork.bad-address``."""
    run, at, place = given.partition("@")
    where = parse_where(place) if at else None
    return Address(await full_id(journal, run), where)
