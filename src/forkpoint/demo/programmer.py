"""A model without a provider: a programmer who works by rules, and goes by nothing but what the tools answer."""

import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, TypeAlias

from forkpoint.messages import CallPart, Message, ResponsePart, Usage, assistant
from forkpoint.ports import ModelProgress, ModelRequest, ModelResponse

Found: TypeAlias = Mapping[str, Any]
"""The answers since the last input, by what was asked for."""

RUNNER = "pytest -q -p no:cacheprovider" if find_spec("pytest") else "unittest -q"
TESTS = f"{shlex.quote(sys.executable)} -B -m {RUNNER}"
TIDY = "mkdir -p tools && mv report.py tools/report.py && chmod 755 tools/report.py && rm scratch.txt"
SWEEP = "rm -r tools data && chmod 600 test_pricing.py && printf 'import pricing\\n' > bench.py && mkdir results"

WHOLE = "return cents - cents * percent // 100"
FLOATS = '''\
"""Prices, fast."""


def discount(cents: float, percent: float) -> float:
    """A price after a discount."""
    return cents * (1 - percent / 100)
'''


class Programmer:
    """A model that mends and changes prices. Made for an agent with the file tools that ship.

    Asked to make the tests pass it looks, reads, edits and tests until they do, and tidies up if that is asked for.
    Asked to make something faster it rewrites it with floats, unless it is told to keep whole cents.
    """

    name = "demo:programmer"

    async def respond(self, request: ModelRequest, progress: Callable[[ModelProgress], None]) -> ModelResponse:
        """What the programmer says next."""
        reply = next_message(request.messages)
        progress(ModelProgress(text=reply.text))
        usage = Usage(input_tokens=sum(map(_words, request.messages)), output_tokens=_words(reply))
        return ModelResponse(message=reply, usage=usage, cost=0.0)


def next_message(messages: Sequence[Message]) -> Message:
    """The next call that the conversation asks for, or the closing words where none is left."""
    turn, asked, found = _since_last_input(messages)
    reply = _faster(asked, found) if "faster" in asked else _mended(asked, found)
    if isinstance(reply, str):
        return assistant(reply)
    words, name, tool, arguments = reply
    return assistant(words, CallPart(id=f"{name}-{turn}", name=tool, arguments=arguments))


Call: TypeAlias = tuple[str, str, str, dict[str, Any]]
"""What is said, what for, the tool, and its arguments."""


def _mended(asked: str, found: Found) -> Call | str:
    if "list" not in found:
        return "Let me look.", "list", "list_dir", {}
    if "before" not in found:
        return "First the tests.", "before", "shell", {"command": TESTS}
    if not _passed(found["before"]):
        if "read" not in found:
            return f"{_failures(found['before'])} failed.", "read", "read_file", {"path": "pricing.py"}
        wrong = re.search(r"return cents - cents \* percent // 10\b", str(found["read"]))
        if wrong is None:
            return "The tests fail, and I do not see why."
        if "edit" not in found:
            edit = {"path": "pricing.py", "old_text": wrong[0], "new_text": WHOLE}
            return "A percent is a hundredth, not a tenth.", "edit", "edit_file", edit
        if "after" not in found:
            return "", "after", "shell", {"command": TESTS}
        if not _passed(found["after"]):
            return f"{_failures(found['after'])} still failed."
    if "tidy" in asked and "scratch.txt" in str(found["list"]) and "tidied" not in found:
        return "The tests pass. Now I tidy up.", "tidied", "shell", {"command": TIDY}
    return "The tests pass." + (" The report is a tool now, and the scratch file is gone." if "tidied" in found else "")


def _faster(asked: str, found: Found) -> Call | str:
    if "read" not in found:
        return "", "read", "read_file", {"path": "pricing.py"}
    if "whole cents" in asked and "def discount" in str(found["read"]):
        if "edit" not in found:
            edit = {"path": "pricing.py", "old_text": "\n\ndef discount", "new_text": _CACHED}
            return "A price that was asked for before need not be worked out again.", "edit", "edit_file", edit
    elif "edit" not in found:
        return "Floats are fast.", "edit", "write_file", {"path": "pricing.py", "content": FLOATS}
    if "whole cents" not in asked and "swept" not in found:
        return "And less to load.", "swept", "shell", {"command": SWEEP}
    if "after" not in found:
        return "", "after", "shell", {"command": TESTS}
    return "Faster, and the tests pass." if _passed(found["after"]) else f"Faster. {_failures(found['after'])} failed."


_CACHED = "\nfrom functools import cache\n\n\n@cache\ndef discount"


def _since_last_input(messages: Sequence[Message]) -> tuple[int, str, Found]:
    turn, asked, found = 0, "", dict[str, Any]()
    for message in messages:
        if message.role == "user":
            turn, asked, found = turn + 1, message.text, {}
        for part in message.parts:
            if isinstance(part, ResponsePart):
                found[part.id.rpartition("-")[0]] = part.response
    return turn, asked, found


def _passed(ran: Any) -> bool:
    return isinstance(ran, dict) and ran.get("exit_status") == 0


def _failures(ran: Any) -> str:
    """How many tests failed, as the test runner says it."""
    told = re.search(r"failures=(\d+)|(\d+) failed", str(ran.get("output", "")) if isinstance(ran, dict) else "")
    number = int(told[1] or told[2]) if told else 0
    return f"{number} test{'' if number == 1 else 's'}" if number else "Something"


def _words(message: Message) -> int:
    return sum(len(str(getattr(part, "content", part)).split()) for part in message.parts)
