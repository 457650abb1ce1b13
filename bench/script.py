"""The work that every peer does: what the scripted model says and what the tool answers."""

import base64
import json
import random
from dataclasses import dataclass

ASSISTANT_BYTES = 316
RESULT_BYTES = 1_022
PAYLOAD_BYTES_STEP = ASSISTANT_BYTES + RESULT_BYTES
TOOL = "look_up"
PROMPT = "Look up every number until told to stop."
_SEED = 20_240_229


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedStep:
    """One model response with its one tool call, and what the tool gives back."""

    number: int
    call_id: str
    text: str
    result: str

    @property
    def arguments(self) -> dict[str, int]:
        """The call's arguments: the step's own number, so that a tool can find its answer."""
        return {"number": self.number}

    def assistant(self) -> dict[str, object]:
        """The assistant message as plain data; `ASSISTANT_BYTES` bytes as compact JSON."""
        call = {"id": self.call_id, "name": TOOL, "arguments": self.arguments}
        return {"role": "assistant", "content": self.text, "tool_calls": [call]}


Script = tuple[ScriptedStep, ...]


def script(steps: int, *, first: int = 1) -> Script:
    """`steps` scripted steps numbered from `first`; the same numbers always give the same bytes."""
    return tuple(_scripted(number) for number in range(first, first + steps))


def compact(value: object) -> str:
    """JSON without spaces: the form in which payload is counted."""
    return json.dumps(value, separators=(",", ":"))


def _scripted(number: int) -> ScriptedStep:
    # Base64 of seeded bytes: text that no compressor gets for free and that no encoding has to escape.
    source = random.Random(_SEED * 1_000_003 + number)
    noise = base64.b64encode(source.randbytes(PAYLOAD_BYTES_STEP)).decode()
    bare = ScriptedStep(number=number, call_id=f"call-{number:06d}", text="", result=noise[:RESULT_BYTES])
    room = ASSISTANT_BYTES - len(compact(bare.assistant()))
    return ScriptedStep(
        number=number,
        call_id=bare.call_id,
        text=noise[RESULT_BYTES : RESULT_BYTES + room],
        result=bare.result,
    )
