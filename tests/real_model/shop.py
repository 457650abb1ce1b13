"""The shop that a real model runs, and a process that works there: ``python -m tests.real_model.shop DO FOLDER``.

The process finds the model as every user's does: by its name, and ``OPENAI_BASE_URL``.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any, Literal

import forkpoint as fp
from forkpoint.runtime.progress import Progress

MODEL = "openai-chat:smollm2"
ASKED = "Order two crates of pears, please."
RUN = "pears"


def shop(folder: Path, model: Any = MODEL) -> fp.Agent:
    """An agent whose one tool writes a line to a file outside of any store, each time that it is really called."""

    @fp.tool
    def order(item: Literal["apples", "pears", "plums"], crates: Literal[1, 2, 3]) -> dict[str, Any]:
        """Order crates of fruit."""
        descriptor = os.open(folder / "orders", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, f"{crates} {item}\n".encode())
        os.close(descriptor)
        return {"ordered": item, "crates": crates, "arrives": "Monday"}

    return fp.Agent(
        "shop",
        model=model,
        instructions="You run a fruit shop. Answer in one short sentence.",
        tools=[order],
        settings={"temperature": 0.0, "seed": 7, "max_tokens": 64},
    )


def orders(folder: Path) -> list[str]:
    """What was really ordered, by whichever process."""
    return (folder / "orders").read_text().splitlines()


async def work(folder: Path) -> None:
    """Begin the run, and say when the model has begun to answer in words."""
    async with fp.connect(folder / "runs.db", agents=[shop(folder)]) as runtime:
        run = await runtime.start("shop", ASKED, run_id=RUN)
        async for one in run.watch(after=0):
            if isinstance(one, Progress) and one.text:
                print(json.dumps({"heard": one.text}), flush=True)


async def recover(folder: Path) -> None:
    """Perform what is due, and say how it ended."""
    async with fp.connect(folder / "runs.db", agents=[shop(folder)]) as runtime:
        recovered = await runtime.recover()
        state = await (await runtime.open(RUN)).state()
    told = {"runs": recovered.runs, "failed": recovered.failed, "status": state.status, "output": state.output}
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    asyncio.run({"work": work, "recover": recover}[sys.argv[1]](Path(sys.argv[2])))
