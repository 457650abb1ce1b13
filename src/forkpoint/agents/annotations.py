"""What an annotation means in JSON: its schema, and how a JSON value becomes what it asks for.

Annotations are msgspec's, with paths besides. One that has something of pydantic in it, or a constraint of
``annotated_types``, is pydantic's as a whole; pydantic is never imported for a function that has neither.
"""

import dataclasses
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

import msgspec

REF = "#/$defs/{name}"

Foreign = tuple[str, Any]
"""A name, and pydantic's ``TypeAdapter`` of what is annotated there."""


def plain_schemas(annotations: list[Any]) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    """A JSON Schema for each of msgspec's annotations, and the definitions they refer to."""
    return msgspec.json.schema_components(annotations, schema_hook=_schema_of, ref_template=REF)


def foreign_schemas(adapters: list[Foreign], *, mode: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A JSON Schema for each of pydantic's adapters by name, and the definitions they refer to.

    ``mode`` is pydantic's: ``validation`` for what goes in, ``serialization`` for what comes out.
    """
    asked = [(name, mode, adapter) for name, adapter in adapters]
    found, top = type(adapters[0][1]).json_schemas(asked, ref_template=REF.replace("name", "model"))
    return {name: schema for (name, _), schema in found.items()}, top.get("$defs", {})


def plain_converter(annotation: Any) -> Callable[[Any], Any]:
    """What turns JSON into a value of one of msgspec's annotations. It raises ``msgspec.ValidationError``."""
    return lambda value: msgspec.convert(value, annotation, str_keys=True, dec_hook=_path)


def foreign_converter(adapter: Any) -> Callable[[Any], Any]:
    """The same for one of pydantic's. Strict, so that what the schema says is what is accepted."""
    return lambda value: adapter.validate_json(msgspec.json.encode(value), strict=True)


def adapter_of(annotation: Any) -> Any:
    """Pydantic's ``TypeAdapter`` of an annotation that is pydantic's."""
    from pydantic import TypeAdapter

    return TypeAdapter(annotation)


def is_foreign(annotation: Any) -> bool:
    """Whether an annotation has anything of pydantic in it: a model, a ``Field``, a constraint."""
    if "pydantic" not in sys.modules and "annotated_types" not in sys.modules:
        return False
    return any(_of_pydantic(part) for part in _parts(annotation, set()))


def is_field(default: object) -> bool:
    """Whether a default is pydantic's ``Field(…)``, which describes one instead of being it."""
    kind = type(default)
    return kind.__name__ == "FieldInfo" and kind.__module__.startswith("pydantic")


def notes(annotation: Any) -> tuple[Any, ...]:
    """What ``Annotated`` adds to an annotation."""
    return getattr(annotation, "__metadata__", ())


def _schema_of(kind: type) -> dict[str, Any]:
    if issubclass(kind, PurePath):
        return {"type": "string", "format": "path"}
    raise NotImplementedError(f"{kind.__qualname__} has no JSON form")


def _path(kind: type, value: Any) -> Any:
    if isinstance(value, str):
        return kind(value)
    raise msgspec.ValidationError(f"Expected `str`, got `{type(value).__name__}`")


def _of_pydantic(part: Any) -> bool:
    kind = part if isinstance(part, type) else type(part)
    if kind.__module__.partition(".")[0] in ("pydantic", "pydantic_core", "annotated_types"):
        return True
    return hasattr(part, "__pydantic_core_schema__") or hasattr(part, "__get_pydantic_core_schema__")


def _parts(annotation: Any, seen: set[int]) -> Iterator[Any]:
    if id(annotation) in seen:
        return
    seen.add(id(annotation))
    yield annotation
    for part in (*typing.get_args(annotation), *notes(annotation), *_fields(annotation)):
        yield from _parts(part, seen)


def _fields(annotation: Any) -> Iterator[Any]:
    if dataclasses.is_dataclass(annotation) or typing.is_typeddict(annotation):
        try:
            yield from typing.get_type_hints(annotation, include_extras=True).values()
        except NameError:
            # It names a type that cannot be found from here; who makes the schema says so.
            return
