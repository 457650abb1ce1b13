"""The three usual ways of describing parameters are read; the rest is description."""

import pytest

from forkpoint.agents.docstrings import Docstring, read_docstring

GOOGLE = """Find things.

    More words,
    on two lines.

    Args:
        query (str, optional): what to find,
            over two lines
        limit: how many: at most 10
        **rest: the rest

    Returns:
        What was found.

    Raises:
        ValueError: never.
    """

NUMPY = """Find things.

    More words,
    on two lines.

    Parameters
    ----------
    query : str, optional
        what to find,
        over two lines
    limit
        how many: at most 10
    **rest
        the rest

    Returns
    -------
    list
        What was found.
    """

REST = """Find things.

    More words,
    on two lines.

    :param str query: what to find,
        over two lines
    :param limit: how many: at most 10
    :type limit: int
    :param rest: the rest
    :returns: what was found
    :raises ValueError: never
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, REST])
def test_every_way_of_writing_says_the_same(text: str) -> None:
    assert read_docstring(text) == Docstring(
        description="Find things.\n\nMore words,\non two lines.",
        parameters={"query": "what to find, over two lines", "limit": "how many: at most 10", "rest": "the rest"},
    )


@pytest.mark.parametrize(
    ("text", "description"),
    [
        (None, ""),
        ("", ""),
        ("One line.", "One line."),
        ("Note: this is text, and so is\nArgs for a: b", "Note: this is text, and so is\nArgs for a: b"),
        ("First.\n\nArgs:\n", "First."),
        ("First.\n\n---\nlines", "First.\n\n---\nlines"),
        ("Heading\n-------", "Heading\n-------"),
    ],
)
def test_text_in_no_such_form_is_description(text: str | None, description: str) -> None:
    assert read_docstring(text) == Docstring(description=description)


def test_parameters_named_together_share_their_text() -> None:
    assert read_docstring("Parameters\n----------\na, b : int\n    sides").parameters == {"a": "sides", "b": "sides"}
