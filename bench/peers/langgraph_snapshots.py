"""LangGraph as it comes: a whole snapshot of the channel at every checkpoint."""

import operator
from typing import Annotated, Any, TypedDict

from bench.peers._langgraph import GraphPeer


class Snapshots(TypedDict):
    """Plain dictionaries added to a list: cheaper for LangGraph than its own message classes."""

    messages: Annotated[list[dict[str, Any]], operator.add]


PEER = GraphPeer(Snapshots)
