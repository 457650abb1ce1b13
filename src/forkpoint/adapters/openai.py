"""OpenAI's own client in a recorded function: its requests are recorded, its answers come from the record.

    client = wrap_openai(AsyncOpenAI())

The extra ``openai`` has what this needs.
"""

from typing import Any, TypeVar

from forkpoint.adapters.plain_chat import Chat, chat_tool
from forkpoint.adapters.plain_recording import wrapped
from forkpoint.adapters.plain_requests import Dialect
from forkpoint.adapters.plain_responses import Responses, responses_tool
from forkpoint.adapters.plain_sending import Spoken
from forkpoint.errors import AdapterMissing
from forkpoint.runtime.arguments import unfit

__all__ = ["chat_tool", "responses_tool", "wrap_openai"]

Client = TypeVar("Client")

_DIALECTS: dict[str, Dialect] = {"/chat/completions": Chat(), "/responses": Responses()}
_READS = frozenset({"/embeddings", "/moderations", "/responses/input_tokens"})


def wrap_openai(client: Client, *, agent: str | None = None) -> Client:
    """``client`` (``AsyncOpenAI``, ``OpenAI`` or a class of them) with its requests put on record.

    ``chat.completions`` and ``responses`` (``create``, ``parse``, ``stream``) are model calls; embeddings, moderations
    and counts of tokens are steps that only read. Everything else is sent and not recorded. Outside of a recorded
    function it is the client as it was; the client that was given stays as it is. ``agent`` names who asks, on record.

    A request is tried ``max_retries + 1`` times, each on record. Raises ``adapter.missing``; in a recorded function
    ``client.unrecorded`` for raw responses, ``stream.left-off``, and the client's own exceptions, which are then
    ``EffectFailed`` as well.
    """
    try:
        import openai
    except ImportError as error:
        needs = "the extra 'forkpoint[openai]'"
        raise AdapterMissing(what="wrap_openai", needs=needs, command="pip install 'forkpoint[openai]'") from error
    if not isinstance(client, openai.AsyncOpenAI | openai.OpenAI):
        raise unfit("client", type(client).__name__, "a client of OpenAI's")
    streams: dict[bool, Any] = {True: openai.AsyncStream, False: openai.Stream}
    spoken = Spoken(library=openai, dialects=_DIALECTS, reads=_READS, streams=streams, agent=agent)
    return wrapped(client, spoken)
