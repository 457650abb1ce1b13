"""Errors about what is asked of a run: refusals of ``decide``."""

from forkpoint.errors._base import ForkpointError


class RunIsStopped(ForkpointError):
    """A stopped run takes nothing more."""

    code = "run.stopped"
    kind = "conflict"
    says = "Run {run} was stopped for good; nothing was written"
    why = "Stopping is final. The run can be read, compared and forked."
    fix = "Fork it at the moment you want to go on from."
    run: str


class InputKeyReused(ForkpointError):
    """An input came under a key that another input has."""

    code = "input.key-reused"
    kind = "conflict"
    says = "Run {run} has another input under the key '{key}'; nothing was written"
    why = "A key makes a resend the same input, so it cannot name two different ones."
    fix = "Send the same content under this key, or choose a new key."
    run: str
    key: str


class EffectNotUnknown(ForkpointError):
    """A decision was given for an effect whose outcome is not in doubt."""

    code = "effect.not-unknown"
    kind = "conflict"
    says = "The outcome of effect {effect} of run {run} is not in doubt; nothing was written"
    why = "It is still open, was answered, or never was unknown. Only an unknown outcome can be resolved."
    fix = "List what waits for a decision with 'forkpoint waits'."
    run: str
    effect: int


class EffectNotFound(ForkpointError):
    """No effect has this id in this run."""

    code = "effect.not-found"
    kind = "usage"
    says = "Run {run} has no effect {effect}; nothing was written"
    why = "An effect is named by the number of the event that requested it, in the run that requested it."
    fix = "List what waits for a decision with 'forkpoint waits', or look at the run with 'forkpoint show'."
    run: str
    effect: int


class EffectAlreadyResolved(ForkpointError):
    """A second, different decision about the same unknown outcome."""

    code = "effect.already-resolved"
    kind = "conflict"
    says = "Effect {effect} of run {run} was resolved as {decided}, not {asked}; nothing was written"
    why = "The first decision is in the conversation already, and the agent may have acted on it."
    fix = "Send the run a message that says what you know now, or fork it before the decision."
    run: str
    effect: int
    decided: str
    asked: str


class ApprovalNotAsked(ForkpointError):
    """An approval was given or refused for a call that asks for none."""

    code = "approval.not-asked"
    kind = "conflict"
    says = "Effect {effect} of run {run} asks for no approval; nothing was written"
    why = "It never needed one, is done, was cancelled, or is no call at all."
    fix = "List what waits for a decision with 'forkpoint waits'."
    run: str
    effect: int


class ApprovalDecidedAlready(ForkpointError):
    """A second, different decision about the same approval."""

    code = "approval.already-decided"
    kind = "conflict"
    says = "The approval of effect {effect} of run {run} was decided as {decided}, not {asked}; nothing was written"
    why = "One question has one answer, and the call may be running because of the first."
    fix = "Interrupt the run if it must not go on, or fork it at the approval and decide otherwise there."
    run: str
    effect: int
    decided: str
    asked: str


class ApprovalOfOtherArguments(ForkpointError):
    """An approval that was given for other arguments than those of the call."""

    code = "approval.other-arguments"
    kind = "conflict"
    says = "The approval is for another call than effect {effect} ({tool}) of run {run} makes; nothing was written"
    why = "An approval is bound to one tool and its exact arguments. For any other it means no."
    fix = "Look at the call as it stands with 'forkpoint waits', and decide about that."
    run: str
    effect: int
    tool: str


class AnswerNotAwaited(ForkpointError):
    """An answer came for a call that does not wait for one."""

    code = "answer.not-awaited"
    kind = "conflict"
    says = "Effect {effect} of run {run} does not wait for an answer; nothing was written"
    why = "Only a call of an external tool is answered from outside, once, and after any approval it needs."
    fix = "List what waits for a decision with 'forkpoint waits'."
    run: str
    effect: int


class AnswerUnfit(ForkpointError):
    """An answer or edited arguments do not fit the tool's schema."""

    code = "answer.unfit"
    kind = "usage"
    says = (
        "What was given for effect {effect} ({tool}) of run {run} does not fit: {detail}; nothing was written"
    )
    why = "The tool's recorded schema says what it takes and gives."
    fix = "Give a value of that shape; 'forkpoint show' has the tool's schema."
    run: str
    effect: int
    tool: str
    detail: str


class AgentToolGone(ForkpointError):
    """A call waits for a tool that the agent no longer has."""

    code = "agent.tool-gone"
    kind = "conflict"
    says = "Calls of run {run} wait for tools that this agent lacks: {tools}; nothing was written"
    why = "A call that was asked for can only be ended by its tool, a decision, or a patch."
    fix = "Give the agent those tools, or resolve, deny or interrupt the calls first."
    run: str
    tools: str


class AgentDiffers(ForkpointError):
    """The agent given is not the one that the run recorded."""

    code = "agent.differs"
    kind = "conflict"
    says = "Run {run} was recorded under another definition of the agent: {differences}; nothing was written"
    why = "Going on under another model, instructions or tools changes what the run means."
    fix = "Pass accept_changes=True (--accept-changes) to go on and have the change recorded."
    run: str
    differences: str


class TranscriptInvalid(ForkpointError):
    """Messages that no provider would take."""

    code = "transcript.invalid"
    kind = "usage"
    says = "Message {index} breaks the transcript: {detail}; nothing was written"
    why = "Each call must be answered once, in call order, before anything else follows."
    fix = "Answer the call, or remove it together with its answer."
    index: int
    detail: str
