"""Anthropic's own client in a recorded function: its requests are recorded, its answers come from the record.

    client = wrap_anthropic(AsyncAnthropic())

The extra ``anthropic`` has what this needs.
"""

from typing import Any, TypeVar

from forkpoint.adapters.plain_messages import Messages, message_tool
from forkpoint.adapters.plain_recording import wrapped
from forkpoint.adapters.plain_requests import Dialect
from forkpoint.adapters.plain_sending import Spoken
from forkpoint.errors import AdapterMissing
from forkpoint.runtime.arguments import unfit

__all__ = ["message_tool", "wrap_anthropic"]

Client = TypeVar("Client")

_DIALECTS: dict[str, Dialect] = {"/v1/messages": Messages()}
_READS = frozenset({"/v1/messages/count_tokens"})


def wrap_anthropic(client: Client, *, agent: str | None = None) -> Client:
    """``client`` (``AsyncAnthropic``, ``Anthropic`` or one of their kind) with its requests put on record.

    ``messages`` and ``beta.messages`` (``create``, ``parse``, ``stream``) are model calls, counts of tokens are steps
    that only read. Everything else is sent and not recorded. Outside of a recorded function it is the client as it was;
    the client that was given stays as it is. ``agent`` names who asks, on record.

    A request is tried ``max_retries + 1`` times, each on record. Raises ``adapter.missing``; in a recorded function
    ``client.unrecorded`` for raw responses, ``stream.left-off``, and the client's own exceptions, which are then
    ``EffectFailed`` as well.
    """
    try:
        import anthropic
    except ImportError as error:
        needs = "the extra 'forkpoint[anthropic]'"
        raise AdapterMissing(
            what="wrap_anthropic", needs=needs, command="pip install 'forkpoint[anthropic]'"
        ) from error
    if not (hasattr(client, "post") and hasattr(client, "messages")):
        raise unfit("client", type(client).__name__, "a client of Anthropic's")
    streams: dict[bool, Any] = {True: anthropic.AsyncStream, False: anthropic.Stream}
    spoken = Spoken(library=anthropic, dialects=_DIALECTS, reads=_READS, streams=streams, agent=agent)
    return wrapped(client, spoken)
