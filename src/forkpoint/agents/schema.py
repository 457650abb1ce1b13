"""A function's parameters and result as JSON Schema, and a call's arguments as the function takes them.

What the schema says is what is accepted: types are strict (``"5"`` is no ``int``), and names that the
function does not have are refused.
"""

import functools
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from forkpoint.agents import annotations
from forkpoint.errors import ValueNotJson
from forkpoint.errors.agents import ToolBadArguments, ToolBadDefinition
from forkpoint.json_check import check_json
from forkpoint.values import to_json

__all__ = ["Parameter", "Parameters", "check_json", "given_parameters", "read_parameters", "result_schema"]

_UNSET: Any = inspect.Parameter.empty


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """One parameter: its annotation, what turns JSON into it, and what stands in where a call leaves it out.

    ``adapter`` is pydantic's ``TypeAdapter`` where the annotation is pydantic's. ``fill`` says that the
    default has to be passed, because what the function has in its place (a ``Field``) is not a value.
    """

    name: str
    annotation: Any
    convert: Callable[[Any], Any]
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
        """The arguments of a call as keyword arguments, which share nothing that can change with it.

        ``arguments`` is a JSON object, its text, or nothing (``None`` or an empty text). Raises
        ``tool.bad-arguments`` with every problem, each naming the argument and what was expected.
        """
        found = _as_object(tool, arguments)
        problems = self._given_problems(found) if self.given else self._unfit_names(found)
        made = found if self.given else self._converted(found, problems)
        if problems:
            raise ToolBadArguments(tool=tool, problem="; ".join(problems))
        return made

    def filled(self, made: Mapping[str, Any]) -> dict[str, Any]:
        """Converted arguments with the defaults of those left out, as the function's body sees them."""
        defaults = {one.name: one.default for one in self.parameters if not one.required}
        return defaults | dict(made)

    def _given_problems(self, found: dict[str, Any]) -> list[str]:
        problem = check_json(found, self.schema)
        return [] if problem is None else [problem.removeprefix("$").removeprefix(".").removeprefix(": ")]

    def _unfit_names(self, found: dict[str, Any]) -> list[str]:
        names = self.schema["properties"]
        missing = [f"{name!r} is missing" for name in self.schema.get("required", ()) if name not in found]
        if found.keys() <= names.keys():
            return missing
        known = f"known are {', '.join(map(repr, names))}" if names else "it takes none"
        return missing + [f"{name!r} is not known here; {known}" for name in found if name not in names]

    def _converted(self, found: dict[str, Any], problems: list[str]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for one in self.parameters:
            if one.name not in found:
                if one.fill and not one.required:
                    made[one.name] = one.default
                continue
            try:
                made[one.name] = one.convert(found[one.name])
            except msgspec.ValidationError as error:
                problems.append(self._explained(one.name, found[one.name], error))
            except ValueError as error:
                problems.extend(_foreign_problems(one.name, error))
        return made

    def _explained(self, name: str, value: Any, error: msgspec.ValidationError) -> str:
        """The problem in the words of the schema, as a process without the tool's code would tell it."""
        schema = self.schema["properties"][name] | {"$defs": self.schema.get("$defs", {})}
        problem = check_json(value, schema)
        return f"{name}: {error}" if problem is None else name + problem.removeprefix("$")


def read_parameters(
    function: Callable[..., Any], *, tool: str, context: type, names: Mapping[str, Any], told: Mapping[str, str]
) -> Parameters:
    """What ``function`` takes. ``context`` is the type that marks a first parameter no model sees, ``names``
    the local names at its definition, ``told`` a description for each parameter that has one.

    Raises ``tool.bad-definition`` for what no model can be told of or give.
    """
    hints, own, takes_context = _signature(function, tool, context, names)
    for one in own:
        if hints.get(one.name) is context:
            raise ToolBadDefinition(
                tool=tool, problem=f"{one.name!r} is a {context.__name__} and not its first parameter"
            )
    parameters = tuple(_parameter(one, hints.get(one.name, Any), tool) for one in own)
    return Parameters(schema=_schema(parameters, tool, told), parameters=parameters, takes_context=takes_context)


def given_parameters(
    function: Callable[..., Any], schema: Mapping[str, Any], *, tool: str, context: type, names: Mapping[str, Any]
) -> Parameters:
    """What a function takes whose JSON Schema is given: any keyword arguments that fit it.

    Its first parameter, if that is a ``context``, is positional only: the schema may have its name too.
    """
    _, own, takes_context = _signature(function, tool, context, names)
    first = next(iter(inspect.signature(function).parameters.values()), None)
    if takes_context and first is not None and first.kind is not inspect.Parameter.POSITIONAL_ONLY:
        problem = f"an argument could be named {first.name!r} too; write ({first}, /, **arguments)"
        raise ToolBadDefinition(tool=tool, problem=problem)
    if [one.kind for one in own] != [inspect.Parameter.VAR_KEYWORD]:
        raise ToolBadDefinition(tool=tool, problem="with 'parameters' given, it takes '**arguments' and nothing else")
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
        return _result_schema(annotation)
    except Exception as error:
        if not checked:
            return None
        raise _no_schema(tool, "its result", annotation, error) from error


def _result_schema(annotation: Any) -> dict[str, Any]:
    if annotations.is_foreign(annotation):
        adapter = annotations.adapter_of(annotation)
        found, defs = annotations.foreign_schemas([("result", adapter)], mode="serialization")
        schema = found["result"]
    else:
        (schema,), defs = annotations.plain_schemas([annotation])
    return _settled(schema | ({"$defs": defs} if defs else {}))


def _signature(
    function: Callable[..., Any], tool: str, context: type, names: Mapping[str, Any]
) -> tuple[dict[str, Any], list[inspect.Parameter], bool]:
    hints = _hints(function, tool, names)
    found = list(inspect.signature(function).parameters.values())
    takes_context = bool(found) and hints.get(found[0].name) is context
    return hints, found[1:] if takes_context else found, takes_context


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
    if annotations.is_field(default):
        described = found.default
        annotation, fill = Annotated[annotation, described], True
        default = _UNSET if described.is_required() else described.get_default(call_default_factory=True)
    if not annotations.is_foreign(annotation):
        convert = annotations.plain_converter(annotation)
        return Parameter(name=found.name, annotation=annotation, convert=convert, default=default)
    try:
        adapter = annotations.adapter_of(annotation)
    except Exception as error:
        raise _no_schema(tool, f"the parameter {found.name!r}", annotation, error) from error
    return Parameter(
        name=found.name,
        annotation=annotation,
        convert=annotations.foreign_converter(adapter),
        default=default,
        adapter=adapter,
        fill=fill,
    )


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
    plain = [one for one in parameters if one.adapter is None]
    for one in plain:
        # Each by itself first, so that an error can name its parameter.
        try:
            annotations.plain_schemas([one.annotation])
        except Exception as error:
            raise _no_schema(tool, f"the parameter {one.name!r}", one.annotation, error) from error
    found, defs = annotations.plain_schemas([one.annotation for one in plain])
    made = {one.name: schema for one, schema in zip(plain, found, strict=True)}
    foreign = [(one.name, one.adapter) for one in parameters if one.adapter is not None]
    if not foreign:
        return made, defs
    foreign_made, foreign_defs = annotations.foreign_schemas(foreign, mode="validation")
    both = sorted(defs.keys() & foreign_defs.keys())
    if both:
        problem = f"{both[0]} names a type of pydantic and another one; rename one of them"
        raise ToolBadDefinition(tool=tool, problem=problem)
    return made | foreign_made, defs | foreign_defs


def _described(parameter: Parameter, schema: dict[str, Any], told: str | None) -> dict[str, Any]:
    described = dict(schema)
    text = next((note for note in annotations.notes(parameter.annotation) if isinstance(note, str)), told)
    if text and "description" not in described:
        described["description"] = text
    if not parameter.required and "default" not in described:
        try:
            described["default"] = to_json(parameter.default)
        except ValueNotJson:
            # A default that only Python can hold: the model need not know it, only that it may leave it out.
            return described
    return described


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
    # A copy: a tool that changes its arguments must not change the message that holds them.
    plain: dict[str, Any] = to_json(found)
    return plain


def _foreign_problems(name: str, error: Any) -> Iterator[str]:
    for one in error.errors(include_url=False, include_context=False):
        steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in one["loc"]]
        yield f"{name}{''.join(steps)}: {one['msg'][:1].lower()}{one['msg'][1:]}"


def _settled(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema as it reads back from a journal, so that it equals the recorded one."""
    plain: dict[str, Any] = to_json(schema)
    return plain


def _no_schema(tool: str, what: str, annotation: Any, error: Exception) -> ToolBadDefinition:
    named = annotation.__qualname__ if isinstance(annotation, type) else str(annotation)
    return ToolBadDefinition(tool=tool, problem=f"{what} of type {named} has no JSON Schema: {_first_line(error)}")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
