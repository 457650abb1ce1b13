"""Tools: what a declaration becomes, and what is refused."""

import asyncio
import dataclasses
import enum
import functools
import inspect
import io
from collections.abc import Iterator
from typing import Annotated, Any

import pydantic
import pytest

from forkpoint.agents.tool import NotOccurred, Occurred, StillUnknown, Tool, ToolContext, tool
from forkpoint.effects import Recovery
from forkpoint.errors.agents import (
    ToolBadApproval,
    ToolBadArguments,
    ToolBadDefinition,
    ToolBadFinding,
    ToolBadResult,
)


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
    assert "number: expected string, got 17" in str(caught.value)
    assert "'yeer' is not known here; known are 'number', 'year'" in str(caught.value)


class Bad:
    """Declarations that contradict themselves or cannot work; each is a function that makes one."""

    @staticmethod
    def two_classes() -> Any:
        return tool(read_only=True, idempotent=True)(charge.function)

    @staticmethod
    def probe_beside_key() -> Any:
        return tool(idempotent=True, reconcile=found_it)(charge.function)

    @staticmethod
    def external_performed() -> Any:
        return tool(external=True, idempotent=True)(ask)

    @staticmethod
    def external_approved() -> Any:
        return tool(external=True, approval=True)(ask)

    @staticmethod
    def external_timed() -> Any:
        return tool(external=True, timeout_s=1)(ask)

    @staticmethod
    def attempts_of_a_held_tool() -> Any:
        return tool(attempts=3)(ask)

    @staticmethod
    def no_attempts() -> Any:
        return tool(read_only=True, attempts=0)(ask)

    @staticmethod
    def no_time() -> Any:
        return tool(timeout_s=0)(ask)

    @staticmethod
    def a_name_no_provider_takes() -> Any:
        return tool(name="look up")(ask)

    @staticmethod
    def no_predicate() -> Any:
        return tool(approval="yes")(ask)  # type: ignore[call-overload]

    @staticmethod
    def an_async_check() -> Any:
        return tool(validate=found_it)(ask)

    @staticmethod
    def a_probe_of_other_arguments() -> Any:
        async def probe(ctx: ToolContext, other: str) -> Occurred:
            return Occurred(other)

        return tool(reconcile=probe)(ask)

    @staticmethod
    def a_probe_without_a_place_for_the_context() -> Any:
        return tool(reconcile=lambda question: NotOccurred())(charge.function)

    @staticmethod
    def a_probe_that_cannot_be_called() -> Any:
        return tool(reconcile=True)(ask)  # type: ignore[call-overload]

    @staticmethod
    def a_model_whose_types_nobody_knows() -> Any:
        @dataclasses.dataclass
        class Parcel:
            to: "Nowhere"  # type: ignore[name-defined]  # noqa: F821

        def send(parcel: Parcel) -> None: ...

        return tool(send)

    @staticmethod
    def a_constraint_on_a_type_without_json() -> Any:
        def load(source: Annotated[io.BytesIO, pydantic.Field(description="x")]) -> None: ...

        return tool(load)

    @staticmethod
    def a_context_that_an_argument_may_hit() -> Any:
        def call(ctx: ToolContext, **arguments: Any) -> None: ...

        return tool(parameters={"type": "object"})(call)

    @staticmethod
    def a_probe_that_an_argument_may_hit() -> Any:
        return tool(parameters={"type": "object"}, reconcile=found_it)(anything)

    @staticmethod
    def a_class() -> Any:
        return tool(Bad)

    @staticmethod
    def a_tool_again() -> Any:
        return tool(charge)

    @staticmethod
    def a_builtin_without_a_signature() -> Any:
        return tool(max)

    @staticmethod
    def a_generator() -> Any:
        def numbers() -> Iterator[int]:
            yield 1

        return tool(numbers)

    @staticmethod
    def an_unbound_method() -> Any:
        return tool(Shop.buy)

    @staticmethod
    def a_context_that_is_not_first() -> Any:
        def late(number: str, ctx: ToolContext) -> None: ...

        return tool(late)

    @staticmethod
    def names_that_no_model_can_give() -> Any:
        def many(*numbers: int) -> None: ...

        return tool(many)

    @staticmethod
    def an_open_end() -> Any:
        def many(**rest: int) -> None: ...

        return tool(many)

    @staticmethod
    def a_type_without_json() -> Any:
        def load(source: io.BytesIO) -> None: ...

        return tool(load)

    @staticmethod
    def an_annotation_nobody_knows() -> Any:
        def load(source: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

        return tool(load)

    @staticmethod
    def an_answer_that_cannot_be_checked() -> Any:
        def load() -> io.BytesIO: ...  # type: ignore[empty-body]

        return tool(external=True)(load)

    @staticmethod
    def a_schema_for_named_parameters() -> Any:
        return tool(parameters={"type": "object"})(ask)

    @staticmethod
    def a_schema_of_no_object() -> Any:
        return tool(parameters={"type": "string"})(anything)


class Shop:
    def buy(self, what: str, ctx: str = "") -> str:
        """Buy something."""
        return what + ctx


async def ask(question: str) -> str:
    """Ask a person."""
    return question


def anything(**arguments: Any) -> Any:
    """Take anything."""
    return arguments


async def found_it(ctx: ToolContext, **arguments: Any) -> Occurred:
    return Occurred({"key": ctx.idempotency_key, **arguments})


BAD = [name for name in vars(Bad) if not name.startswith("_")]
PROBLEMS = {
    "two_classes": "read_only and idempotent say different things",
    "probe_beside_key": "idempotent and reconcile say different things",
    "external_performed": "never performed, so a recovery class means nothing",
    "external_approved": "so approval means nothing",
    "external_timed": "so timeout_s means nothing",
    "attempts_of_a_held_tool": "say read_only, idempotent or reconcile",
    "no_attempts": "attempts is 0, not 1 or more",
    "no_time": "timeout_s is 0, not above 0",
    "a_name_no_provider_takes": "1 to 64 letters",
    "no_predicate": "neither a boolean nor a predicate",
    "an_async_check": "validate is not a plain function",
    "a_probe_of_other_arguments": "cannot be called as probe(ctx, **arguments)",
    "a_probe_without_a_place_for_the_context": "cannot be called as probe(ctx, **arguments)",
    "a_probe_that_cannot_be_called": "reconcile is not a function",
    "a_model_whose_types_nobody_knows": "the parameter 'parcel' of type",
    "a_constraint_on_a_type_without_json": "the parameter 'source' of type",
    "a_context_that_an_argument_may_hit": "write (ctx: forkpoint.agents.calling.ToolContext, /, **arguments)",
    "a_probe_that_an_argument_may_hit": "cannot be called as probe(ctx, **arguments)",
    "a_class": "only a function can be a tool",
    "a_tool_again": "it is a tool already",
    "a_builtin_without_a_signature": "it does not say what it takes",
    "a_generator": "it yields",
    "an_unbound_method": "make a tool of the bound method",
    "a_context_that_is_not_first": "'ctx' is a ToolContext and not its first parameter",
    "names_that_no_model_can_give": "'*numbers: int' has no name",
    "an_open_end": "'**rest: int' has no name",
    "a_type_without_json": "the parameter 'source' of type BytesIO has no JSON Schema",
    "an_annotation_nobody_knows": "name 'Nowhere' is not defined",
    "an_answer_that_cannot_be_checked": "its result of type BytesIO has no JSON Schema",
    "a_schema_for_named_parameters": "it takes '**arguments' and nothing else",
    "a_schema_of_no_object": "must be the JSON Schema of an object",
}


@pytest.mark.parametrize("case", BAD)
def test_a_declaration_that_cannot_work_is_refused(case: str) -> None:
    with pytest.raises(ToolBadDefinition) as caught:
        getattr(Bad, case)()
    assert caught.value.code == "tool.bad-definition"
    assert PROBLEMS[case] in caught.value.problem


def test_each_flag_gives_its_recovery_class() -> None:
    assert tool(read_only=True)(ask).recovery is Recovery.REPEAT
    assert tool(idempotent=True, attempts=5)(ask).record().attempts == 5
    assert tool(idempotent=True)(ask).recovery is Recovery.RETRY
    assert tool(reconcile=found_it)(ask).recovery is Recovery.RECONCILE


def test_an_external_tool_is_recorded_with_the_type_of_its_answer() -> None:
    @tool(external=True)
    async def confirm(question: str) -> bool: ...

    record = confirm.record()
    assert record.external and record.result == {"type": "boolean"} and record.recovery is Recovery.HOLD


def test_a_bound_method_and_a_partial_can_be_tools() -> None:
    buy = tool(Shop().buy)
    assert (buy.name, buy.description, buy("tea")) == ("buy", "Buy something.", "tea")
    named = tool(name="buy_tea")(functools.partial(Shop().buy, ctx="!"))
    assert named.description == "Buy something."
    assert named.call(ToolContext(), named.convert({"what": "tea"})) == "tea!"


def test_a_tool_looks_like_its_function() -> None:
    assert (invoice.__name__, str(inspect.signature(invoice))) == (
        "invoice",
        "(number: str, year: int = 2026) -> dict[str, int]",
    )
    assert (invoice.__doc__ or "").startswith("Look an invoice up.")


def test_types_that_are_local_to_the_definition_are_found() -> None:
    class Kind(enum.Enum):
        A = "a"

    @tool(read_only=True)
    def pick(kind: "Kind") -> str:
        return kind.value

    assert pick.call(ToolContext(), pick.convert({"kind": "a"})) == "a"


class Size(enum.Enum):
    """Another one is made inside a test."""

    SMALL = "s"


def of_size(size: "Size") -> Size:
    """Take a size."""
    return size


def test_local_names_do_not_reach_functions_of_another_place() -> None:
    class Size(enum.Enum):
        LARGE = "l"

    def here(size: "Size") -> str:
        return size.value

    assert tool(here).convert({"size": "l"}) == {"size": Size.LARGE}
    assert tool(of_size).convert({"size": "s"}) == {"size": of_size.__globals__["Size"].SMALL}


def test_a_tool_gets_its_context_first() -> None:
    ctx = ToolContext(idempotency_key="k")
    assert charge.call(ctx, charge.convert({"number": "17", "cents": 5})) == "k 17 5"
    assert asyncio.run(invoice.call(ctx, {"number": "1"})) == {"year": 2026, "digits": 1}


@pytest.mark.parametrize("arguments", [None, "", {}, "{}"])
def test_no_arguments_may_be_said_in_every_way_that_providers_say_it(arguments: Any) -> None:
    assert tool(lambda_free).convert(arguments) == {}


def lambda_free() -> None:
    """Take nothing."""


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("{'number': 1}", "they are not JSON"),
        ("[1]", "expected a JSON object, got an array"),
        ('"text"', "expected a JSON object, got a text"),
        (True, "expected a JSON object, got a boolean"),
        (7, "expected a JSON object, got a single value"),
        ({"x": 1}, "it takes none"),
    ],
)
def test_arguments_that_are_no_object_are_refused(arguments: Any, problem: str) -> None:
    with pytest.raises(ToolBadArguments) as caught:
        tool(lambda_free).convert(arguments)
    assert problem in caught.value.problem


def test_changing_its_arguments_does_not_change_what_the_model_said() -> None:
    @tool
    def keep(data: Any) -> Any:
        data["list"].append(2)
        return data

    said = {"data": {"list": [1]}}
    assert keep.call(ToolContext(), keep.convert(said)) == {"list": [1, 2]}
    assert said == {"data": {"list": [1]}}


def test_a_given_schema_is_checked_and_arguments_are_passed_as_they_are() -> None:
    schema = {"type": "object", "properties": {"at": {"type": "string"}, "class": {"minimum": 1}}, "required": ["at"]}
    foreign = tool(name="foreign", parameters=schema, description="From elsewhere.")(anything)
    assert foreign.record().parameters == schema and foreign.description == "From elsewhere."
    assert foreign.call(ToolContext(), foreign.convert({"at": "x", "class": 2})) == {"at": "x", "class": 2}
    for arguments, problem in (({}, "'at' is missing"), ({"at": 1}, "at: expected string, got 1")):
        with pytest.raises(ToolBadArguments) as caught:
            foreign.convert(arguments)
        assert caught.value.problem == problem


def test_an_argument_of_a_given_schema_may_be_named_like_the_context() -> None:
    def call(ctx: ToolContext, /, **arguments: Any) -> Any:
        return ctx.run_id, arguments

    def probe(ctx: ToolContext, /, **arguments: Any) -> Any:
        return Occurred(arguments)

    foreign = tool(parameters={"type": "object"}, reconcile=probe)(call)
    assert foreign.call(ToolContext(run_id="r"), foreign.convert({"ctx": 1})) == ("r", {"ctx": 1})
    assert asyncio.run(foreign.find(ToolContext(), {"ctx": 1})) == Occurred({"ctx": 1})


def test_a_predicate_sees_the_arguments_with_defaults_as_the_function_would() -> None:
    seen: list[Any] = []

    async def over_a_limit(arguments: dict[str, Any]) -> bool:
        seen.append(arguments)
        return bool(arguments["year"] > 2026)

    for approval in (over_a_limit, lambda arguments: arguments["year"] > 2026):
        asked = tool(approval=approval)(invoice.function)
        assert asked.record().approval
        assert not asyncio.run(asked.needs_approval(asked.convert({"number": "1"})))
        assert asyncio.run(asked.needs_approval(asked.convert({"number": "1", "year": 2027})))
    assert seen[0] == {"number": "1", "year": 2026}
    assert asyncio.run(tool(approval=True)(ask).needs_approval({"question": ""}))
    assert not asyncio.run(invoice.needs_approval({"number": "1"}))


def test_a_predicate_that_says_neither_yes_nor_no_lets_nothing_through() -> None:
    forgot = tool(approval=lambda arguments: None)(ask)  # type: ignore[arg-type,return-value]
    with pytest.raises(ToolBadApproval, match="returned None"):
        asyncio.run(forgot.needs_approval({"question": "?"}))


@pytest.mark.parametrize("finding", [Occurred({"id": 1}), NotOccurred(), StillUnknown("no answer")])
def test_a_probe_says_one_of_three_things(finding: Any) -> None:
    async def probe(ctx: ToolContext, question: str) -> Any:
        return finding

    for one in (probe, lambda ctx, **arguments: finding):
        probed = tool(reconcile=one)(ask)
        assert probed.probe_is_async is (one is probe)
        assert asyncio.run(probed.find(ToolContext(), {"question": "?"})) == finding


def test_a_probe_gets_the_key_and_the_arguments_of_the_call() -> None:
    paid = tool(reconcile=found_it)(charge.function)
    found = asyncio.run(paid.find(ToolContext(idempotency_key="k"), {"number": "17", "cents": 5}))
    assert found == Occurred({"key": "k", "number": "17", "cents": 5})


@pytest.mark.parametrize("answer", [True, None, {"occurred": True}])
def test_a_probe_that_says_anything_else_decides_nothing(answer: Any) -> None:
    odd = tool(reconcile=lambda ctx, **arguments: answer)(ask)
    with pytest.raises(ToolBadFinding):
        asyncio.run(odd.find(ToolContext(), {"question": "?"}))
    with pytest.raises(ToolBadFinding, match="nothing, as it has none"):
        asyncio.run(charge.find(ToolContext(), {}))


def test_a_refused_result_says_that_the_work_is_done() -> None:
    def positive(value: int) -> None:
        if value < 0:
            raise ValueError("below zero")

    by_raising, by_no = tool(validate=positive)(ask), tool(validate=lambda value: value > 0)(ask)
    for checked in (by_raising, by_no):
        checked.check_result(1)
        with pytest.raises(ToolBadResult) as caught:
            checked.check_result(-1)
        assert "ask was run" in str(caught.value)
    ask_again = tool(ask)
    ask_again.check_result(object())
