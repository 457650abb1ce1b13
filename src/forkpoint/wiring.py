"""``connect``: the one place that chooses a store, a clock and a way to models."""

import os
import secrets as chance
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from forkpoint.adapters.otel import LiveSpans, provider_for
from forkpoint.adapters.provider_models import ProviderModel
from forkpoint.agents.agent import Agent
from forkpoint.agents.function import function_of
from forkpoint.errors import ModelNoProvider
from forkpoint.ports import Clock, Journal, Model
from forkpoint.runtime.arguments import one_of, unfit
from forkpoint.runtime.cell import Edge
from forkpoint.runtime.clock import SystemClock
from forkpoint.runtime.edges import Registry
from forkpoint.runtime.files import Workspaces
from forkpoint.runtime.performer import GRACE_S
from forkpoint.runtime.progress import Bulletin
from forkpoint.runtime.reading import Reader
from forkpoint.runtime.runtime import Runtime
from forkpoint.runtime.writing import PayloadCodec, Writer
from forkpoint.secrets import Secrets
from forkpoint.stores.choosing import open_store
from forkpoint.workspace.beside import RunFolders
from forkpoint.workspace.recorder import DEFAULT_KEEP_TURNS

LEASE_S = 30.0

_BESIDE = ("", "-wal", "-shm", "-journal", "-owners")
"""What a journal in a file consists of, by the endings of its path."""


def connect(
    store: str | Path | Journal,
    *,
    agents: Sequence[Agent] = (),
    functions: Sequence[Callable[..., Any]] = (),
    models: Callable[[str], Model] | Mapping[str, Model] | None = None,
    secrets: Mapping[str, str] | None = None,
    redact: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    codec: PayloadCodec | None = None,
    durability: Literal["full", "normal"] = "full",
    clock: Clock | None = None,
    lease_s: float = LEASE_S,
    grace_s: float = GRACE_S,
    files: str | Path | Workspaces | None = None,
    keep_turns: int | None = DEFAULT_KEEP_TURNS,
    otel: Any = None,
    otel_content: bool = False,
) -> Runtime:
    """A runtime on a store: ``async with connect("runs.db", agents=[agent]) as runtime``.

    ``store`` is a path, ``sqlite:PATH``, ``memory:``, or a ``Journal``. ``functions`` are those whose runs this process
    can resume and recover without ``record``. ``models`` finds a model by its name; left
    out, ``provider:model`` is asked of that provider, for which the extra ``models`` must be installed. ``secrets``
    are values by name that never reach the store. ``redact`` is given every event as plain data before it is
    written, and returns it without what must not be. ``codec`` changes bytes on their way to the store and back.
    ``durability`` ``full`` waits for the disk at every commit; ``normal`` may lose the last ones in a power cut,
    never in a crash of the process. ``lease_s`` is how long a performer that cannot be seen is waited for;
    ``grace_s`` how long a signalled call may take to end. ``files`` is the folder for the contents of workspaces
    (beside the journal if left out), ``keep_turns`` how many turns of them are kept. ``otel`` is true, or an
    OpenTelemetry provider of tracers, for every run that is performed here to be told in spans as it goes (the extra
    ``otel``); ``otel_content`` puts what was said into them as well.
    """
    one_of("durability", durability, ("full", "normal"))
    if not isinstance(agents, Sequence) or not all(isinstance(agent, Agent) for agent in agents):
        raise unfit("agents", agents, "a sequence of agents")
    if secrets is not None and not isinstance(secrets, Mapping):
        raise unfit("secrets", type(secrets).__name__, "a mapping of names to values")
    if not lease_s > 0 or not grace_s >= 0:
        raise unfit("lease_s and grace_s", (lease_s, grace_s), "seconds above 0, and of 0 or more")
    provider = provider_for(otel) if otel is not None and otel is not False else None
    journal = open_store(store, durability=durability) if isinstance(store, str | Path) else store
    known = Secrets(secrets)
    writer = Writer(secrets=known, redact=redact, codec=codec)
    reader = Reader(journal, writer)
    edge = Edge(
        journal=journal,
        reader=reader,
        writer=writer,
        clock=clock or SystemClock(),
        bulletin=Bulletin(),
        owner=getattr(journal, "owner", None) or f"p{os.getpid()}-{chance.token_hex(3)}",
        lease_ms=int(lease_s * 1000),
        observer=None if provider is None else LiveSpans(reader, provider, content=otel_content),
    )
    known_functions = tuple(function_of(function) for function in functions)
    registry = Registry(agents=tuple(agents), functions=known_functions, models=_finder(models), secrets=known)
    return Runtime(edge, registry, workspaces=_workspaces(journal, files, keep_turns), grace_s=grace_s)


def _workspaces(journal: Journal, files: str | Path | Workspaces | None, keep_turns: int | None) -> Workspaces:
    if files is not None and not isinstance(files, str | Path):
        return files
    beside = getattr(journal, "path", None)
    folder = Path(files) if files is not None else None if beside is None else Path(f"{beside}-files")
    own = () if beside is None else tuple(Path(f"{beside}{ending}") for ending in _BESIDE)
    return RunFolders(folder, own=own, keep_turns=keep_turns)


def _finder(models: Callable[[str], Model] | Mapping[str, Model] | None) -> Callable[[str], Model]:
    if models is None:
        return _by_provider()
    if callable(models):
        return models
    known = dict(models)

    def find(name: str) -> Model:
        if name not in known:
            raise ModelNoProvider(model=name)
        return known[name]

    return find


def _by_provider() -> Callable[[str], Model]:
    """Finds ``provider:model`` by asking the provider; one model a name, so that its connections are shared."""
    made: dict[str, Model] = {}

    def find(name: str) -> Model:
        provider, colon, model = name.partition(":")
        if not (provider and colon and model):
            raise ModelNoProvider(model=name)
        if name not in made:
            made[name] = ProviderModel(name)
        return made[name]

    return find
