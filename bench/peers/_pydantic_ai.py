"""What the Pydantic AI peers share: a scripted model and its one tool."""

from collections.abc import Callable

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage, UsageLimits

from bench.script import TOOL, Script

NO_LIMIT = UsageLimits(request_limit=None)

# Usage is given with each response: a FunctionModel without it counts all messages again at every
# request, and that would be charged to the peer.
_USAGE = RequestUsage(input_tokens=1, output_tokens=1)


def scripted_model(work: Script, *, asked: Callable[[], None] = lambda: None) -> FunctionModel:
    """A model that says the script's next step, and then ends the turn."""
    first = work[0].number

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked()
        done = len(messages) // 2 if first == 1 else (len(messages) - 1) % 2
        if done >= len(work):
            return ModelResponse(parts=[TextPart("done")], usage=_USAGE)
        step = work[done]
        call = ToolCallPart(TOOL, step.arguments, tool_call_id=step.call_id)
        return ModelResponse(parts=[TextPart(step.text), call], usage=_USAGE)

    return FunctionModel(respond, model_name="scripted")
