"""Compaction: when a transcript is long, what a summary replaces, and how the summary is worded.

A summary never cuts between a call and its answer, and decisions about unknown outcomes are carried over
word for word.
"""

from forkpoint import answers
from forkpoint.definition import Compaction
from forkpoint.effects import ModelCall
from forkpoint.messages import Message, Text, user
from forkpoint.outcomes import Succeeded
from forkpoint.state import RunState
from forkpoint.transcript import additions, request_digest

ASK = (
    "Summarise the conversation so far for your own later use: what was asked, what was done and found, "
    "what is still open. Keep names, numbers and identifiers exactly."
)


def wanted(state: RunState) -> bool:
    """Whether the next request should be preceded by a summary."""
    policy = state.agent.compaction
    if policy is None or state.context_tokens < policy.after_tokens:
        return False
    return replaced(state) > 1


def replaced(state: RunState) -> int:
    """How many of the first messages a summary would stand for; 0 if there is nothing to gain.

    Cuts only before a model's message that is followed by at least ``keep_steps - 1`` more of them. The policy
    may have gone with another definition of the agent while a summary was being written; then the default is kept.
    """
    policy = state.agent.compaction or Compaction(after_tokens=0)
    steps_left = policy.keep_steps
    entries = state.transcript.entries
    for place in range(len(entries) - 1, -1, -1):
        if entries[place].message.role == "assistant":
            steps_left -= 1
            if steps_left == 0:
                return place + state.transcript.cold
    return 0


def compaction(state: RunState) -> ModelCall:
    """The model call that writes the summary. It is no step: what it adds is for this request alone."""
    added = (*additions(state), user(ASK))
    digest = request_digest(state, added)
    return ModelCall(add=added, digest=digest, attempts=state.agent.attempts, compaction=True)


def replaced_by(state: RunState, outcome: Succeeded) -> tuple[int, Message]:
    """How many messages the summary in ``outcome`` replaces, and the message that stands for them."""
    written = outcome.message.text if outcome.message is not None else ""
    text = f"Summary of the conversation so far:\n{written}"
    if state.decisions:
        kept = "\n".join(f"- {said}" for said in state.decisions)
        text += f"\n\nDecisions about unknown outcomes, word for word:\n{kept}"
    return replaced(state), Message(role="user", parts=(Text(content=text, extra=answers.NOTE),))
