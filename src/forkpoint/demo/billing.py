"""An agent that collects invoices, with one tool for each thing that a crash may mean."""

from pathlib import Path

import forkpoint as fp
from forkpoint.demo.clerk import Clerk
from forkpoint.demo.payments import Payments

payments = Payments(Path(__file__).parent)


@fp.tool(read_only=True)  # it changes nothing: after a crash it is simply done again
def read_invoice(number: str) -> dict[str, object]:
    """Look an invoice up."""
    return payments.invoice(number)


@fp.tool  # the gateway takes no keys, so a second asking is a second charge: after a crash, a person decides
def charge(number: str, cents: int) -> dict[str, object]:
    """Charge the card that pays this invoice."""
    return payments.charge(number, cents)


@fp.tool(idempotent=True)  # the same key is the same mail: after a crash it is asked again, under that key
def mail(ctx: fp.ToolContext, to: str, subject: str, body: str) -> dict[str, object]:
    """Send a customer a mail."""
    return payments.mail(to, subject, body, key=ctx.idempotency_key)


# Clerk follows rules and needs no network; for a real model, say model="openai:gpt-5" here.
agent = fp.Agent(
    "billing",
    model=Clerk(),
    instructions="Collect the invoices you are asked for, and mail a receipt for each.",
    tools=[read_invoice, charge, mail],
)
