"""Every error of Forkpoint. One class a code; the class says what happened, why, and what to do."""

from forkpoint.errors._base import KINDS as KINDS
from forkpoint.errors._base import REGISTRY as REGISTRY
from forkpoint.errors._base import ForkpointError as ForkpointError
from forkpoint.errors.agents import *  # noqa: F403
from forkpoint.errors.data import *  # noqa: F403
from forkpoint.errors.exchange import *  # noqa: F403
from forkpoint.errors.files import *  # noqa: F403
from forkpoint.errors.functions import *  # noqa: F403
from forkpoint.errors.langgraph import *  # noqa: F403
from forkpoint.errors.mcp import *  # noqa: F403
from forkpoint.errors.models import *  # noqa: F403
from forkpoint.errors.openai_agents import *  # noqa: F403
from forkpoint.errors.otel import *  # noqa: F403
from forkpoint.errors.plain_clients import *  # noqa: F403
from forkpoint.errors.runs import *  # noqa: F403
from forkpoint.errors.stores import *  # noqa: F403
from forkpoint.errors.surfaces import *  # noqa: F403
from forkpoint.errors.tools import *  # noqa: F403
