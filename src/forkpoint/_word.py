"""The shape of every word that is written down: frozen, keyword-only, refusing what it does not know."""

from typing import ClassVar

from msgspec import Struct


class Word(
    Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag_field="is",
    gc=False,
):
    """Base of the words. A field left at its default is not written."""


class Ref(Word, frozen=True, kw_only=True, tag=False):
    """A blob that stands aside of the event that refers to it: its digest and size in bytes."""

    digest: str
    size: int


class Holder(Word, frozen=True, kw_only=True):
    """A word with fields that may be large. Those over the limit are blobs, named in ``aside`` by field."""

    LARGE: ClassVar[tuple[str, ...]] = ()

    aside: dict[str, Ref] | None = None
