"""Errors on the way to a model: what is not installed or not set up, and what a provider refused."""

from forkpoint.errors._base import ForkpointError


class AdapterMissing(ForkpointError):
    """Something that is not part of the core is used, and the packages it needs are not installed."""

    code = "adapter.missing"
    kind = "environment"
    says = "{what} needs {needs}, which is not installed ({command}); nothing was sent"
    why = "The core ships no framework and no provider's client; each is an extra that is installed by name."
    fix = "Run the command in brackets in the environment that Forkpoint runs in."
    what: str
    needs: str
    command: str


class ModelNotSetUp(ForkpointError):
    """The way to a model's provider cannot be made: no such provider, or no key for it."""

    code = "model.not-set-up"
    kind = "environment"
    says = "The model {model} cannot be asked: {problem}; nothing was sent"
    why = "A provider is found by the name before the colon, and needs a key and an address of its own."
    fix = "Correct the model's name, or set what is named; then resume the run, which asks again."
    model: str
    problem: str


class ModelBadSettings(ForkpointError):
    """A run's settings hold something that its model does not take."""

    code = "model.bad-settings"
    kind = "usage"
    says = "The settings for {model} cannot be used: {problem}; nothing was sent"
    why = "A setting that is misspelled would otherwise be ignored, and nobody would know that it had no effect."
    fix = "Correct the agent's settings, or fork the run with others."
    model: str
    problem: str


class ModelRefused(ForkpointError):
    """A provider was asked and would not answer, or what it answered cannot be used."""

    code = "model.refused"
    kind = "environment"
    says = "{model} answered {answered}: {detail}"
    why = "The provider refused this request; the same request would be refused again, so it is not repeated."
    fix = "Read what the provider says; correct the key, the settings or the request, then resume or fork the run."
    model: str
    answered: str
    detail: str


class ModelAnswersCalls(ForkpointError):
    """A model's message answers a tool call, which only a tool may."""

    code = "model.answers-calls"
    kind = "data"
    says = "The model answered the call {call} itself"
    why = "Each call is answered once, by its tool; a transcript in which a model does is one that no provider takes."
    fix = "Mend the Model that gave it: its message may hold texts, reasoning, files and calls, but no answers."
    call: str
