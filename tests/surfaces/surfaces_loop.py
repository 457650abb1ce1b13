"""A loop that somebody wrote, of steps and tools, as a program offers it to the command line."""

import forkpoint as fp


@fp.tool(read_only=True)
async def invoice(number: str) -> dict[str, object]:
    """Look an invoice up."""
    return {"number": number, "due": 500}


@fp.tool(approval=True)
async def charge(number: str, cents: int) -> str:
    """Charge a card, once somebody allowed it."""
    return f"charged {cents}"


@fp.step(idempotent=True)
async def total(cents: int) -> int:
    return 2 * cents


@fp.record
async def collect(number: str) -> str:
    found = await invoice(number)
    cents = await total(found["due"])  # type: ignore[arg-type]
    return await charge(number, cents) if cents else "nothing due"


functions = [collect]
