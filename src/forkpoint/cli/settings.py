"""Which store and which agents are meant: options first, then the environment, then what is found upward."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from forkpoint.errors import AppNotFound, AppUnfit, StoreMissing

STORE_VARIABLE = "FORKPOINT_STORE"
PLACE = Path(".forkpoint") / "runs.db"


class StoreChoice(Struct, frozen=True):
    """A store's name, and in words why it is this one."""

    name: str
    chosen: str

    @property
    def path(self) -> Path | None:
        """Its file; ``None`` for one that is in memory."""
        return None if self.name == "memory:" else Path(self.name.removeprefix("sqlite:"))

    @property
    def exists(self) -> bool:
        """Whether there is something at its place."""
        return self.path is None or self.path.exists()

    def required(self) -> "StoreChoice":
        """This choice, if it is there. Raises ``store.missing``."""
        if not self.exists:
            raise StoreMissing(path=self.name, chosen=self.chosen)
        return self


class AppChoice(Struct, frozen=True):
    """Where the agents are: ``module:name``, the folder to import it from, and in words why it is this one."""

    name: str
    folder: Path
    chosen: str


def choose_store(given: str | None, *, environment: Mapping[str, str], folder: Path) -> StoreChoice:
    """``--store``, else ``FORKPOINT_STORE``, else ``.forkpoint/runs.db`` in ``folder`` or the nearest one above it.

    Where none is found, it is the one that would be made in ``folder``.
    """
    if given:
        return StoreChoice(given, "from --store")
    if environment.get(STORE_VARIABLE):
        return StoreChoice(environment[STORE_VARIABLE], f"from {STORE_VARIABLE}")
    for place in (folder, *folder.parents):
        if (place / PLACE).is_file():
            return StoreChoice(str(place / PLACE), f"found in {place}")
    return StoreChoice(str(folder / PLACE), f"no {PLACE} was found in {folder} or above it")


def choose_app(given: str | None, *, folder: Path) -> AppChoice | None:
    """``--app``, else ``app`` under ``[tool.forkpoint]`` in the nearest ``pyproject.toml``; ``None`` for neither."""
    if given:
        return AppChoice(given, folder, "from --app")
    for place in (folder, *folder.parents):
        file = place / "pyproject.toml"
        if file.is_file():
            name = _app_of(file)
            return None if name is None else AppChoice(name, place, f"from {file}")
    return None


def _app_of(file: Path) -> str | None:
    try:
        document = tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise AppNotFound(app="", chosen=f"from {file}", detail=str(error)) from error
    name = document.get("tool", {}).get("forkpoint", {}).get("app")
    if name is not None and not isinstance(name, str):
        raise AppUnfit(app=f"tool.forkpoint.app in {file}", found=f"a {type(name).__name__}")
    return name
