"""Live notices to whoever watches in this process: never recorded, never trusted, dropped when nobody keeps up."""

from collections import deque
from collections.abc import Callable

from msgspec import Struct

from forkpoint.secrets import Secrets, StreamMask

KEEP = 1024
"""How many notices a watcher that does not look may fall behind before the oldest are dropped."""


class Progress(Struct, frozen=True, kw_only=True):
    """A piece of an answer or of a tool's report, while effect ``effect`` of ``run`` is being performed."""

    run: str
    effect: int
    text: str = ""
    reasoning: str = ""
    tool: str = ""


class Telling:
    """One effect's notices on their way to whoever watches: a secret shows in none, nor in several put together.

    What may be the beginning of a secret is held back until more comes, or ``end``.
    """

    __slots__ = ("_effect", "_masks", "_report", "_run", "_secrets", "_tool")

    def __init__(
        self, report: Callable[[Progress], None], secrets: Secrets | None, *, run: str, effect: int, tool: str = ""
    ) -> None:
        self._report = report
        self._secrets = secrets
        self._run = run
        self._effect = effect
        self._tool = tool
        self._masks: tuple[StreamMask, StreamMask] | None = None

    def tell(self, text: str, reasoning: str = "") -> None:
        """The next piece."""
        if self._secrets is not None:
            if self._masks is None:
                self._masks = (self._secrets.stream(), self._secrets.stream())
            text, reasoning = self._masks[0].feed(text), self._masks[1].feed(reasoning)
        self._send(text, reasoning)

    def end(self) -> None:
        """Nothing more will come."""
        if self._masks is not None:
            self._send(self._masks[0].flush(), self._masks[1].flush())

    def _send(self, text: str, reasoning: str) -> None:
        if text or reasoning:
            self._report(Progress(run=self._run, effect=self._effect, text=text, reasoning=reasoning, tool=self._tool))


class Inbox:
    """What one watcher has not looked at yet: notices, and whether the run's journal grew."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.notices: deque[Progress] = deque(maxlen=KEEP)
        self._wake = wake

    def put(self, notice: Progress | None) -> None:
        """A notice, or ``None`` for news in the journal."""
        if notice is not None:
            self.notices.append(notice)
        self._wake()


class Bulletin:
    """Hands notices of one process's runs to its watchers."""

    def __init__(self) -> None:
        self._inboxes: dict[str, set[Inbox]] = {}

    def join(self, run: str, inbox: Inbox) -> Callable[[], None]:
        """Let ``inbox`` have what concerns ``run`` until what is returned is called."""
        self._inboxes.setdefault(run, set()).add(inbox)
        return lambda: self._leave(run, inbox)

    def _leave(self, run: str, inbox: Inbox) -> None:
        inboxes = self._inboxes.get(run, set())
        inboxes.discard(inbox)
        if not inboxes:
            self._inboxes.pop(run, None)

    def watched(self, run: str) -> bool:
        """Whether anybody here watches ``run``."""
        return run in self._inboxes

    def post(self, run: str, notice: Progress | None = None) -> None:
        """Hand out ``notice``, or the news that the journal of ``run`` grew."""
        for inbox in tuple(self._inboxes.get(run, ())):
            inbox.put(notice)
