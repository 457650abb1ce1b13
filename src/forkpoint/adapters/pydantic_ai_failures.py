"""The exception that a Pydantic AI agent meets for a model that gave no answer, live and on replay alike."""

import re

from pydantic_ai import exceptions

from forkpoint.agents.asking import EffectFailed
from forkpoint.outcomes import Failed
from forkpoint.runtime.asks import Answer

_STATUS = re.compile(r" answered (\d{3}): ")
_ITS_OWN = ("UnexpectedModelBehavior", "UserError", "ContentFilterError", "IncompleteToolCall", "UsageLimitExceeded")


class ModelCallFailed(EffectFailed, exceptions.ModelAPIError):  # type: ignore[misc]  # mypy does not read the framework
    """A model gave no answer. It is Pydantic AI's ``ModelAPIError`` as well, so that what catches that goes on."""

    def __init__(self, text: str, *, model: str, error: str, effect: int) -> None:
        exceptions.ModelAPIError.__init__(self, model, text)
        self.text, self.error, self.effect = text, error, effect


class ModelCallRefused(ModelCallFailed, exceptions.ModelHTTPError):  # type: ignore[misc]
    """The same where the provider answered with a status: Pydantic AI's ``ModelHTTPError`` as well."""

    def __init__(self, text: str, *, model: str, error: str, effect: int, status: int) -> None:
        exceptions.ModelHTTPError.__init__(self, status, model, text)
        self.text, self.error, self.effect = text, error, effect


def raised(answer: Answer, model: str) -> Exception:
    """The exception for a recorded model call that came to no message."""
    outcome = answer.outcome
    if not isinstance(outcome, Failed):
        return answer.failure
    text = outcome.text or outcome.error
    if outcome.error in _ITS_OWN and hasattr(exceptions, outcome.error):
        found: Exception = getattr(exceptions, outcome.error)(text)
        return found
    said = {"model": model, "error": outcome.error}
    status = _STATUS.search(text)
    if status is not None:
        return ModelCallRefused(text, **said, effect=answer.effect, status=int(status[1]))
    return ModelCallFailed(text, **said, effect=answer.effect)
