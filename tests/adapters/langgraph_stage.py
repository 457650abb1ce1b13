"""LangGraph graphs and agents, the provider on this machine that their models ask, and a world to count."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

import openai
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from forkpoint.testing.fakes import call, calls
from forkpoint.testing.provider_server import Asked, ProviderServer, Told

KEY = "sk-hunter2-very-secret-0123456789"


# ── a chat model on a provider's real client ─────────────────────────────────────────────────────────────────────────


class HttpModel(BaseChatModel):
    """A chat model as a provider's package has it: OpenAI's own client, streaming, tools, usage; retries of its own."""

    base_url: str
    model: str = "gpt-4o"
    max_retries: int = 2
    temperature: float | None = None

    @property
    def _llm_type(self) -> str:
        return "openai-chat"

    def _get_ls_params(self, stop: Any = None, **kwargs: Any) -> Any:
        return {"ls_provider": "openai", "ls_model_name": self.model, "ls_temperature": self.temperature}

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        given = {key: item for key, item in kwargs.items() if item is not None}
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **given)

    def _body(self, messages: list[BaseMessage], stop: Any, given: dict[str, Any]) -> dict[str, Any]:
        more = {"temperature": self.temperature, "stop": stop, **given}
        wanted = {key: item for key, item in more.items() if item is not None}
        return {"model": self.model, "messages": [_sent(message) for message in messages], **wanted}

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **given: Any) -> ChatResult:
        with openai.OpenAI(base_url=self.base_url, api_key=KEY, max_retries=self.max_retries) as client:
            return _result(client.chat.completions.create(**self._body(messages, stop, given)))

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **given: Any) -> ChatResult:
        async with openai.AsyncOpenAI(base_url=self.base_url, api_key=KEY, max_retries=self.max_retries) as client:
            return _result(await client.chat.completions.create(**self._body(messages, stop, given)))

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **given: Any
    ) -> Iterator[ChatGenerationChunk]:
        with openai.OpenAI(base_url=self.base_url, api_key=KEY, max_retries=self.max_retries) as client:
            body = self._body(messages, stop, given)
            for piece in client.chat.completions.create(**body, stream=True):
                if piece.choices and piece.choices[0].delta.content:
                    yield ChatGenerationChunk(message=AIMessageChunk(content=piece.choices[0].delta.content))


def _sent(message: BaseMessage) -> dict[str, Any]:
    if isinstance(message, ToolMessage):
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.text}
    roles = {"human": "user", "ai": "assistant", "system": "system"}
    told: dict[str, Any] = {"role": roles[message.type], "content": message.text}
    if isinstance(message, AIMessage) and message.tool_calls:
        told["tool_calls"] = [
            {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": json.dumps(c["args"])}}
            for c in message.tool_calls
        ]
    return told


def _result(answered: Any) -> ChatResult:
    choice, usage = answered.choices[0], answered.usage
    made = [
        {"name": c.function.name, "args": json.loads(c.function.arguments), "id": c.id}
        for c in choice.message.tool_calls or ()
    ]
    told = {"input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens}
    message = AIMessage(
        content=choice.message.content or "",
        tool_calls=made,
        response_metadata={"finish_reason": choice.finish_reason, "model_name": answered.model, "id": answered.id},
        usage_metadata={**told, "total_tokens": usage.total_tokens} if usage else None,
    )
    return ChatResult(generations=[ChatGeneration(message=message)], llm_output={"system_fingerprint": "fp_1"})


def model_at(server: ProviderServer, **more: Any) -> HttpModel:
    return HttpModel(base_url=server.openai_url, **more)


def pays(asked: Asked) -> Told:
    """Looks up and mails at once; then says what came of it."""
    answers = [part.response for message in asked.messages if message.role == "tool" for part in message.parts]
    if asked.messages[-1].role == "user":
        number = sum(message.role == "user" for message in asked.messages)
        return calls(
            call("search", id=f"s{number}", q="17"), call("mail", id=f"m{number}", to="bob"), text="Let me see."
        )
    return "done: " + "; ".join(one if isinstance(one, str) else json.dumps(one) for one in answers)


# ── graphs without a model ───────────────────────────────────────────────────────────────────────────────────────────


class Notes(TypedDict):
    """A list that grows, and which step was last."""

    notes: Annotated[list[str], lambda old, new: [*old, *new]]
    last: int


class Talk(TypedDict):
    """A conversation."""

    messages: Annotated[list[Any], add_messages]


def counting(saver: Any, world: "Counter[str]", steps: int = 3, **more: Any) -> Any:
    """A graph of ``steps`` nodes in a row, each of which notes that it ran."""

    def node(number: int) -> Any:
        def run(state: Notes) -> dict[str, Any]:
            world[f"n{number}"] += 1
            return {"notes": [f"note {number}"], "last": number}

        return run

    graph = StateGraph(Notes)
    for number in range(1, steps + 1):
        graph.add_node(f"n{number}", node(number))
    graph.add_edge(START, "n1")
    for number in range(1, steps):
        graph.add_edge(f"n{number}", f"n{number + 1}")
    graph.add_edge(f"n{steps}", END)
    return graph.compile(checkpointer=saver, **more)


def at(thread: str, **more: Any) -> Any:
    """A config."""
    return {"configurable": {"thread_id": thread, **more}}


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
