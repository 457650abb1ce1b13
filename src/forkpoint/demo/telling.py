"""How the demo tells its story: to a person as it happens, and as plain data when it is over."""

import sys
import textwrap
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field, to_builtins

from forkpoint.errors import DemoDiffers

if TYPE_CHECKING:
    from rich.console import Console

COLUMNS = 100
"""How wide a paragraph gets, however wide the terminal is."""

_PARAGRAPH = partial(
    # A path that is cut is a path that cannot be copied.
    textwrap.TextWrapper,
    initial_indent="   ",
    subsequent_indent="   ",
    break_long_words=False,
    break_on_hyphens=False,
)


class Scene(Struct, kw_only=True):
    """One scene of the story: what it is about, what was typed, what that printed, and what was checked after it.

    ``status`` is the exit status, negative for the number of the signal that ended it.
    """

    title: str
    command: str = ""
    status: int | None = None
    output: str = ""
    checked: list[str] = field(default_factory=list)


class Account(Struct, kw_only=True):
    """What the demo did. ``commands`` were typed and work again after ``enter`` is typed; so do those in ``more``."""

    folder: str
    enter: str
    took_ms: int = 0
    scenes: list[Scene] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    more: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The account as plain data."""
        plain: dict[str, Any] = to_builtins(self)
        return plain


class Telling:
    """Tells the story on ``console`` (nowhere, if there is none) and keeps the account of it.

    ``pause`` waits for the Enter key before each command, for somebody who presents it.
    """

    def __init__(self, account: Account, console: "Console | None", *, pause: bool) -> None:
        self.account = account
        self._console = console
        self._pause = pause and sys.stdin.isatty()

    @property
    def on_terminal(self) -> bool:
        """Whether commands can write to the reader's own terminal."""
        return self._console is not None and self._console.is_terminal and self._console.file is sys.stdout

    def say(self, text: str, style: str = "") -> None:
        """A line for people only."""
        if self._console is not None:
            self._console.print(text, style=style, soft_wrap=True)

    def explain(self, words: str) -> None:
        """A paragraph for people only, as wide as is pleasant to read."""
        if self._console is not None and words:
            width = min(self._console.width - 1, COLUMNS)
            self.say(_PARAGRAPH(width).fill(words))

    def begin(self, title: str, words: str = "") -> None:
        """Begin a scene: what it is about, and what to know for it."""
        self.account.scenes.append(Scene(title=title))
        self.say("")
        self.say(f"{len(self.account.scenes)}. {title}", "bold")
        self.explain(words)

    def typed(self, command: str) -> None:
        """What is typed now."""
        self.account.scenes[-1].command = command
        if self._pause:
            with suppress(EOFError):
                input("   (Enter) ")
        self.say("")
        self.say(f"   $ {command}", "cyan")

    def ended(self, status: int, output: str) -> None:
        """How what was typed ended, and what it printed, unless it printed that on the terminal itself."""
        scene = self.account.scenes[-1]
        scene.status, scene.output = status, output
        if status < 0 and self.on_terminal and self._console is not None:
            # Whoever is killed leaves the cursor as it was while it worked: hidden, in the middle of a line.
            self._console.show_cursor(True)
            self.say("")
        for line in output.splitlines():
            self.say(f"   {line}".rstrip())
        self.say("")

    def check(self, claim: str, found: object, expected: object) -> None:
        """Tell ``claim``, which holds if the two are equal. Raises ``demo.differs`` if they are not."""
        if found != expected:
            raise DemoDiffers(
                claim=claim, found=repr(found)[:300], expected=repr(expected)[:300], folder=self.account.folder
            )
        self.account.scenes[-1].checked.append(claim)
        self.say(f"   ✓ {claim}", "green")
