"""Which events of a run are listed. Pure."""

import msgspec
from msgspec import Struct

from forkpoint.cli.phrases import Phrase, kind_of
from forkpoint.codec import encode_event
from forkpoint.errors import CommandUnfit
from forkpoint.events import KINDS, RecordedEvent


class EventFilter(Struct, frozen=True, kw_only=True):
    """Which events to list. What is left out does not restrict. Raises ``cli.unfit`` for a kind that is none."""

    kinds: tuple[str, ...] = ()
    status: str | None = None
    text: str | None = None

    def __post_init__(self) -> None:
        known = [str(kind.__struct_config__.tag) for kind in KINDS]
        for kind in self.kinds:
            if kind not in known:
                raise CommandUnfit(detail=f"--kind {kind} is none of {', '.join(sorted(known))}")

    @property
    def restricts(self) -> bool:
        """Whether it leaves out anything."""
        return bool(self.kinds or self.status or self.text)

    def takes(self, recorded: RecordedEvent, told: Phrase) -> bool:
        """Whether an event is one of those wanted."""
        if self.kinds and kind_of(recorded.event) not in self.kinds:
            return False
        if self.status is not None and told.status != self.status.replace(" ", "_"):
            return False
        return self.text is None or self._has_text(recorded, told, self.text.lower())

    def _has_text(self, recorded: RecordedEvent, told: Phrase, wanted: str) -> bool:
        if wanted in told.says.lower() or wanted in told.subject.lower():
            return True
        # The stored line escapes what JSON escapes; the text is looked for as it would stand there.
        escaped = msgspec.json.encode(wanted)[1:-1].decode().lower()
        return escaped in encode_event(recorded.event).decode().lower()
