"""One word, one meaning: the words that GLOSSARY bans stand in no name and in no text."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "forkpoint"
MODULES = sorted(SOURCE.rglob("*.py"))
PAGES = [path for path in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]) if path.name != "GLOSSARY.md"]

BANNED = ("session", "thread", "workflow", "job", "manager", "helper", "util", "context", "handler")

NAMES = {
    "ToolContext": "the word that everybody who writes tools for agents knows it by",
    "takes_context": "whether a function takes a ToolContext",
    "context": "the parameter that is the type of ToolContext",
    "_context": "makes a ToolContext",
    "_thread": "an OS thread",
    "in_thread": "an OS thread",
    "threads": "OS threads",
    "daemon_threads": "the name that the standard library gives it",
    "ContextCompacted": "a model's context, compacted",
    "event_stream_handler": "the name that Pydantic AI gives it",
    "_model_stream_event_handler": "the name that Pydantic AI gives it",
    "in_durable_context": "the name that Pydantic AI gives it",
    "acopy_thread": "what LangGraph asks of a checkpointer",
    "adelete_thread": "what LangGraph asks of a checkpointer",
    "copy_thread": "what LangGraph asks of a checkpointer",
    "delete_thread": "what LangGraph asks of a checkpointer",
    "source_thread_id": "what LangGraph asks of a checkpointer",
    "target_thread_id": "what LangGraph asks of a checkpointer",
    "thread_id": "what LangGraph asks of a checkpointer",
    "thread_ids": "what LangGraph asks of a checkpointer",
    "session_id": "what the Agents SDK asks of its Session",
    "session_settings": "what the Agents SDK asks of its Session",
    "clear_session": "what the Agents SDK asks of its Session",
    "context_tokens": "the tokens of a model's context",
}
"""Names with a banned word in them, each with the reason."""

PHRASES = (
    r"OS threads?\b",
    r"LangGraph('s)? threads?\b",
    r"client's (own )?helpers",
    r"context variables",
    r"(model's|async|OpenTelemetry) context",
    r"context (window|manager)",
    r"``context``",
    r"context's own",
    r"\{context\.\w+\}",
)
"""Ways of putting it that mean what everybody means by them."""

_WORD = re.compile(rf"\b({'|'.join(BANNED)})s?\b", re.IGNORECASE)
_ALLOWED = re.compile("|".join(PHRASES), re.IGNORECASE)


def words(name: str) -> set[str]:
    return {word.lower().removesuffix("s") for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def names(tree: ast.Module) -> Iterator[str]:
    """Every name that a module makes."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def texts(source: str) -> Iterator[str]:
    """Every comment and string of a module."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield token.string


def banned(text: str, *allowed: str) -> list[str]:
    plain = _ALLOWED.sub("", " ".join(text.split()))
    return [
        plain[max(0, found.start() - 30) : found.end() + 30]
        for found in _WORD.finditer(plain)
        if found[1].lower() not in allowed
    ]


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_no_name_has_a_banned_word_in_it(path: Path) -> None:
    made = {path.stem, *names(ast.parse(path.read_text("utf-8")))}
    assert [name for name in sorted(made - set(NAMES)) if words(name) & set(BANNED)] == []


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_no_comment_or_text_of_the_code_has_a_banned_word_in_it(path: Path) -> None:
    """Code speaks of threads where it means those of the operating system."""
    assert [found for text in texts(path.read_text("utf-8")) for found in banned(text, "thread")] == []


@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_no_page_has_a_banned_word_in_it(path: Path) -> None:
    assert banned(path.read_text("utf-8")) == []


def test_every_exception_is_needed() -> None:
    made = {name for path in MODULES for name in names(ast.parse(path.read_text("utf-8")))}
    assert sorted(set(NAMES) - made) == []
