"""Durable runs of the OpenAI Agents SDK: ``ForkpointProvider``, ``durable`` and what else its loop touches.

::

    agent = Agent(name="clerk", tools=durable([search, charge, mail], read_only={"search"}, idempotent={"charge"}))

    async def answer(question: str) -> str:
        config = RunConfig(model_provider=ForkpointProvider())
        return (await Runner.run(agent, question, run_config=config)).final_output

    await runtime.record("q-1", answer, "What is open?")

The SDK's own loop runs; its model calls and tools are effects of the run. Outside of a recorded function all of this
is as if it were not there. The extra ``openai-agents`` has what it needs.
"""

import importlib.util

from forkpoint.errors import AdapterMissing


def _is_there() -> bool:
    try:
        return importlib.util.find_spec("agents.models.interface") is not None
    except ModuleNotFoundError:
        return False


if not _is_there():
    raise AdapterMissing(
        what="forkpoint.adapters.openai_agents",
        needs="the extra 'openai-agents'",
        command="pip install 'forkpoint[openai-agents]'",
    )

from forkpoint.adapters.openai_agents_calls import this_call  # noqa: E402
from forkpoint.adapters.openai_agents_models import ForkpointModel, ForkpointProvider  # noqa: E402
from forkpoint.adapters.openai_agents_tools import declared_tool, durable  # noqa: E402

__all__ = [
    "ForkpointModel",
    "ForkpointProvider",
    "declared_tool",
    "durable",
    "this_call",
]
