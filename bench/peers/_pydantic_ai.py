"""What the Pydantic AI peers share: a scripted model and the answers of its one tool."""

from collections.abc import Callable
from pathlib import Path

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage, UsageLimits

from bench.effect import effect
from bench.script import TOOL, Script

NO_LIMIT = UsageLimits(request_limit=None)

# Usage is given with each response: a FunctionModel without it counts all messages again at every
# request, and that would be charged to the peer.
_USAGE = RequestUsage(input_tokens=1, output_tokens=1)


def scripted_model(work: Script, *, asked: Callable[[], None] = lambda: None, most: int | None = None) -> FunctionModel:
    """A model that says the step after the last one whose result it is shown, and ends after the last step.

    With `most`, it ends after that many steps of its own, so that one more step can be asked of any run.
    """
    steps = {step.number: step for step in work}
    left = len(work) if most is None else most

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        nonlocal left
        asked()
        step = steps.get(_last_answered(messages, work[0].number - 1) + 1)
        if step is None or left == 0:
            return ModelResponse(parts=[TextPart("done")], usage=_USAGE)
        left -= 1
        call = ToolCallPart(TOOL, step.arguments, tool_call_id=step.call_id)
        return ModelResponse(parts=[TextPart(step.text), call], usage=_USAGE)

    return FunctionModel(respond, model_name="scripted")


def _last_answered(messages: list[ModelMessage], none: int) -> int:
    for message in reversed(messages):
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                return int(part.tool_call_id[-6:])
    return none


def answers(work: Script, witness: Path | None) -> Callable[[int], str]:
    """What the tool does: its effect on the witness, if there is one, and the scripted result."""
    results = {step.number: step.result for step in work}

    def answer(number: int) -> str:
        if witness is not None:
            effect(number, witness)
        return results[number]

    return answer
