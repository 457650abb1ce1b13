"""A value either fits a JSON Schema, or its first problem is told with its path."""

from typing import Any

import pytest

from forkpoint.json_check import check_json

TREE = {
    "$defs": {
        "Tree": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Tree"}}, "additionalProperties": False}
    },
    "$ref": "#/$defs/Tree",
}

CIRCLES = "$: the value is too deep, or the schema leads in circles"

CASES: list[tuple[Any, Any, str | None]] = [
    (1, {}, None),
    (1, True, None),
    ({"a": 1}, {"properties": {"a": True}}, None),
    (1, False, "$: nothing is allowed here"),
    (1, {"type": "integer"}, None),
    (1.0, {"type": "integer"}, "$: expected integer, got 1.0"),
    (True, {"type": "integer"}, "$: expected integer, got true"),
    (True, {"type": "number"}, "$: expected number, got true"),
    (1, {"type": "number"}, None),
    ([], {"type": "array"}, None),
    ({}, {"type": "object"}, None),
    (None, {"type": ["string", "null"]}, None),
    (1, {"type": ["string", "null"]}, "$: expected string or null, got 1"),
    (1, {"type": "colour"}, "$: expected colour, got 1"),
    (1, {"const": 1.0}, None),
    (True, {"const": 1}, "$: expected 1, got true"),
    ([1, {"a": 2}], {"const": [1, {"a": 2}]}, None),
    ([1, {"a": True}], {"enum": [[1, {"a": 1}], "x"]}, "$: expected one of an array, 'x', got an array"),
    ("c", {"enum": ["a", "b"]}, "$: expected one of 'a', 'b', got 'c'"),
    (0, {"minimum": 1}, "$: expected at least 1, got 0"),
    (3, {"maximum": 2}, "$: expected at most 2, got 3"),
    (1, {"exclusiveMinimum": 1}, "$: expected more than 1, got 1"),
    (1, {"exclusiveMaximum": 1}, "$: expected less than 1, got 1"),
    (0.3, {"multipleOf": 0.1}, None),
    (7, {"multipleOf": 2}, "$: expected a multiple of 2, got 7"),
    ("ab", {"minLength": 3}, "$: expected at least 3 characters, got 2"),
    ("éé", {"maxLength": 2}, None),
    ("b", {"pattern": "a"}, "$: 'b' does not match 'a'"),
    ("xay", {"pattern": "a"}, None),
    ("x", {"pattern": "("}, "$: the schema's pattern '(' cannot be read"),
    ({"x": 1}, {"patternProperties": {"(": {}}}, "$: the schema's pattern '(' cannot be read"),
    ([1, 2], {"maxItems": 1}, "$: expected at most 1 items, got 2"),
    ([], {"minItems": 1}, "$: expected at least 1 items, got 0"),
    ([1, True, 1.0], {"uniqueItems": True}, "$: an item occurs twice"),
    ([1, True], {"uniqueItems": True}, None),
    ([1, "a"], {"items": {"type": "integer"}}, "$[1]: expected integer, got 'a'"),
    ([1, "a"], {"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False}, None),
    ([1, "a", 2], {"prefixItems": [{}, {}], "items": False}, "$[2]: nothing is allowed here"),
    (
        [1, "a"],
        {"items": [{"type": "integer"}], "additionalItems": {"type": "integer"}},
        "$[1]: expected integer, got 'a'",
    ),
    (
        {"a": {"b c": 1}},
        {"properties": {"a": {"properties": {"b c": {"type": "string"}}}}},
        "$.a['b c']: expected string, got 1",
    ),
    ({}, {"required": ["a"]}, "$: 'a' is missing"),
    ({"b": 1}, {"properties": {"a": {}}, "additionalProperties": False}, "$: 'b' is not known here; known are 'a'"),
    ({"b": 1}, {"additionalProperties": {"type": "string"}}, "$.b: expected string, got 1"),
    (
        {"x1": 1, "y": 1},
        {"patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": {"type": "null"}},
        "$.y: expected null, got 1",
    ),
    ({"bad": 1}, {"propertyNames": {"pattern": "^good"}}, "$.bad: 'bad' does not match '^good'"),
    ({"a": 1}, {"maxProperties": 0}, "$: expected at most 0 properties, got 1"),
    (1, {"allOf": [{"type": "integer"}, {"minimum": 2}]}, "$: expected at least 2, got 1"),
    (1, {"anyOf": [{"type": "string"}, {"type": "null"}]}, "$: expected string or null, got 1"),
    ({"a": 1}, {"anyOf": [{"type": "null"}, {"properties": {"a": {"type": "string"}}}]}, "$.a: expected string, got 1"),
    (
        "ab",
        {"anyOf": [{"type": "null"}, {"maxLength": 1}]},
        "$: 'ab' fits none of the alternatives (expected null, got 'ab'; expected at most 1 characters, got 2)",
    ),
    (1, {"anyOf": []}, "$: 1 fits none of the alternatives ()"),
    (1, {"oneOf": [{"type": "integer"}, {"type": "number"}]}, "$: 1 fits 2 of the alternatives, not one"),
    (1, {"oneOf": [{"type": "integer"}, {"type": "string"}]}, None),
    (1, {"not": {"$ref": "#/$defs/gone"}}, "$: the schema refers to '#/$defs/gone', which it does not hold"),
    (1, {"not": {"type": "integer"}}, "$: 1 is ruled out"),
    ("a", {"not": {"type": "integer"}}, None),
    ({"next": {"next": {}}}, TREE, None),
    ({"next": {"next": {"prev": 1}}}, TREE, "$.next.next: 'prev' is not known here; known are 'next'"),
    (1, {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "string"}}}, "$: expected string, got 1"),
    (1, {"$ref": "#/$defs/gone"}, "$: the schema refers to '#/$defs/gone', which it does not hold"),
    (
        1,
        {"$ref": "https://elsewhere/schema"},
        "$: the schema refers to 'https://elsewhere/schema', which it does not hold",
    ),
    (1, {"$ref": "#"}, CIRCLES),
    (1, {"$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}]}}, "$ref": "#/$defs/A"}, CIRCLES),
    (1, {"$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}]}}, "$ref": "#/$defs/A"}, CIRCLES),
    (1, {"minimum": "a"}, "$: the schema cannot be read ('>=' not supported between instances of 'int' and 'str')"),
    (1, {"enum": 5}, "$: the schema cannot be read ('int' object is not iterable)"),
    (1, "integer", "$: the schema cannot be read"),
    ("2026", {"format": "date", "title": "x", "description": "y"}, None),
    ("x" * 100, {"type": "integer"}, f"$: expected integer, got '{'x' * 60}…'"),
]


@pytest.mark.parametrize(("value", "schema", "problem"), CASES, ids=[str(n) for n in range(len(CASES))])
def test_the_first_problem_is_told(value: Any, schema: Any, problem: str | None) -> None:
    assert check_json(value, schema) == problem


def test_a_deep_value_ends_in_a_problem_not_in_a_crash() -> None:
    value: Any = {}
    for _ in range(190):
        value = {"next": value}
    assert check_json(value, TREE) is not None
    assert check_json({"next": {}}, TREE) is None
