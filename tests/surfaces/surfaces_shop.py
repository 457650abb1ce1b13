"""A shop whose clerk does what is said: collects, mails, asks, fails, or reads something nasty."""

import forkpoint as fp
from forkpoint.messages import Message
from forkpoint.ports import ModelRequest
from forkpoint.testing.fakes import Reply, ScriptedModel, call, calls

NASTY = "\x1b]0;owned\x07\x1b[31mred\x1b[0m [bold]markup[/bold] <img src=x onerror=alert(1)> \u202eevil \x9b2J"


@fp.tool(read_only=True)
async def invoice(number: str) -> dict[str, object]:
    """Look an invoice up."""
    return {"number": number, "due": 4200}


@fp.tool
async def charge(number: str, cents: int) -> dict[str, object]:
    """Charge a card, at a gateway that does not answer."""
    raise fp.OutcomeUnknown("the gateway did not answer")


@fp.tool(approval=True)
async def mail(to: str, body: str) -> str:
    """Send a mail."""
    return f"sent to {to}: {body}"


@fp.tool(external=True)
async def ask_person(question: str) -> str:
    """Ask a person."""
    raise NotImplementedError


@fp.tool(read_only=True)
async def read(size: int) -> str:
    """Read much."""
    return "y" * size


@fp.tool(read_only=True)
async def nasty() -> str:
    """Give what a terminal should not be given."""
    return NASTY


@fp.tool(read_only=True)
async def count(number: int) -> int:
    """Count, but not to a number that ends in 77."""
    if number % 100 == 77:
        raise ValueError(f"{number} is unlucky")
    return number


def _said(messages: list[Message]) -> tuple[str, int]:
    """What was said last, and how often the model has answered since."""
    place = max(index for index, one in enumerate(messages) if one.role == "user" and "[note]" not in one.text)
    return messages[place].text, sum(one.role == "assistant" for one in messages[place:])


def _counting(done: int) -> Reply:
    """Seven steps of a hundred calls, one of each hundred unlucky."""
    if done == 7:
        return "counted"
    return calls(*(call("count", id=f"n{done}-{n}", number=done * 100 + n) for n in range(100)))


def clerk(request: ModelRequest) -> Reply:
    """The clerk's answer."""
    said, done = _said(list(request.messages))
    match said.split()[0]:
        case "collect":
            steps: list[Reply] = [
                calls(call("invoice", id="c1", number="17"), text="Let me look."),
                calls(call("charge", id="c2", number="17", cents=4200)),
                "Collected.",
            ]
            return steps[done]
        case "mail":
            letters = calls(call("mail", id="m1", to="ada", body="hello"), call("mail", id="m2", to="bob", body="bye"))
            return letters if not done else "Mailed."
        case "ask":
            return calls(call("ask_person", id="q1", question="which?")) if not done else "Asked."
        case "read":
            return calls(call("read", id="r1", size=int(said.split()[1]))) if not done else "Read."
        case "nasty":
            return calls(call("nasty", id="n1"), text=NASTY) if not done else NASTY
        case "count":
            return _counting(done)
        case "fail":
            return RuntimeError("the model is down")
        case _:
            return f"You said: {said}"


agent = fp.Agent(
    "shop",
    model=ScriptedModel(clerk),
    instructions="You are the clerk.",
    tools=[invoice, charge, mail, ask_person, read, nasty, count],
)
agents = [agent]
app = fp.App(agents=agents, secrets={"TOKEN": "a-very-secret-value"})
nothing = 17


def _rude(event: dict[str, object]) -> dict[str, object]:
    raise LookupError("a hook with a fault")


rude = fp.App(agents=agents, redact=_rude)


def broken() -> None:
    """Fails when it is asked for agents."""
    raise RuntimeError("no agents today")
