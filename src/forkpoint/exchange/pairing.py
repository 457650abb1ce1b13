"""Messages of a chat put in the order that every transcript has: each response with the results of its calls.

A result is matched by where it stands: to the newest response that awaits its call id. Real transcripts reuse ids.
"""

from collections.abc import Iterable

from msgspec import Struct

from forkpoint.exchange.conversation import Input, Item, Repair, Response, Result
from forkpoint.exchange.parts import parts_of_content, with_beside
from forkpoint.exchange.spoken import Spoken
from forkpoint.messages import CallPart, Message, Text


class Paired(Struct, frozen=True):
    """Items in order, what the leading system messages said, and the repairs."""

    instructions: str
    items: tuple[Item, ...]
    repairs: tuple[Repair, ...]


def paired(messages: Iterable[Spoken]) -> Paired:
    """The messages of one conversation as items."""
    told = _Pairing()
    for message in messages:
        told.add(message)
    return told.done()


class _Said:
    """A response in the making."""

    def __init__(self, spoken: Spoken, message: Message) -> None:
        self.index = spoken.index
        self.message = message
        self.results: list[Result] = []
        self.open = dict(enumerate(message.calls))


class _Pairing:
    def __init__(self) -> None:
        self._instructions: list[str] = []
        self._items: list[Input | _Said] = []
        self._repairs: list[Repair] = []
        self._awaited: dict[str, list[tuple[_Said, int]]] = {}
        self._ids: set[str] = set()

    def add(self, spoken: Spoken) -> None:
        """Take in the next message."""
        self._repairs += (Repair(spoken.index, remark) for remark in spoken.remarks)
        match spoken.role:
            case "assistant":
                self._respond(spoken)
            case "tool" | "function":
                self._answer(spoken)
            case "system" | "developer":
                self._instruct(spoken)
            case _:
                self._items.append(Input(spoken.parts, spoken.index))

    def _note(self, index: int | None, says: str) -> None:
        self._repairs.append(Repair(index, says))

    def _instruct(self, spoken: Spoken) -> None:
        texts = [part.content for part in spoken.parts if isinstance(part, Text)]
        if self._items or len(texts) != len(spoken.parts):
            self._note(spoken.index, f"a {spoken.role} message that is no opening text; taken as an input marked so")
            self._items.append(Input(spoken.parts, spoken.index))
            return
        if self._instructions:
            self._note(spoken.index, f"one more {spoken.role} message at the start; added to the instructions")
        elif spoken.role != "system":
            self._note(spoken.index, f"a {spoken.role} message; taken as the instructions")
        self._instructions.append("".join(texts))

    def _respond(self, spoken: Spoken) -> None:
        said = _Said(spoken, spoken.message)
        self._items.append(said)
        calls = said.message.calls
        for place in range(len(calls) - 1, -1, -1):
            self._awaited.setdefault(calls[place].id, []).append((said, place))
        again = sorted({part.id for part in calls if part.id in self._ids} | _doubles(calls))
        for call in again:
            self._note(spoken.index, f"the call id {call} was used before; each call keeps its own result")
        self._ids.update(part.id for part in calls)

    def _answer(self, spoken: Spoken) -> None:
        found = self._found(spoken)
        if found is None:
            self._orphan(spoken)
            return
        said, place = found
        part = said.open.pop(place)
        if said is not self._items[-1]:
            self._note(spoken.index, f"a late result of {part.name} ({part.id}) of message {said.index}; put there")
        elif any(result.place > place for result in said.results):
            self._note(
                spoken.index, f"the result of {part.name} ({part.id}) comes after that of a later call; reordered"
            )
        if spoken.tool is not None and spoken.tool != part.name:
            self._note(spoken.index, f"it names the tool {spoken.tool}, but its call is of {part.name}")
        said.results.append(Result(place, spoken.value, spoken.index))

    def _found(self, spoken: Spoken) -> tuple[_Said, int] | None:
        """The call that a tool's message answers: by its id, or where it has none by its tool's name."""
        if spoken.call is not None:
            awaited = self._awaited.get(spoken.call)
            return awaited.pop() if awaited else None
        last = next((item for item in reversed(self._items) if isinstance(item, _Said) and item.open), None)
        if last is None:
            return None
        places = [place for place, part in last.open.items() if spoken.tool in (None, part.name)]
        if not places:
            return None
        part = last.open[places[0]]
        if spoken.role == "tool":
            self._note(spoken.index, f"it names no call; taken as the result of {part.name} ({part.id})")
        self._awaited[part.id].remove((last, places[0]))
        return last, places[0]

    def _orphan(self, spoken: Spoken) -> None:
        named = f"the call {spoken.call}" if spoken.call else f"the tool {spoken.tool}" if spoken.tool else "no call"
        self._note(spoken.index, f"it answers {named}, which no call before it awaits; taken as an input marked so")
        beside = {"role": spoken.role}
        beside |= {"tool_call_id": spoken.call} if spoken.call else {}
        beside |= {"name": spoken.tool} if spoken.tool else {}
        parts, _ = parts_of_content(spoken.value)
        self._items.append(Input(tuple(with_beside(parts, {"message": beside})), spoken.index))

    def done(self) -> Paired:
        """Everything that was taken in."""
        items: list[Item] = []
        for item in self._items:
            if isinstance(item, Input):
                items.append(item)
                continue
            self._unanswered(item, last=item is self._items[-1])
            items.append(Response(item.message, tuple(item.results), item.index))
        repairs = sorted(self._repairs, key=lambda repair: -1 if repair.index is None else repair.index)
        if not items:
            repairs.append(Repair(None, "it has no messages besides instructions; the run has no steps"))
        return Paired("\n\n".join(self._instructions), tuple(items), tuple(repairs))

    def _unanswered(self, said: _Said, *, last: bool) -> None:
        became = "it waits for a decision" if last else "given up as never to be known"
        for part in said.open.values():
            self._note(said.index, f"the file has no answer to the call {part.name} ({part.id}); unknown, and {became}")


def _doubles(calls: tuple[CallPart, ...]) -> set[str]:
    ids = [part.id for part in calls]
    return {call for call in ids if ids.count(call) > 1}
