"""Large values in places where no event holds them whole: what the model was shown can still be rebuilt and checked."""

from tests.runtime.stage import call, calls, live, played, runtime_on

import forkpoint as fp

LARGE = 6_000


@fp.tool
def doubt() -> str:
    """Doubt."""
    raise fp.OutcomeUnknown("cut off")


@live
async def test_a_large_note_of_a_decision_is_shown_and_its_request_is_what_the_digest_says() -> None:
    model = played(calls(call("doubt")), "done", "done again")
    agent = fp.Agent("a", model=model, tools=[doubt], instructions="i" * LARGE)
    async with runtime_on(None, agent) as runtime:
        run = await runtime.start("a", "g" * LARGE)
        (wait,) = (await run.wait()).waits
        await run.interrupt("stop " * LARGE)
        await run.resolve(wait.effect, "occurred", output="o" * LARGE, note="n" * LARGE)
        await run.send("next " * LARGE)
        state = await run.wait()
        await run.send("again")
        await run.wait()
        assert state.status == "idle"
        for step in (1, 2, 3):
            shown = await run.request(step)
            assert list(shown.messages) == list(model.requests[step - 1].messages)
        assert "n" * LARGE in "".join(message.text for message in model.requests[-1].messages)
        assert (await runtime.verify(fold=True)).sound
