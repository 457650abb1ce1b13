"""LangGraph with its delta channel (beta): writes are kept, a snapshot only every so often."""

from collections.abc import Sequence
from itertools import chain
from typing import Annotated, Any, TypedDict

from langgraph.channels.delta import DeltaChannel

from bench.peers._langgraph import GraphPeer

Messages = list[dict[str, Any]]


def _extended(before: Messages, writes: Sequence[Messages]) -> Messages:
    return [*before, *chain.from_iterable(writes)]


class Deltas(TypedDict):
    """The same list as a delta channel, with the channel's own default of a snapshot every 100 updates."""

    messages: Annotated[list[dict[str, Any]], DeltaChannel(_extended)]


PEER = GraphPeer(Deltas)
