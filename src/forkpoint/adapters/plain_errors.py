"""A provider's failure on its way into the record, and out of it again as the exception that its client would raise.

In the record it is the name of the client's class and a text, ``Error code: 429 - {"message": …, "type": …}`` where the
provider answered. Out of the record the same name and text give the same exception, live and on replay alike.
"""

import json
import re
from types import ModuleType
from typing import Any

from forkpoint.adapters.provider_errors import shown, translated
from forkpoint.agents.asking import EffectFailed
from forkpoint.errors import ModelRefused
from forkpoint.messages import Message
from forkpoint.ports import ModelUnavailable
from forkpoint.runtime.asks import Answer

_SO_FAR = re.compile(r"\nUntil then it had said(?: \(the first \d+ of \d+ characters\))?: ")
_KEPT = 3000
"""How many characters of what a stream had brought stand in the record of its failure, which is cut at 4000."""

_STATUS = re.compile(r"Error code: (\d+)(?: - (\{.*\}))?", re.DOTALL)
_DETAILS = ("type", "code", "param")


class Refused(Exception):
    """A provider's final refusal, or a stream that is cut after the code has seen some of it."""


def as_recorded(error: Exception, library: ModuleType, keys: list[str]) -> Exception:
    """``error`` as an attempt ends with it: ``ModelUnavailable`` where another may help. ``keys`` are never shown."""
    found = translated(error, model="it", keys=keys)
    if found is error:
        return error
    name = _class_name(error, library)
    made: Exception
    if isinstance(found, ModelUnavailable):
        detail = str(found).partition(": ")[2]
        made = _named(name, ModelUnavailable)(_text(error, detail, keys), retry_after_s=found.retry_after_s)
    else:
        detail = found.detail if isinstance(found, ModelRefused) else str(found)
        made = _named(name, Refused)(_text(error, detail, keys))
    return made


def cut_short(error: Exception, partial: Message) -> Exception:
    """What ends a stream of which the code has seen a part, so that it is not asked for again behind its back."""
    text = partial.text
    length = f" (the first {_KEPT} of {len(text)} characters)" if len(text) > _KEPT else ""
    said = f"{error}\nUntil then it had said{length}: {text[:_KEPT]}"
    made: Exception = _named(type(error).__name__, Refused)(said)
    return made


def said_before(text: str) -> tuple[str, str]:
    """The text of an error, and what a stream had brought before it."""
    told, *partial = _SO_FAR.split(text, maxsplit=1)
    return told, "".join(partial)


def failure(answer: Answer, library: ModuleType) -> Exception:
    """The exception for an answer that is none: ``EffectFailed``, and the client's own where the record names it."""
    found = answer.failure
    name = getattr(found, "error", "")
    kind = getattr(library, name, None)
    if not (isinstance(found, EffectFailed) and isinstance(kind, type) and issubclass(kind, library.APIError)):
        return found
    text = said_before(found.text)[0]
    made: Exception = _both(name, kind)(text, error=name, effect=found.effect)
    for attribute, value in _attributes(text).items():
        setattr(made, attribute, value)
    return made


def _attributes(text: str) -> dict[str, Any]:
    """What the client's exceptions know beside their text."""
    told = _STATUS.search(text)
    body = _body(told[2]) if told else None
    made = {"message": text, "body": body, "request": None, "response": None, "request_id": None}
    made |= {name: (body or {}).get(name) for name in _DETAILS}
    return made | ({"status_code": int(told[1])} if told else {})


def _body(text: str | None) -> dict[str, Any] | None:
    try:
        body = json.loads(text or "")
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


_CLASSES: dict[tuple[type, type], Any] = {}


def _both(name: str, kind: type) -> Any:
    """The class of what is raised: the client's, and ``EffectFailed``."""
    key = (EffectFailed, kind)
    if key not in _CLASSES:

        def begin(self: Any, text: str, *, error: str, effect: int) -> None:
            Exception.__init__(self, text)
            self.text, self.error, self.effect = text, error, effect

        _CLASSES[key] = type(name, key, {"__module__": kind.__module__, "__init__": begin})
    return _CLASSES[key]


def _named(name: str, kind: type[Exception]) -> Any:
    """A class of this name: the record keeps the name."""
    return type(name, (kind,), {"__module__": __name__})


def _class_name(error: Exception, library: ModuleType) -> str:
    for kind in type(error).__mro__:
        known = getattr(library, kind.__name__, None)
        if isinstance(known, type) and issubclass(known, library.APIError):
            return kind.__name__
    return "APIConnectionError"


def _text(error: Exception, detail: str, keys: list[str]) -> str:
    status = getattr(error, "status_code", None)
    if not isinstance(status, int) or status < 400:
        return detail
    body = getattr(error, "body", None)
    held = body.get("error", body) if isinstance(body, dict) else {}
    told = {
        name: shown(held[name], keys) for name in _DETAILS if isinstance(held, dict) and isinstance(held.get(name), str)
    }
    return f"Error code: {status} - {json.dumps({'message': detail, **told}, ensure_ascii=False)}"
