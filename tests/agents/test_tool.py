"""Tools: what a declaration becomes, and what is refused."""

import asyncio

import pytest

from forkpoint.agents.tool import Tool, ToolContext, tool
from forkpoint.effects import Recovery
from forkpoint.errors.agents import ToolBadArguments


@tool(read_only=True)
async def invoice(number: str, year: int = 2026) -> dict[str, int]:
    """Look an invoice up.

    Args:
        number: as printed on it
    """
    return {"year": year, "digits": len(number)}


@tool
def charge(ctx: ToolContext, number: str, cents: int) -> str:
    """Charge an invoice."""
    return f"{ctx.idempotency_key} {number} {cents}"


def test_a_decorated_function_can_still_be_called() -> None:
    assert asyncio.run(invoice("17")) == {"year": 2026, "digits": 2}
    assert charge(ToolContext(idempotency_key="k"), "17", 500) == "k 17 500"


def test_a_tool_is_recorded_with_what_its_function_says_of_itself() -> None:
    record = invoice.record()
    assert (record.name, record.description) == ("invoice", "Look an invoice up.")
    assert record.parameters == {
        "type": "object",
        "properties": {
            "number": {"type": "string", "description": "as printed on it"},
            "year": {"type": "integer", "default": 2026},
        },
        "required": ["number"],
        "additionalProperties": False,
    }
    assert record.result == {"type": "object", "additionalProperties": {"type": "integer"}}


def test_a_model_never_sees_the_tool_context() -> None:
    assert list(charge.record().parameters["properties"]) == ["number", "cents"]


def test_a_tool_that_says_nothing_is_held() -> None:
    assert isinstance(charge, Tool)
    assert (charge.recovery, invoice.recovery) == (Recovery.HOLD, Recovery.REPEAT)
    assert (charge.is_async, invoice.is_async) == (False, True)


def test_bad_arguments_name_each_argument_and_what_was_expected() -> None:
    with pytest.raises(ToolBadArguments) as caught:
        invoice.convert({"number": 17, "yeer": 1})
    assert "number: expected `str`, got `int`" in str(caught.value)
    assert "'yeer' is not known; known are 'number', 'year'" in str(caught.value)
