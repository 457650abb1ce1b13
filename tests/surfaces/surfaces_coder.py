"""A coder who does to its files what it is told, one step for each line: ``write a.txt one``, ``remove a.txt``."""

import os
from pathlib import Path

import forkpoint as fp
from forkpoint.ports import ModelRequest
from forkpoint.testing.fakes import Reply, ScriptedModel, call, calls


@fp.tool(idempotent=True)
def edit(ctx: fp.ToolContext, what: str, path: str, text: str = "") -> str:
    """Change one path of the workspace."""
    place = Path(ctx.workspace or "") / os.fsdecode(path.encode().decode("unicode_escape").encode("latin-1"))
    place.parent.mkdir(parents=True, exist_ok=True)
    match what:
        case "write":
            place.write_text(text + "\n")
        case "binary":
            place.write_bytes(b"\0" + text.encode())
        case "link":
            place.symlink_to(text)
        case "chmod":
            place.chmod(int(text, 8))
        case "remove":
            place.unlink()
        case "lose":
            (place / "..").resolve().rename(text)
    return "ok"


@fp.tool(read_only=True)
def look(ctx: fp.ToolContext) -> int:
    """Count what is there."""
    return len(list(Path(ctx.workspace or "").iterdir()))


def coder(request: ModelRequest) -> Reply:
    """The next line of the last input, as a call."""
    place = max(index for index, one in enumerate(request.messages) if one.role == "user")
    done = sum(one.role == "assistant" for one in request.messages[place:])
    lines = request.messages[place].text.splitlines()
    if done == len(lines):
        return "done"
    words = lines[done].split(" ", 2)
    if words[0] == "look":
        return calls(call("look", id=f"l{place}-{done}"))
    return calls(call("edit", id=f"e{place}-{done}", **dict(zip(("what", "path", "text"), words, strict=False))))


agent = fp.Agent("coder", model=ScriptedModel(coder), tools=[edit, look])
