"""What a provider's failure means for a run: ask again, or not, and which words are kept of it.

Pydantic AI, the provider's client and the HTTP library below each have classes of their own, which change between
releases and of which only some are installed. They are told apart by name, along the chain of causes.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from forkpoint.errors import AdapterMissing, ModelNotSetUp, ModelRefused
from forkpoint.ports import ModelUnavailable

SHOWN = 300
"""How many characters of what a provider said are kept."""

_AGAIN = frozenset({408, 409, 425, 429})
"""Statuses under 500 that say: not now."""

_PASSING = frozenset(
    {
        # Pydantic AI
        "ModelConnectionError",
        "ModelRequestTimeout",
        "ModelRateLimitError",
        "ModelUnavailableError",
        "ModelServerError",
        # the providers' clients
        "APIConnectionError",
        "InternalServerError",
        "RateLimitError",
        # HTTP and below
        "TransportError",
        "StreamError",
        "TimeoutError",
        "ConnectionError",
        # a body that ends too early is no JSON
        "JSONDecodeError",
    }
)
"""Classes of errors that pass: nobody answered, or the answer did not arrive whole."""

_PASSING_KINDS = frozenset(
    {"api_error", "overloaded_error", "rate_limit_error", "rate_limit_exceeded", "server_error", "timeout_error"}
)
"""What providers call such errors where they tell of them inside a stream."""

_SPENT = frozenset({"insufficient_quota", "billing_error", "billing_hard_limit_reached"})
"""What they call an account without money: waiting does not help, whatever the status."""

_KEY = re.compile(r"(?i)\b(?:bearer\s+|(?:sk|pk|key|api|xai|gsk|AIza)[-_])[\w*.~+/=-]{5,}[\w*/=]")


_CUT = "Streamed response ended"
"""How Pydantic AI begins to tell of a stream in which nothing came; there is no class for it."""

_THEIRS = frozenset({"AgentRunError", "APIError", "HTTPError"})
"""The bases of errors that tell of a provider, beside those that pass; what has none of them is a fault of code."""


def translated(error: Exception, *, model: str, keys: Sequence[str] = ()) -> Exception:
    """The error that a run records for ``error``: ``ModelUnavailable`` where asking again may help.

    Otherwise ``ModelRefused``, or what says that the provider cannot be asked at all, or ``error`` itself where it
    is no provider's. ``keys`` are never shown.
    """
    chain = list(_chain(error))
    names = {kind.__name__ for one in chain for kind in type(one).__mro__}
    status = next((one for one in (getattr(link, "status_code", None) for link in chain) if _is_error(one)), None)
    detail = shown(_detail(chain), keys)
    if isinstance(error, ImportError):
        return missing(model, error)
    if "UserError" in names:
        return ModelNotSetUp(model=model, problem=detail.rstrip("."))
    if _passes(chain, names, status):
        said = f"answered {status}" if status else "gave no whole answer"
        return ModelUnavailable(f"{model} {said}: {detail}", retry_after_s=_retry_after_s(chain))
    if not names & _THEIRS:
        return error
    return ModelRefused(model=model, answered=str(status or "with an error"), detail=detail)


def missing(model: str, error: ImportError | None = None) -> AdapterMissing:
    """The error for a model whose packages are not installed; ``error`` if one of a single provider is not."""
    provider = model.partition(":")[0]
    needs = "forkpoint[models]" if error is None else f"pydantic-ai-slim[{provider}]"
    return AdapterMissing(what=f"The model {model}", needs=f"the extra '{needs}'", command=f"pip install '{needs}'")


def shown(text: str, keys: Sequence[str] = ()) -> str:
    """A text of the outside world as it may be kept: on one line, cut, and without any key."""
    for key in keys:
        text = text.replace(key, "[key]")
    text = " ".join(_KEY.sub("[key]", text).split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text)} characters)"


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__


def _is_error(status: Any) -> bool:
    return isinstance(status, int) and status >= 400


def _passes(chain: list[BaseException], names: set[str], status: int | None) -> bool:
    kinds = {kind for one in chain for kind in _kinds(getattr(one, "body", None))}
    if kinds & _SPENT or "ModelQuotaExceededError" in names:
        return False
    if status is not None:
        return status in _AGAIN or status >= 500
    return bool(names & _PASSING or kinds & _PASSING_KINDS) or str(chain[0]).startswith(_CUT)


def _kinds(body: Any) -> Iterator[str]:
    held = _held(body)
    yield from (held[name] for name in ("type", "code") if isinstance(held.get(name), str))


def _held(body: Any) -> dict[str, Any]:
    """The part of a body that tells of the error; OpenAI's client has unpacked it, Anthropic's has not."""
    if not isinstance(body, dict):
        return {}
    inner = body.get("error")
    return inner if isinstance(inner, dict) else body


def _detail(chain: list[BaseException]) -> str:
    for one in chain:
        body = getattr(one, "body", None)
        message = _held(body).get("message")
        if isinstance(message, str) and message:
            return message
        if isinstance(body, str) and body:
            return body
    told = next((str(one) for one in chain if str(one)), "")
    # A connection error of the clients says no more than that; the last cause says what happened.
    last = f"{type(chain[-1]).__name__}: {chain[-1]}" if len(chain) > 1 else ""
    return f"{told} ({last})" if last and str(chain[-1]) not in told else told or type(chain[0]).__name__


def _retry_after_s(chain: list[BaseException]) -> float | None:
    """How long the provider asks to wait: in seconds, or as Pydantic AI reads a date."""
    headers = next((one for one in (getattr(link, "headers", None) for link in chain) if one), None) or {}
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            waits_s = float(headers.get(name, "")) * unit_s
        except ValueError:
            continue
        if 0 <= waits_s < float("inf"):
            return waits_s
    told = getattr(chain[0], "retry_after", None)
    return float(told) if isinstance(told, int | float) else None
