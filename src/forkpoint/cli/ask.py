"""The work of the commands that decide: record it, tell where the run stands, and perform it if that is asked."""

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any

from forkpoint.cli.live import performed
from forkpoint.cli.opening import full_id, runtime_for
from forkpoint.cli.output import Told

if TYPE_CHECKING:
    from forkpoint.runtime.run import Run


async def ask(
    given: str,
    what: "Callable[[Run], Awaitable[None]]",
    words: str,
    *,
    store: str | None,
    app: str | None,
    resume: bool = False,
    accept_changes: bool = False,
    as_json: bool,
) -> Told:
    """Do ``what`` to the run that ``given`` names; with ``resume``, perform it then."""
    async with runtime_for(store, app=app, agents=resume) as runtime:
        run = await runtime.open(await full_id(runtime.edge.journal, given))
        await what(run)
        if resume:
            await run.resume(accept_changes=accept_changes)
            return await performed(run, as_json=as_json)
        return await recorded(run, words)


async def recorded(run: "Run", words: str) -> Told:
    """That something was recorded, where the run stands now, and whether anybody acts on it."""
    from forkpoint.cli.rows import owned

    row = await run.row()
    told = row.summary
    document = {
        "run": run.id,
        "recorded": words,
        "status": told.status,
        "seq": row.head,
        "due": told.due,
        "owned": owned(row),
        "waits": told.waits,
    }

    def view(terminal: bool) -> Iterator[Any]:
        from forkpoint.cli.render_outcome import recorded_line

        said = f"{words}; the run is {told.status}"
        yield from recorded_line(run.id, said, owned=owned(row), due=told.due)

    return Told(document=document, view=view)
