"""A function's parameters and result as JSON Schema, and the arguments of a call as the function takes them.

What the schema says is what is accepted: types are strict (``"5"`` is no ``int``), names that the function
does not have are refused. Types are those of msgspec: plain ones, ``Literal``, enums, dataclasses, named
tuples, ``TypedDict``, ``Struct``, constraints by ``Annotated[…, msgspec.Meta(…)]``; and paths. A parameter
whose annotation has something of pydantic in it (a model, ``Field``, a constraint) is pydantic's, which is
never imported for a function that does not use it.
"""

import functools
import inspect
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Annotated, Any

import msgspec

from forkpoint.errors import ValueNotJson
from forkpoint.errors.agents import ToolBadArguments, ToolBadDefinition
from forkpoint.json_check import check_json
from forkpoint.values import to_json

__all__ = ["Parameter", "Parameters", "check_json", "given_parameters", "read_parameters", "result_schema"]

_REF = "#/$defs/{name}"
_UNSET = inspect.Parameter.empty


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """One parameter: how it is annotated, and what stands in for it where a call leaves it out.

    ``adapter`` is pydantic's ``TypeAdapter`` where the annotation is pydantic's. ``fill`` says that the
    default has to be passed, because what the function has in its place is not a value (a ``Field``).
    """

    name: str
    annotation: Any
    default: Any = _UNSET
    adapter: Any = None
    fill: bool = False

    @property
    def required(self) -> bool:
        """Whether a call must give it."""
        return self.default is _UNSET


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameters:
    """What a tool takes: the JSON Schema that a model is shown, and each parameter.

    ``takes_context`` says that the function's first parameter is a ``ToolContext``, which no model sees.
    ``given`` says that the schema was given as it is, and arguments are passed as the JSON they are.
    """

    schema: dict[str, Any]
    parameters: tuple[Parameter, ...] = ()
    takes_context: bool = False
    given: bool = False

    def convert(self, tool: str, arguments: Any) -> dict[str, Any]:
        """The arguments of a call as keyword arguments.

        ``arguments`` is a JSON object, its text, or nothing (``None`` or an empty text). Raises
        ``tool.bad-arguments`` with every problem, each naming the argument and what was expected.
        """
        found = _as_object(tool, arguments)
        if self.given:
            problem = check_json(found, self.schema)
            problems = [] if problem is None else [problem.removeprefix("$").removeprefix(".").lstrip(": ")]
            made = dict(found)
        else:
            made, problems = _converted(self.parameters, found)
        if problems:
            raise ToolBadArguments(tool=tool, problem="; ".join(problems))
        return made

    def filled(self, made: Mapping[str, Any]) -> dict[str, Any]:
        """Converted arguments with the defaults of those left out, as the function's body sees them."""
        defaults = {one.name: one.default for one in self.parameters if not one.required}
        return defaults | dict(made)


def read_parameters(
    function: Callable[..., Any],
    *,
    tool: str,
    context: type,
    names: Mapping[str, Any],
    told: Mapping[str, str],
) -> Parameters:
    """What ``function`` takes. ``context`` is the type that marks a first parameter no model sees, ``names``
    the local names at its definition, ``told`` a description for each parameter that has one.

    Raises ``tool.bad-definition`` for what no model can be told of or give.
    """
    hints = _hints(function, tool, names)
    found = list(inspect.signature(function).parameters.values())
    takes_context = bool(found) and hints.get(found[0].name) is context
    own = found[1:] if takes_context else found
    parameters = tuple(_parameter(one, hints.get(one.name, Any), tool) for one in own)
    return Parameters(schema=_schema(parameters, tool, told), parameters=parameters, takes_context=takes_context)


def given_parameters(
    function: Callable[..., Any],
    schema: Mapping[str, Any],
    *,
    tool: str,
    context: type,
    names: Mapping[str, Any],
) -> Parameters:
    """What a function takes whose JSON Schema is given: any keyword arguments that fit it."""
    found = list(inspect.signature(function).parameters.values())
    takes_context = bool(found) and _hints(function, tool, names).get(found[0].name) is context
    if not found or found[-1].kind is not inspect.Parameter.VAR_KEYWORD:
        raise ToolBadDefinition(tool=tool, problem="with 'parameters' given, it must take '**arguments'")
    plain = to_json(dict(schema))
    if plain.get("type") != "object":
        raise ToolBadDefinition(tool=tool, problem="'parameters' must be the JSON Schema of an object")
    return Parameters(schema=plain, takes_context=takes_context, given=True)


def result_schema(
    function: Callable[..., Any], *, tool: str, names: Mapping[str, Any], checked: bool
) -> dict[str, Any] | None:
    """The JSON Schema of what ``function`` returns; ``None`` if it is not annotated, or with ``Any``.

    A type that has no schema gives ``None`` too, unless ``checked`` says that values will be held against
    it: then it raises ``tool.bad-definition``.
    """
    annotation = _hints(function, tool, names).get("return", Any)
    if annotation is Any:
        return None
    try:
        if _is_pydantic(annotation):
            return _settled(_adapter(annotation).json_schema(mode="serialization", ref_template=_pydantic_ref()))
        (schema,), defs = _plain_schemas([annotation])
    except Exception as error:
        if not checked:
            return None
        problem = f"its result {_named(annotation)} has no JSON Schema: {_first_line(error)}"
        raise ToolBadDefinition(tool=tool, problem=problem) from error
    return _settled(schema | ({"$defs": defs} if defs else {}))


def _hints(function: Callable[..., Any], tool: str, names: Mapping[str, Any]) -> dict[str, Any]:
    target = function.func if isinstance(function, functools.partial) else function
    target = target if inspect.isroutine(target) else type(target).__call__
    try:
        return typing.get_type_hints(target, localns=dict(names), include_extras=True)
    except Exception as error:
        problem = f"its annotations cannot be read: {_first_line(error)}"
        raise ToolBadDefinition(tool=tool, problem=problem) from error


def _parameter(found: inspect.Parameter, annotation: Any, tool: str) -> Parameter:
    if found.kind in (found.POSITIONAL_ONLY, found.VAR_POSITIONAL, found.VAR_KEYWORD):
        problem = f"the parameter '{found}' has no name that a model could give it by"
        raise ToolBadDefinition(tool=tool, problem=problem)
    default, fill = found.default, False
    if _is_field(default):
        annotation, default, fill = Annotated[annotation, default], _field_default(default), True
    if not _is_pydantic(annotation):
        return Parameter(name=found.name, annotation=annotation, default=default)
    try:
        adapter = _adapter(annotation)
    except Exception as error:
        raise _no_schema(tool, found.name, annotation, error) from error
    return Parameter(name=found.name, annotation=annotation, default=default, adapter=adapter, fill=fill)


def _schema(parameters: tuple[Parameter, ...], tool: str, told: Mapping[str, str]) -> dict[str, Any]:
    schemas, defs = _schemas(parameters, tool)
    properties = {one.name: _described(one, schemas[one.name], told.get(one.name)) for one in parameters}
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    required = [one.name for one in parameters if one.required]
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    if defs:
        schema["$defs"] = defs
    return _settled(schema)


def _schemas(parameters: tuple[Parameter, ...], tool: str) -> tuple[dict[str, Any], dict[str, Any]]:
    made: dict[str, Any] = {}
    for one in parameters:
        if one.adapter is None:
            # One at a time first, so that an error can name its parameter.
            try:
                _plain_schemas([one.annotation])
            except Exception as error:
                raise _no_schema(tool, one.name, one.annotation, error) from error
    plain = [one for one in parameters if one.adapter is None]
    found, defs = _plain_schemas([one.annotation for one in plain])
    made.update({one.name: schema for one, schema in zip(plain, found, strict=True)})
    foreign = [(one.name, "validation", one.adapter) for one in parameters if one.adapter is not None]
    if foreign:
        named, top = type(foreign[0][2]).json_schemas(foreign, ref_template=_pydantic_ref())
        made.update({name: schema for (name, _), schema in named.items()})
        both = defs.keys() & top.get("$defs", {}).keys()
        if both:
            problem = f"{sorted(both)[0]} names a type of pydantic and another one; rename one of them"
            raise ToolBadDefinition(tool=tool, problem=problem)
        defs = {**defs, **top.get("$defs", {})}
    return made, defs


def _described(parameter: Parameter, schema: dict[str, Any], told: str | None) -> dict[str, Any]:
    described = dict(schema)
    text = next((note for note in _notes(parameter.annotation) if isinstance(note, str)), told)
    if text and "description" not in described:
        described["description"] = text
    if not parameter.required and "default" not in described:
        try:
            described["default"] = to_json(parameter.default)
        except ValueNotJson:
            # A default that only Python can hold: the model need not know it, only that it may leave it out.
            return described
    return described


def _converted(parameters: tuple[Parameter, ...], found: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    made: dict[str, Any] = {}
    problems: list[str] = []
    known = 0
    for one in parameters:
        if one.name not in found:
            if one.required:
                problems.append(f"{one.name!r} is missing")
            elif one.fill:
                made[one.name] = one.default
            continue
        known += 1
        try:
            made[one.name] = _convert(one, found[one.name])
        except msgspec.ValidationError as error:
            problems.append(_at(one.name, str(error)))
        except ValueError as error:
            problems.extend(_pydantic_problems(one.name, error))
    if known < len(found):
        names = [one.name for one in parameters]
        known_are = f"known are {', '.join(map(repr, names))}" if names else "it takes none"
        problems.extend(f"{name!r} is not known; {known_are}" for name in found if name not in names)
    return made, problems


def _convert(parameter: Parameter, value: Any) -> Any:
    if parameter.adapter is not None:
        return parameter.adapter.validate_json(msgspec.json.encode(value), strict=True)
    return msgspec.convert(value, parameter.annotation, str_keys=True, dec_hook=_from_json)


def _as_object(tool: str, arguments: Any) -> dict[str, Any]:
    if arguments is None or arguments == "":
        return {}
    found = arguments
    if isinstance(arguments, str):
        try:
            found = msgspec.json.decode(arguments)
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            raise ToolBadArguments(tool=tool, problem=f"they are not JSON ({error})") from error
    if not isinstance(found, dict):
        kind = {list: "an array", str: "a text", bool: "a boolean"}.get(type(found), "a single value")
        raise ToolBadArguments(tool=tool, problem=f"expected a JSON object, got {kind}")
    return found


def _at(name: str, text: str) -> str:
    """msgspec's sentence, with the argument's own name in place of its ``$``."""
    what, _, path = text.partition(" - at `")
    below = path.removesuffix("`").removeprefix("$")
    return f"{name}{below}: {what[:1].lower()}{what[1:]}"


def _pydantic_problems(name: str, error: ValueError) -> Iterator[str]:
    listed = getattr(error, "errors", None)
    if listed is None:
        yield f"{name}: {_first_line(error)}"
        return
    for one in listed(include_url=False, include_context=False):
        steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in one["loc"]]
        yield f"{name}{''.join(steps)}: {one['msg'][:1].lower()}{one['msg'][1:]}"


def _plain_schemas(annotations: list[Any]) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    return msgspec.json.schema_components(annotations, schema_hook=_hook, ref_template=_REF)


def _hook(kind: type) -> dict[str, Any]:
    if issubclass(kind, PurePath):
        return {"type": "string", "format": "path"}
    raise NotImplementedError(f"{kind.__qualname__} has no JSON form")


def _from_json(kind: type, value: Any) -> Any:
    if issubclass(kind, PurePath) and isinstance(value, str):
        return kind(value)
    raise msgspec.ValidationError(f"Expected `{kind.__qualname__}`, got `{type(value).__name__}`")


def _is_pydantic(annotation: Any) -> bool:
    if "pydantic" not in sys.modules:
        return False
    return any(_of_pydantic(part) for part in _parts(annotation))


def _of_pydantic(part: Any) -> bool:
    kind = part if isinstance(part, type) else type(part)
    if kind.__module__.partition(".")[0] in ("pydantic", "pydantic_core", "annotated_types"):
        return True
    return hasattr(part, "__pydantic_core_schema__") or hasattr(part, "__get_pydantic_core_schema__")


def _parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in (*typing.get_args(annotation), *_notes(annotation)):
        if not isinstance(part, str | int | None):
            yield from _parts(part)


def _notes(annotation: Any) -> tuple[Any, ...]:
    return getattr(annotation, "__metadata__", ())


def _is_field(default: Any) -> bool:
    kind = type(default)
    return kind.__name__ == "FieldInfo" and kind.__module__.startswith("pydantic")


def _field_default(found: Any) -> Any:
    return _UNSET if found.is_required() else found.get_default(call_default_factory=True)


def _adapter(annotation: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(annotation)


def _pydantic_ref() -> str:
    return _REF.replace("{name}", "{model}")


def _settled(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema as it reads back from a journal, so that it equals the recorded one."""
    plain: dict[str, Any] = to_json(schema)
    return plain


def _no_schema(tool: str, name: str, annotation: Any, error: Exception) -> ToolBadDefinition:
    problem = f"the parameter {name!r} of type {_named(annotation)} has no JSON Schema: {_first_line(error)}"
    return ToolBadDefinition(tool=tool, problem=problem)


def _named(annotation: Any) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
