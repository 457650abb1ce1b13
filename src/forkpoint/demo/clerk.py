"""A model without a provider: a clerk who works by rules, and answers by nothing but what it is shown."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from forkpoint.answers import NOTE
from forkpoint.messages import CallPart, Message, ResponsePart, Text, Usage, assistant
from forkpoint.ports import ModelProgress, ModelRequest, ModelResponse

Found: TypeAlias = Mapping[str, Any]
"""The answers so far, by the id of the call that they answer."""


class Clerk:
    """A model that collects invoices. Made for an agent with the tools ``read_invoice``, ``charge`` and ``mail``.

    It reads every invoice whose number the last input names, charges what is due, and mails a receipt; a card that
    was declined gets a reminder instead. Change what a tool answered, and it does something else.
    """

    name = "demo:clerk"

    async def respond(self, request: ModelRequest, progress: Callable[[ModelProgress], None]) -> ModelResponse:
        """What the clerk says next."""
        reply = next_message(request.messages)
        progress(ModelProgress(text=reply.text))
        usage = Usage(input_tokens=sum(map(_words, request.messages)), output_tokens=_words(reply))
        return ModelResponse(message=reply, usage=usage, cost=0.0)


def next_message(messages: Sequence[Message]) -> Message:
    """The calls that the conversation asks for next, or the closing words where none is left."""
    asked, found = _since_last_input(messages)
    numbers = list(dict.fromkeys(re.findall(r"\d+", asked)))
    if not numbers:
        return assistant("Tell me which invoices to collect, by their numbers.")
    calls = [call for number in numbers if (call := _next_call(number, found)) is not None]
    if calls:
        return assistant("", *calls)
    return assistant(" ".join(_closing(number, found) for number in numbers))


def _since_last_input(messages: Sequence[Message]) -> tuple[str, Found]:
    asked, found = "", dict[str, Any]()
    for message in messages:
        if message.role == "user" and not _is_note(message):
            asked, found = message.text, {}
        for part in message.parts:
            if isinstance(part, ResponsePart):
                found[part.id] = part.response
    return asked, found


def _is_note(message: Message) -> bool:
    return any(isinstance(part, Text) and part.extra == NOTE for part in message.parts)


def _next_call(number: str, found: Found) -> CallPart | None:
    invoice = found.get(f"read_{number}")
    if invoice is None:
        return CallPart(id=f"read_{number}", name="read_invoice", arguments={"number": number})
    if not _is_invoice(invoice):
        return None
    charge, tries = _last_charge(number, found)
    if invoice["due_cents"] > 0 and (charge is None or _never_happened(charge)):
        name = f"charge_{number}" if tries == 0 else f"charge_{number}_{tries + 1}"
        return CallPart(id=name, name="charge", arguments={"number": number, "cents": invoice["due_cents"]})
    letter = _letter(number, invoice, charge)
    if letter is None or f"mail_{number}" in found:
        return None
    return CallPart(id=f"mail_{number}", name="mail", arguments={"to": invoice["email"], **letter})


def _is_invoice(invoice: Any) -> bool:
    return isinstance(invoice, dict) and isinstance(invoice.get("due_cents"), int) and "email" in invoice


def _last_charge(number: str, found: Found) -> tuple[Any, int]:
    ids = [name for name in found if re.fullmatch(rf"charge_{number}(_\d+)?", name)]
    return (found[ids[-1]] if ids else None), len(ids)


def _never_happened(charge: Any) -> bool:
    return isinstance(charge, dict) and charge.get("resolved") == "not_occurred"


def _is_paid(charge: Any) -> bool:
    return isinstance(charge, dict) and (charge.get("status") == "paid" or charge.get("resolved") == "occurred")


def _is_declined(charge: Any) -> bool:
    return isinstance(charge, dict) and charge.get("status") == "declined"


def _letter(number: str, invoice: Mapping[str, Any], charge: Any) -> dict[str, str] | None:
    greeting = f"Dear {invoice.get('customer', 'customer')},"
    if charge is None or _is_paid(charge):
        return {"subject": f"Receipt for invoice {number}", "body": f"{greeting} invoice {number} is paid. Thank you."}
    if _is_declined(charge):
        body = f"{greeting} your card was declined: {charge.get('reason', 'no reason given')}. Please send another."
        return {"subject": f"Invoice {number} is still open", "body": body}
    return None


def _closing(number: str, found: Found) -> str:
    invoice, (charge, _), mail = found.get(f"read_{number}"), _last_charge(number, found), found.get(f"mail_{number}")
    if not _is_invoice(invoice):
        return f"Invoice {number} could not be read."
    told = "mailed" if isinstance(mail, dict) and mail.get("status") == "sent" else "not mailed"
    if charge is None:
        return f"Invoice {number} was paid before; receipt {told}."
    if _is_paid(charge):
        return f"Invoice {number} is collected; receipt {told}."
    if _is_declined(charge):
        return f"The card for invoice {number} was declined; reminder {told}."
    return f"Whether invoice {number} was charged is not known; nothing was mailed."


def _words(message: Message) -> int:
    return sum(len(str(getattr(part, "content", part)).split()) for part in message.parts)
