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
    why = "An effect is named by the number of the event that requested it, or by the provider's id of its call."
    fix = "List what waits for a decision with 'forkpoint waits', or look at the run with 'forkpoint show'."
    run: str
    effect: int | str


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
    says = "What was given for effect {effect} ({tool}) of run {run} does not fit: {detail}; nothing was written"
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


class AgentMissing(ForkpointError):
    """The run's agent is not among those that this process has."""

    code = "agent.missing"
    kind = "usage"
    says = "There is no agent {agent} here; the agents here are: {known}"
    why = "A run is performed with its agent's own model and tools, which only a program that defines them has."
    fix = "Pass it to connect(agents=[...]), or name its module with --app. A function is begun by runtime.record."
    agent: str
    known: str


class ToolGone(ForkpointError):
    """A call on record needs a tool that this process does not have."""

    code = "tool.gone"
    kind = "usage"
    says = "Effect {effect} of run {run} needs the tool {tool}, which this process does not have; nothing was written"
    why = "The call was asked for under an agent that had it. Without its code nobody can perform it."
    fix = "Give the agent that tool, or resolve, deny or interrupt the call."
    run: str
    tool: str
    effect: int


class ForkNoSuchPoint(ForkpointError):
    """A moment that the run does not have."""

    code = "fork.no-such-point"
    kind = "usage"
    says = "Run {run} has no moment {point}; it has {exist}; nothing was written"
    why = "A moment is an event of the run, the end of one of its steps or turns, or a call that was asked for."
    fix = "Choose one of those; 'forkpoint show RUN' lists them."
    run: str
    point: str
    exist: str


class ForkBadPoint(ForkpointError):
    """More than one moment was given where one is meant."""

    code = "fork.bad-point"
    kind = "usage"
    says = "Several moments were given ({given}) where one is meant; nothing was written"
    why = "A fork has one place at which it leaves its parent."
    fix = "Give one of at, step, turn and before."
    given: str


class ForkNameTaken(ForkpointError):
    """The id chosen for a fork belongs to a run."""

    code = "fork.name-taken"
    kind = "conflict"
    says = "There is a run {run} already; nothing was written"
    why = "Each fork is a run of its own, and an id names one run for ever, also after it was deleted with forks left."
    fix = "Choose another id, or leave it out for the next free <run>.fork-<n>."
    run: str


class ForkNoSuchCall(ForkpointError):
    """A patch names a tool call that the transcript does not have at the fork point."""

    code = "fork.no-such-call"
    kind = "usage"
    says = "Run {run} has no tool call {call} at event {at}; nothing was written"
    why = "A result can be replaced only for a call that was asked for by then, and that the patch has not removed."
    fix = "Take the call's id from 'forkpoint show RUN', or fork at a later moment."
    run: str
    call: str
    at: int


class ForkAmbiguousCall(ForkpointError):
    """A provider's call id that names more than one call of the run."""

    code = "fork.ambiguous-call"
    kind = "usage"
    says = "The call id {call} names several effects: {effects}; nothing was written"
    why = "Providers reuse call ids, so that an id alone may not say which call is meant."
    fix = "Give the effect's number instead."
    call: str
    effects: str


class PatchBad(ForkpointError):
    """A patch has a part that cannot be applied."""

    code = "patch.bad"
    kind = "usage"
    says = "The patch's {part} cannot be applied: {detail}; nothing was written"
    why = "A patch is checked as a whole before the fork is made."
    fix = "Correct that part; the docs under 'Forking and patches' show each."
    part: str
    detail: str


class PatchInvalid(ForkpointError):
    """A patch leaves a transcript that no provider would take."""

    code = "patch.invalid"
    kind = "usage"
    says = "The patch leaves message {index} invalid: {detail}; nothing was written"
    why = "Each call must be answered once, in call order, before anything else follows."
    fix = "Remove a call together with its answer, or answer it in the same patch."
    index: int
    detail: str


class ReplayNoHistory(ForkpointError):
    """A list of events that is not a history."""

    code = "replay.no-history"
    kind = "usage"
    says = "Event {place} of the history is missing; {found} is in its place"
    why = "A state is the fold of events 1 to n without a gap."
    fix = "Read the run's whole history, or cut the list before the gap."
    place: int
    found: int


class RequestAltered(ForkpointError):
    """A request cannot be rebuilt as the model was shown it."""

    code = "request.altered"
    kind = "data"
    says = "The request at step {step} of run {run} does not match the digest on record; nothing was written"
    why = "Something that it was built from was altered after it was written, or this release has a fault."
    fix = "Run 'forkpoint verify'; if the store is sound, please report this as a fault of Forkpoint."
    run: str
    step: int


class ModelNoProvider(ForkpointError):
    """No model of that name is known here."""

    code = "model.no-provider"
    kind = "usage"
    says = "There is no way to the model {model} here"
    why = "A model is an object, or found by its name: provider:model, or a name that connect(models=...) knows."
    fix = "Give the agent a Model, or pass models={name: Model} (or a function from name to Model) to connect."
    model: str


class WorkspaceNone(ForkpointError):
    """A run has no workspace, so that there are no files to look at or put back."""

    code = "workspace.none"
    kind = "usage"
    says = "Run {run} has no workspace; nothing was written"
    why = "It was started, or forked, without a folder of its own."
    fix = "Start with workspace=FOLDER, or fork with workspace=FOLDER (--workspace DIR) from a run that has one."
    run: str


class ArgumentUnfit(ForkpointError):
    """An argument of a call to Forkpoint is of a kind or value that it cannot take."""

    code = "argument.unfit"
    kind = "usage"
    says = "{argument} takes {takes}, not {given}; nothing was written"
    why = "Another value would be stored, and mean something else or nothing later."
    fix = "Pass that; the docstring of the call says what each argument means."
    argument: str
    given: str
    takes: str
