"""What a model is told of parameters, and what a function gets of them. Types of msgspec and of pydantic."""

import dataclasses
import datetime
import decimal
import enum
import pathlib
import subprocess
import sys
import uuid
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forkpoint.agents.tool import Tool, tool
from forkpoint.errors.agents import ToolBadArguments, ToolBadDefinition
from forkpoint.json_check import check_json
from forkpoint.values import to_json


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Item:
    sku: str
    count: Annotated[int, msgspec.Meta(ge=1)] = 1


class Point(NamedTuple):
    x: int
    y: int = 0


class Options(TypedDict, total=False):
    deep: bool


class Box(msgspec.Struct, forbid_unknown_fields=True):
    item: Item


class Address(pydantic.BaseModel):
    street: str
    number: int = pydantic.Field(ge=1, description="of the house")


class Person(pydantic.BaseModel):
    name: str
    home: Address | None = None


@dataclasses.dataclass
class Parcel:
    to: Address


def of(annotation: Any, default: Any = None) -> Tool[..., Any]:
    """A tool with one parameter ``x`` of that type."""

    def take(x: Any) -> Any:
        return x

    take.__annotations__["x"] = annotation
    if default is not None:
        take.__defaults__ = (default,)
    return tool(take)


def taken(annotation: Any, value: Any) -> Any:
    return of(annotation).convert({"x": value})["x"]


TYPES: list[tuple[Any, Any, Any]] = [
    (int, 3, 3),
    (float, 3, 3.0),
    (bool, True, True),
    (str, "é", "é"),
    (Any, {"a": [None]}, {"a": [None]}),
    (int | None, None, None),
    (list[int], [1], [1]),
    (set[str], ["a"], {"a"}),
    (tuple[int, str], [1, "a"], (1, "a")),
    (dict[int, str], {"1": "a"}, {1: "a"}),
    (Literal["a", 2], 2, 2),
    (Colour, "red", Colour.RED),
    (Item, {"sku": "a"}, Item("a")),
    (Point, [1], Point(1)),
    (Options, {"deep": True}, {"deep": True}),
    (Box, {"item": {"sku": "a", "count": 2}}, Box(Item("a", 2))),
    (datetime.datetime, "2026-01-02T03:04:05Z", datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)),
    (datetime.date, "2026-01-02", datetime.date(2026, 1, 2)),
    (decimal.Decimal, "1.10", decimal.Decimal("1.10")),
    (uuid.UUID, str(uuid.UUID(int=1)), uuid.UUID(int=1)),
    (bytes, "AP8=", b"\x00\xff"),
    (pathlib.PurePosixPath, "a/b", pathlib.PurePosixPath("a/b")),
    (list[pathlib.PurePosixPath], ["a"], [pathlib.PurePosixPath("a")]),
    (Person, {"name": "A", "home": {"street": "S", "number": 1}}, Person(name="A", home=Address(street="S", number=1))),
    (list[Address] | None, [{"street": "S", "number": 2}], [Address(street="S", number=2)]),
    (Parcel, {"to": {"street": "S", "number": 2}}, Parcel(Address(street="S", number=2))),
    (Annotated[int, pydantic.Field(ge=1)], 1, 1),
    (pydantic.PositiveInt, 1, 1),
    (Annotated[datetime.date, pydantic.Field(description="d")], "2026-01-02", datetime.date(2026, 1, 2)),
]


@pytest.mark.parametrize(("annotation", "value", "made"), TYPES, ids=[str(kind) for kind, _, _ in TYPES])
def test_each_type_is_described_and_made(annotation: Any, value: Any, made: Any) -> None:
    one = of(annotation)
    assert check_json({"x": value}, one.record().parameters) is None
    assert one.convert({"x": value}) == {"x": made}
    assert type(one.convert({"x": value})["x"]) is type(made)


@pytest.mark.parametrize(
    ("annotation", "value", "problem"),
    [
        (int, "5", "x: expected integer, got '5'"),
        (int, 1.0, "x: expected integer, got 1.0"),
        (int, True, "x: expected integer, got true"),
        (str, None, "x: expected string, got null"),
        (int | None, "a", "x: expected integer or null, got 'a'"),
        (list[int], [1, "a"], "x[1]: expected integer, got 'a'"),
        (Literal["a", "b"], "c", "x: expected one of 'a', 'b', got 'c'"),
        (Colour, "green", "x: expected one of 'blue', 'red', got 'green'"),
        (Item, {"sku": "a", "count": 0}, "x.count: expected at least 1, got 0"),
        (Item, {}, "x: 'sku' is missing"),
        (Box, {"item": {"sku": "a"}, "other": 1}, "x: 'other' is not known here; known are 'item'"),
        (list[Item], [{"sku": 1}], "x[0].sku: expected string, got 1"),
        (datetime.date, "soon", "x: Invalid RFC3339 encoded date"),
        (tuple[int, int], [1], "x: expected at least 2 items, got 1"),
        (Annotated[str, msgspec.Meta(pattern="^a+$")], "b", "x: 'b' does not match '^a+$'"),
        (Annotated[str, msgspec.Meta(max_length=2)], "abc", "x: expected at most 2 characters, got 3"),
        (pathlib.PurePosixPath, 3, "x: expected string, got 3"),
        (Person, {"name": 1, "home": {"street": "S", "number": 0}}, "x.name: input should be a valid string"),
        (Person, {"name": "A", "home": {"street": "S", "number": 0}}, "x.home.number: input should be greater than"),
        (pydantic.PositiveInt, "5", "x: input should be a valid integer"),
    ],
)
def test_a_wrong_argument_is_named_with_what_was_expected(annotation: Any, value: Any, problem: str) -> None:
    with pytest.raises(ToolBadArguments) as caught:
        of(annotation).convert({"x": value})
    assert problem in caught.value.problem


def test_every_wrong_argument_is_told_at_once() -> None:
    @tool
    def two(a: int, b: Person, c: str) -> None: ...

    with pytest.raises(ToolBadArguments) as caught:
        two.convert({"a": "x", "b": {}})
    assert caught.value.problem == "'c' is missing; a: expected integer, got 'x'; b.name: field required"


def test_texts_for_the_model_come_from_annotations_before_docstrings() -> None:
    @tool
    def look(
        a: Annotated[int, "from the annotation"],
        b: Annotated[int, msgspec.Meta(description="from Meta")],
        c: Annotated[int, pydantic.Field(description="from Field")],
        d: int,
    ) -> None:
        """Look.

        :param a: no
        :param b: no
        :param c: no
        :param d: from the docstring
        """

    properties = look.record().parameters["properties"]
    assert [properties[name]["description"] for name in "abcd"] == [
        "from the annotation",
        "from Meta",
        "from Field",
        "from the docstring",
    ]


def test_models_and_plain_types_share_their_definitions() -> None:
    @tool
    def send(parcel: Parcel, item: Item, more: list[Item], home: Address) -> Person: ...

    record = send.record()
    assert set(record.parameters["$defs"]) == {"Parcel", "Item", "Address"}
    assert set(record.result["$defs"]) == {"Address", "Person"}
    assert record.parameters["properties"]["more"] == {"type": "array", "items": {"$ref": "#/$defs/Item"}}


def test_two_types_of_one_name_are_not_mixed_up() -> None:
    @dataclasses.dataclass
    class Inner:
        a: int

    plain = dataclasses.make_dataclass("Address", [("inner", int)])

    def mixed(a: Any, b: Any) -> None: ...

    mixed.__annotations__.update(a=plain, b=list[Address])
    with pytest.raises(ToolBadDefinition, match="Address names a type of pydantic and another one"):
        tool(mixed)


def test_a_default_that_only_describes_itself_is_passed_as_its_value() -> None:
    @tool
    def page(size: int = pydantic.Field(10, ge=1), number: int = pydantic.Field(ge=0), rest: int = 3) -> None: ...

    assert page.record().parameters["required"] == ["number"]
    assert page.convert({"number": 1}) == {"number": 1, "size": 10}
    with pytest.raises(ToolBadArguments, match="size: input should be greater"):
        page.convert({"number": 1, "size": 0})


def test_a_default_without_json_is_left_to_the_function() -> None:
    marker = object()
    one = of(Any, marker)
    assert one.record().parameters["properties"] == {"x": {}}
    assert one.convert({}) == {}


def test_a_result_is_described_as_it_is_stored() -> None:
    def make() -> Any: ...

    for annotation, value in (
        (Item, Item("a")),
        (Point, Point(1, 2)),
        (set[Colour], {Colour.RED}),
        (dict[int, decimal.Decimal], {1: decimal.Decimal("1.5")}),
        (bytes, b"a"),
        (Person, Person(name="A")),
        (list[Parcel], [Parcel(Address(street="S", number=1))]),
        (datetime.timedelta, datetime.timedelta(1)),
        (None, None),
    ):
        make.__annotations__["return"] = annotation
        schema = tool(make).record().result
        assert schema is not None and check_json(to_json(value), schema) is None
        assert check_json(["no"], schema) is not None or annotation is set[Colour]


def test_a_result_that_nobody_checks_needs_no_schema() -> None:
    def make() -> complex: ...  # type: ignore[empty-body]

    assert tool(make).record().result is None


CHECKED = [of(annotation) for annotation in (int, str | None, list[int], Item, Options, Person, dict[str, int])]


@settings(deadline=None)
@given(st.integers() | st.text() | st.none() | st.lists(st.integers()) | st.dictionaries(st.text(), st.integers()))
def test_what_the_schema_refuses_the_function_never_gets(value: Any) -> None:
    for one in CHECKED:
        if check_json({"x": value}, one.record().parameters) is not None:
            with pytest.raises(ToolBadArguments):
                one.convert({"x": value})


def test_a_constraint_is_never_dropped_because_pydantic_was_not_imported_yet() -> None:
    script = (
        "from typing import Annotated\n"
        "from annotated_types import Ge\n"
        "from forkpoint.agents.tool import tool\n"
        "def f(a: Annotated[int, Ge(1)]) -> None: ...\n"
        "assert tool(f).record().parameters['properties'] == {'a': {'type': 'integer', 'minimum': 1}}\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_pydantic_is_not_imported_for_those_who_do_not_use_it() -> None:
    script = (
        "import sys\n"
        "from forkpoint.agents.tool import tool\n"
        "def f(a: int, b: list[str]) -> dict: ...\n"
        "tool(f).convert({'a': 1, 'b': []})\n"
        "sys.exit('pydantic' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
