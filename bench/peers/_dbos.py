"""What the DBOS peers share: DBOS on SQLite with its durability set, and runs held still in the middle."""

import threading
from pathlib import Path
from typing import Any

from dbos import DBOS, DBOSClient, DBOSConfig
from sqlalchemy import Engine, event

from bench.cost import measured
from bench.peers import SYNCHRONOUS, Durability

DURABILITY_SET_BY = "PRAGMA journal_mode=WAL and synchronous in SQLAlchemy's connect event, set before launch()"
RUN_ID = "run"


def configure(folder: Path, durability: Durability) -> None:
    """Make the process's one DBOS, on a database in `folder`. DBOS itself would keep a rollback journal."""

    @event.listens_for(Engine, "connect")
    def set_durability(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")

    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": f"sqlite:///{folder / 'dbos.db'}",
        "log_level": "ERROR",
        "application_version": "bench",
        "executor_id": "bench",
    }
    DBOS(config=config)


class Hold:
    """Holds a run still: `reached` is set, and the run goes no further until the process ends.

    With `at_tool` it holds when the tool of that step is asked for, so that the step's call is on record and
    its result is not. Without, it holds once one step was done in this process: when the model is asked again
    after a tool was, for only then is that tool's result on record.
    """

    def __init__(self, *, at_tool: int | None = None) -> None:
        self._at_tool = at_tool
        self._one_done = False
        self.reached = threading.Event()

    def model_asked(self) -> None:
        """The scripted model was asked for a response."""
        if self._one_done and self._at_tool is None:
            self._stop()

    def tool_asked(self, number: int) -> None:
        """The tool was asked for step `number`."""
        self._one_done = True
        if number == self._at_tool:
            self._stop()

    def _stop(self) -> None:
        self.reached.set()
        threading.Event().wait()


def recovered() -> str:
    """Wait until the crashed run has ended, and say what DBOS says of it."""
    found = DBOS.retrieve_workflow(RUN_ID)
    found.get_result()
    return f"status {found.get_status().status}: launch() recovered the run and ran the unrecorded step again"


def state_half(folder: Path, steps: int) -> float:
    """Read the recorded outputs of the first half of a run: the nearest to a state that DBOS keeps."""
    # A client, not a launch: a launch would recover the run.
    with measured() as cost:
        found = _client(folder).list_workflow_steps(RUN_ID, limit=steps)
    assert [step["output"] is not None for step in found] == [True] * steps
    return cost.wall_ms


def history(folder: Path, steps: int) -> float:
    """List all steps of a run without their outputs."""
    with measured() as cost:
        found = _client(folder).list_workflow_steps(RUN_ID, load_output=False)
    assert len(found) >= 2 * steps
    return cost.wall_ms


def _client(folder: Path) -> DBOSClient:
    return DBOSClient(system_database_url=f"sqlite:///{folder / 'dbos.db'}")
