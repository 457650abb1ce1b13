"""What differs between two definitions is told in words; what no run notices is not."""

from typing import Any

import msgspec
import pytest

from forkpoint.definition import AgentRecord, Compaction, ToolRecord
from forkpoint.effects import Recovery
from forkpoint.redefinition import differences


def schema(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


READ = ToolRecord(name="read", description="Read.", parameters=schema("path", path={"type": "string"}))
MAIL = ToolRecord(name="mail", parameters=schema("to", to={"type": "string"}, cc={"type": "string"}))
AGENT = AgentRecord(name="a", model="m", instructions="Be brief.", settings={"t": 1, "p": 2}, tools=(READ, MAIL))


def changed(**changes: Any) -> tuple[str, ...]:
    return differences(AGENT, msgspec.structs.replace(AGENT, **changes))


def tool_changed(**changes: Any) -> tuple[str, ...]:
    return changed(tools=(READ, msgspec.structs.replace(MAIL, **changes)))


def test_the_order_of_tools_and_of_keys_is_no_difference() -> None:
    turned = msgspec.structs.replace(MAIL, parameters=dict(reversed(MAIL.parameters.items())))
    assert changed(tools=(turned, READ), settings={"p": 2, "t": 1}) == ()


def test_no_settings_and_empty_settings_are_the_same() -> None:
    bare = msgspec.structs.replace(AGENT, settings=None)
    assert differences(bare, msgspec.structs.replace(AGENT, settings={})) == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "b"}, ("the agent is named 'b', not 'a'",)),
        ({"model": "n"}, ("the model is 'n', not 'm'",)),
        ({"instructions": "Be long."}, ("the instructions differ from character 4 on",)),
        ({"instructions": "Be brief. Really."}, ("the instructions differ from character 10 on",)),
        (
            {"settings": {"t": 2, "n": 1}},
            ("the setting 'n' is new", "the setting 'p' is gone", "the setting 't' differs"),
        ),
        ({"tools": (READ,)}, ("the tool 'mail' is gone",)),
        ({"tools": (READ, MAIL, ToolRecord(name="x"))}, ("the tool 'x' is new",)),
        ({"attempts": 1}, ("a model call is tried 1 times, not 3",)),
        ({"compaction": Compaction(after_tokens=1)}, ("the compaction differs",)),
    ],
)
def test_each_change_of_an_agent_is_told(changes: dict[str, Any], words: tuple[str, ...]) -> None:
    assert changed(**changes) == words


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"description": "Send."}, "is described in other words"),
        ({"result": {"type": "string"}}, "returns another type"),
        ({"recovery": Recovery.RETRY}, "is recovered by retry, not hold"),
        ({"approval": True}, "needs approval now"),
        ({"external": True}, "is external now"),
        ({"attempts": 5}, "is tried 5 times, not 3"),
        ({"parameters": schema("to", to={"type": "string"})}, "has no parameter 'cc' any more"),
        ({"parameters": schema("to", to={"type": "string"}, cc={"type": "integer"})}, "takes another 'cc'"),
        ({"parameters": schema("to", "cc", to={"type": "string"}, cc={"type": "string"})}, "requires 'cc' now"),
        ({"parameters": schema(to={"type": "string"}, cc={"type": "string"})}, "does not require 'to' any more"),
        ({"parameters": MAIL.parameters | {"$defs": {}}}, "takes parameters of another schema"),
        ({"parameters": None}, "has no parameter 'to' any more"),
    ],
)
def test_each_change_of_a_tool_is_told(changes: dict[str, Any], words: str) -> None:
    assert tool_changed(**changes)[0] == f"the tool 'mail' {words}"


def test_what_a_tool_no_longer_asks_for_is_told_too() -> None:
    external = msgspec.structs.replace(MAIL, approval=True, external=True)
    now = msgspec.structs.replace(AGENT, tools=(READ, MAIL))
    assert differences(msgspec.structs.replace(AGENT, tools=(READ, external)), now) == (
        "the tool 'mail' needs no approval any more",
        "the tool 'mail' is not external any more",
    )


def test_a_new_parameter_is_told() -> None:
    more = schema("to", to={"type": "string"}, cc={"type": "string"}, bcc={"type": "string"})
    assert tool_changed(parameters=more) == ("the tool 'mail' has a parameter 'bcc' now",)
