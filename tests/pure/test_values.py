"""Every value has one JSON form, or an error that names the part that has none."""

import collections
import dataclasses
import datetime
import enum
import functools
import json
import math
import pathlib
import uuid
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import pydantic
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from forkpoint.errors import ValueNotJson
from forkpoint.values import DEPTH, to_json


class Colour(enum.Enum):
    RED = "red"
    PAIR = (1, "x")


class Level(enum.IntEnum):
    HIGH = 3


class Word(enum.StrEnum):
    YES = "yes"


class Point(NamedTuple):
    x: int
    y: float


@dataclasses.dataclass
class Line:
    start: Point
    length: int = dataclasses.field(init=False, default=7)
    unset: int = dataclasses.field(init=False)


@dataclasses.dataclass(slots=True, frozen=True)
class Slotted:
    a: Any


class Tagged(msgspec.Struct, tag="tagged", rename="camel", omit_defaults=True):
    first_name: str = "n"
    left_out: int | msgspec.UnsetType = msgspec.UNSET


class Row(msgspec.Struct, array_like=True):
    a: int
    b: str


class Model(pydantic.BaseModel):
    day: datetime.date
    price: Decimal
    tags: set[int]


class Root(pydantic.RootModel[list[int]]):
    pass


class Lazy(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        if key == "bad":
            raise OSError("gone")
        return 1

    def __iter__(self) -> Iterator[str]:
        return iter(["ok"])

    def __len__(self) -> int:
        return 1


class Broken(Lazy):
    def __iter__(self) -> Iterator[str]:
        return iter(["bad"])


class Doubled(Lazy):
    def __len__(self) -> int:
        return 2


class Text(str):
    __slots__ = ()


class Moment(datetime.datetime):
    pass


UTC = datetime.UTC
FORMS: list[tuple[Any, Any]] = [
    ("é", "é"),
    (Text("x"), "x"),
    (True, True),
    (10**900, 10**900),
    (-0.0, -0.0),
    ((1, [2]), [1, [2]]),
    (collections.deque([1, "a"]), [1, "a"]),
    (Point(1, 2.5), [1, 2.5]),
    ({10, 9, 100}, [9, 10, 100]),
    (frozenset({"b", "a"}), ["a", "b"]),
    ({"b", 2, None, (1, 2)}, [2, "b", [1, 2], None]),
    ({None: 1, False: 2, 7: 3, Word.YES: 4, Level.HIGH: 5}, {"null": 1, "false": 2, "7": 3, "yes": 4, "3": 5}),
    ({datetime.date(2026, 1, 2): 1, uuid.UUID(int=1): 2}, {"2026-01-02": 1, f"{uuid.UUID(int=1)}": 2}),
    (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    (Lazy(), {"ok": 1}),
    (Line(Point(0, 0.5)), {"start": [0, 0.5], "length": 7}),
    (Slotted(Slotted(None)), {"a": {"a": None}}),
    (Tagged(), {"type": "tagged", "firstName": "n"}),
    (Row(1, "x"), [1, "x"]),
    (Colour.RED, "red"),
    (Colour.PAIR, [1, "x"]),
    (Level.HIGH, 3),
    (Word.YES, "yes"),
    (datetime.datetime(2026, 1, 2, 3, 4, 5, 6, UTC), "2026-01-02T03:04:05.000006Z"),
    (datetime.datetime(2026, 1, 2, 3, 4), "2026-01-02T03:04:00"),
    (Moment(2026, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2))), "2026-01-02T00:00:00+02:00"),
    (datetime.time(3, 4, tzinfo=UTC), "03:04:00Z"),
    (datetime.timedelta(days=1, seconds=2), "P1DT2S"),
    (Decimal("1.10"), "1.10"),
    (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
    (b"\x00\xff", "AP8="),
    (bytearray(b"a"), "YQ=="),
    (memoryview(b"a"), "YQ=="),
    (pathlib.PurePosixPath("a/b"), "a/b"),
    (
        Model(day=datetime.date(2026, 1, 2), price=Decimal(2), tags={3}),
        {"day": "2026-01-02", "price": "2", "tags": [3]},
    ),
    (Root([1, 2]), [1, 2]),
]


@pytest.mark.parametrize(("value", "form"), FORMS, ids=[type(value).__name__ for value, _ in FORMS])
def test_each_kind_of_value_has_its_documented_form(value: Any, form: Any) -> None:
    for made in (to_json(value), to_json([value])[0], to_json({"k": value})["k"]):
        assert repr(made) == repr(form)


def circle() -> list[Any]:
    inside: dict[str, Any] = {"a": [1]}
    inside["a"].append({"again": inside})
    return [0, inside]


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


REFUSED: list[tuple[Any, str, str]] = [
    ({"a": [1, 2, {"b": math.nan}]}, "$.a[2].b", "nan is not a JSON number"),
    ([math.inf], "$[0]", "inf is not a JSON number"),
    ("\ud800", "$", "half a surrogate pair"),
    ({"x": ["\udfff"]}, "$.x[0]", "half a surrogate pair"),
    ({"\ud800": 1}, "$", "a key cannot be text"),
    (pathlib.PurePosixPath("\udcff"), "$", "half a surrogate pair"),
    ({"a b": object()}, "$['a b']", "type object has no JSON form"),
    ([iter([])], "$[0]", "list_iterator has no JSON form"),
    (dataclasses.dataclass, "$", "function has no JSON form"),
    ([Line], "$[0]", "the class Line is not a value"),
    (Line(Point(0, math.nan)), "$.start[1]", "not a JSON number"),
    ({1: "a", "1": "b"}, "$", "the keys 1 and '1' both become '1'"),
    ({"in": {Word.YES: 1, uuid.UUID(int=1): 2, str(uuid.UUID(int=1)): 3}}, "$.in", "both become"),
    ({1.5: 1}, "$", "a key is a value of type float"),
    ({(1, 2): 1}, "$", "a key is a value of type tuple"),
    ({"k": {frozenset(): 1}}, "$.k", "a key is a value of type frozenset"),
    (circle(), "$[1].a[1].again", "it contains itself"),
    ([10**1000], "$[0]", "thousand digits"),
    ({"n": -(10**999)}, "$.n", "thousand digits"),
    (Tagged(first_name=1j), "$.firstName", "complex has no JSON form"),  # type: ignore[arg-type]
    (Doubled(), "$", "it changed while it was read"),
    (Broken(), "$", "reading it raised OSError: gone"),
    (pydantic.RootModel[Any](object()), "$", "could not be dumped"),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("value", "path", "detail"), REFUSED, ids=[detail for _, _, detail in REFUSED])
def test_a_value_without_a_form_is_refused_by_its_path(value: Any, path: str, detail: str) -> None:
    with pytest.raises(ValueNotJson) as caught:
        to_json(value)
    assert caught.value.code == "value.not-json"
    assert caught.value.path == path
    assert detail in caught.value.detail


def test_nesting_ends_where_the_docs_say() -> None:
    assert to_json(nested(DEPTH)) == nested(DEPTH)
    with pytest.raises(ValueNotJson, match="nests more than 200 levels"):
        to_json(nested(DEPTH + 1))
    with pytest.raises(ValueNotJson, match="nests more than 200 levels"):
        to_json(functools.reduce(lambda inner, _: {"in": inner}, range(DEPTH + 1), 1))


def test_a_value_that_stands_in_two_places_is_no_circle() -> None:
    shared = [1]
    assert to_json({"a": shared, "b": [shared]}) == {"a": [1], "b": [[1]]}


def test_the_form_shares_nothing_that_can_change() -> None:
    inner = {"n": [1]}
    form = to_json({"a": inner})
    inner["n"].append(2)
    assert form == {"a": {"n": [1]}}


def test_a_set_has_one_form_whatever_its_order() -> None:
    mixed = [3, "b", 1.5, (2, "x"), None, "a", Colour.RED]
    assert {json.dumps(to_json(set(mixed[n:] + mixed[:n]))) for n in range(len(mixed))} == {
        '[1.5, 3, "a", "b", "red", [2, "x"], null]'
    }


leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(10**40), max_value=10**40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
    st.binary(max_size=8),
    st.decimals(),
    st.uuids(),
    st.dates(),
    st.datetimes(timezones=st.sampled_from([None, UTC])),
    st.times(),
    st.timedeltas(),
    st.sampled_from([*Colour, *Level, *Word]),
)
keys = st.one_of(st.text(max_size=5), st.none(), st.booleans(), st.integers(), st.uuids(), st.sampled_from([Word.YES]))
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(keys, inner, max_size=4),
        st.builds(Slotted, inner),
        st.frozensets(st.one_of(st.integers(), st.text(max_size=3), st.booleans()), max_size=4),
    ),
    max_leaves=10,
)


@settings(deadline=None)
@given(values)
@example({"a": 5e-324, "b": [-0.0, 1e22, 2**63, 2**64, -(2**63) - 1]})
def test_a_form_equals_what_its_encoding_decodes_to(value: Any) -> None:
    try:
        form = to_json(value)
    except ValueNotJson as refused:
        assert "both become" in refused.detail
        return
    again = msgspec.json.decode(msgspec.json.encode(form))
    assert repr(again) == repr(form)
    assert repr(to_json(form)) == repr(form)
