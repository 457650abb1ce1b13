"""Does a JSON value fit a JSON Schema? Enough of the standard for what tools declare, and pure.

Source: JSON Schema 2020-12, core and validation vocabularies. Checked: ``type``, ``properties``,
``required``, ``additionalProperties``, ``patternProperties``, ``propertyNames``, ``items``, ``prefixItems``,
``enum``, ``const``, ``anyOf``, ``oneOf``, ``allOf``, ``not``, ``$ref`` into the schema itself, the bounds of
numbers, lengths and counts, ``pattern`` and ``uniqueItems``. Any other keyword is taken as a remark. A
number with a fraction part (``1.0``) is no integer here, because a tool's ``int`` does not take it.
"""

import math
import operator
import re
from collections.abc import Iterator
from typing import Any

DEPTH = 150
"""How many schemas may be followed into one another, so that a foreign schema cannot lead in circles."""


def check_json(value: Any, schema: Any) -> str | None:
    """The first problem of ``value`` under ``schema``, with its path from ``$``; ``None`` if it fits.

    A schema that cannot be followed (a ``$ref`` to nowhere or in circles, a pattern that cannot be read) is a
    problem too: what was not checked is never accepted.
    """
    try:
        return next(_problems(value, schema, schema, "$", 0), None)
    except _Unusable as unusable:
        return str(unusable)
    except (TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        # A foreign schema may have anything under a keyword.
        return f"$: the schema cannot be read ({error})"


class _Unusable(Exception):
    """The schema itself is at fault. An exception, so that no ``anyOf`` or ``not`` makes a pass of it."""


def _problems(value: Any, schema: Any, root: Any, path: str, depth: int) -> Iterator[str]:
    if schema is True or schema == {}:
        return
    if schema is False:
        yield f"{path}: nothing is allowed here"
        return
    if not isinstance(schema, dict):
        raise _Unusable(f"{path}: the schema cannot be read")
    if depth > DEPTH:
        raise _Unusable(f"{path[:300]}: the value is too deep, or the schema leads in circles")
    yield from _of_kind(value, schema, path)
    yield from _combined(value, schema, root, path, depth + 1)
    match value:
        case dict():
            yield from _of_object(value, schema, root, path, depth + 1)
        case list():
            yield from _of_array(value, schema, root, path, depth + 1)
        case str():
            yield from _of_text(value, schema, path)
        case int() | float() if not isinstance(value, bool):
            yield from _of_number(value, schema, path)


def _of_kind(value: Any, schema: dict[str, Any], path: str) -> Iterator[str]:
    kinds = schema.get("type")
    if kinds is not None:
        names = kinds if isinstance(kinds, list) else [kinds]
        if not any(_is(value, name) for name in names):
            yield f"{path}: expected {' or '.join(map(str, names))}, got {_shown(value)}"
    if "const" in schema and not _equal(value, schema["const"]):
        yield f"{path}: expected {_shown(schema['const'])}, got {_shown(value)}"
    if "enum" in schema and not any(_equal(value, one) for one in schema["enum"]):
        yield f"{path}: expected one of {', '.join(map(_shown, schema['enum']))}, got {_shown(value)}"


def _combined(value: Any, schema: dict[str, Any], root: Any, path: str, depth: int) -> Iterator[str]:
    if "$ref" in schema:
        yield from _problems(value, _target(schema["$ref"], root), root, path, depth)
    for part in schema.get("allOf", ()):
        yield from _problems(value, part, root, path, depth)
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            yield from _choice(value, schema[keyword], root, path, depth, once=keyword == "oneOf")
    if "not" in schema and next(_problems(value, schema["not"], root, path, depth), None) is None:
        yield f"{path}: {_shown(value)} is ruled out"


def _choice(value: Any, options: list[Any], root: Any, path: str, depth: int, *, once: bool) -> Iterator[str]:
    problems = [next(_problems(value, option, root, path, depth), None) for option in options]
    fitting = problems.count(None)
    if fitting > 1 and once:
        yield f"{path}: {_shown(value)} fits {fitting} of the alternatives, not one"
    if not fitting:
        # The alternative that got furthest into the value is the one that was meant.
        told = [problem for problem in problems if problem is not None]
        inside = [problem for problem in told if not problem.startswith(f"{path}: ")]
        yield inside[0] if len(inside) == 1 else _either(told, path, value)


def _either(told: list[str], path: str, value: Any) -> str:
    wanted = list(dict.fromkeys(problem.removeprefix(f"{path}: ") for problem in told))
    end = f", got {_shown(value)}"
    if all(one.startswith("expected ") and one.endswith(end) for one in wanted) and wanted:
        names = " or ".join(one.removeprefix("expected ").removesuffix(end) for one in wanted)
        return f"{path}: expected {names}{end}"
    return f"{path}: {_shown(value)} fits none of the alternatives ({'; '.join(wanted)})"[:500]


def _of_object(value: dict[str, Any], schema: dict[str, Any], root: Any, path: str, depth: int) -> Iterator[str]:
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path}: {name!r} is missing"
    named = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    rest = schema.get("additionalProperties", True)
    for name, item in value.items():
        below = f"{path}.{name}" if name.isidentifier() else f"{path}[{name!r}]"
        matching = [part for pattern, part in patterns.items() if _matches(pattern, name)]
        if name in named:
            yield from _problems(item, named[name], root, below, depth)
        for part in matching:
            yield from _problems(item, part, root, below, depth)
        if name not in named and not matching:
            if rest is False:
                yield f"{path}: {name!r} is not known here{_known(named)}"
            else:
                yield from _problems(item, rest, root, below, depth)
        if "propertyNames" in schema:
            yield from _problems(name, schema["propertyNames"], root, below, depth)
    yield from _count(len(value), schema, "Properties", "properties", path)


def _of_array(value: list[Any], schema: dict[str, Any], root: Any, path: str, depth: int) -> Iterator[str]:
    items = schema.get("items", True)
    # Up to draft 7 a list of schemas was written as "items".
    first = items if isinstance(items, list) else schema.get("prefixItems", [])
    rest = schema.get("additionalItems", True) if isinstance(items, list) else items
    for place, item in enumerate(value):
        part = first[place] if place < len(first) else rest
        yield from _problems(item, part, root, f"{path}[{place}]", depth)
    yield from _count(len(value), schema, "Items", "items", path)
    if schema.get("uniqueItems") and any(_equal(a, b) for i, a in enumerate(value) for b in value[:i]):
        yield f"{path}: an item occurs twice"


def _of_text(value: str, schema: dict[str, Any], path: str) -> Iterator[str]:
    yield from _count(len(value), schema, "Length", "characters", path)
    pattern = schema.get("pattern")
    if pattern is not None and not _matches(pattern, value):
        yield f"{path}: {_shown(value)} does not match {pattern!r}"


def _of_number(value: float, schema: dict[str, Any], path: str) -> Iterator[str]:
    bounds = (
        ("minimum", "at least", operator.ge),
        ("maximum", "at most", operator.le),
        ("exclusiveMinimum", "more than", operator.gt),
        ("exclusiveMaximum", "less than", operator.lt),
        ("multipleOf", "a multiple of", _divides),
    )
    for keyword, words, holds in bounds:
        if keyword in schema and not holds(value, schema[keyword]):
            yield f"{path}: expected {words} {schema[keyword]}, got {_shown(value)}"


def _divides(value: float, unit: float) -> bool:
    return math.isclose(value / unit, round(value / unit), rel_tol=1e-12)


def _count(count: int, schema: dict[str, Any], keyword: str, words: str, path: str) -> Iterator[str]:
    least, most = schema.get(f"min{keyword}"), schema.get(f"max{keyword}")
    if least is not None and count < least:
        yield f"{path}: expected at least {least} {words}, got {count}"
    if most is not None and count > most:
        yield f"{path}: expected at most {most} {words}, got {count}"


def _target(ref: Any, root: Any) -> Any:
    place = root if isinstance(ref, str) and ref.startswith("#") else None
    for step in str(ref).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        place = place.get(name) if isinstance(place, dict) else None
    if place is None:
        raise _Unusable(f"$: the schema refers to {ref!r}, which it does not hold")
    return place


def _matches(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error as error:
        raise _Unusable(f"$: the schema's pattern {pattern!r} cannot be read") from error


def _is(value: Any, name: str) -> bool:
    match name:
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case _:
            return isinstance(value, _KINDS.get(name, ()))


_KINDS: dict[str, type] = {"string": str, "boolean": bool, "null": type(None), "array": list, "object": dict}


def _equal(a: Any, b: Any) -> bool:
    """Equality of JSON: ``true`` is not ``1``, and ``1`` is ``1.0``."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[name], b[name]) for name in a)
    return bool(a == b)


def _known(named: dict[str, Any]) -> str:
    return f"; known are {', '.join(map(repr, named))}" if named else ""


def _shown(value: Any) -> str:
    match value:
        case dict():
            return "an object"
        case list():
            return "an array"
        case str():
            return repr(value if len(value) <= 60 else f"{value[:60]}…")
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case _:
            return str(value)[:60]
