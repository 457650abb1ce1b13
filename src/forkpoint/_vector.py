"""A sequence that grows by sharing: appending to the newest view costs nothing of its length.

Every view sees its own first ``size`` items of a list that many views share. Items already in the list are
never changed, so an older view stays what it was. Appending to a view that is not the newest copies.
"""

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar, overload

T = TypeVar("T")


class Vector(Sequence[T], Generic[T]):
    """An immutable sequence with cheap ``append``."""

    __slots__ = ("_items", "_size", "memo")

    def __init__(
        self, items: list[T] | None = None, size: int | None = None, memo: dict[int, bytes] | None = None
    ) -> None:
        self._items: list[T] = [] if items is None else items
        self._size = len(self._items) if size is None else size
        self.memo: dict[int, bytes] = {} if memo is None else memo
        """What was computed from the first n items, by n. Shared by every view of the same list."""

    def append(self, item: T) -> "Vector[T]":
        """A view with ``item`` after these."""
        items, size = self._items, self._size
        if len(items) == size:
            items.append(item)
            # Another OS thread may have appended between the two lines; only the owner of the place keeps it.
            if items[size] is item:
                return Vector(items, size + 1, self.memo)
        place = self.remembered()
        return Vector([*items[:size], item], memo={place: self.memo[place]} if place else None)

    def remembered(self) -> int:
        """The largest number of first items for which ``memo`` has something; 0 if there is none."""
        place = self._size
        while place and place not in self.memo:
            place -= 1
        return place

    def first(self, size: int) -> "Vector[T]":
        """A view of the first ``size`` items."""
        return Vector(self._items, min(size, self._size), self.memo)

    def shares(self, longer: "Vector[T]") -> bool:
        """Whether ``longer`` is this vector with items appended, by sharing."""
        return self._items is longer._items and self._size <= longer._size

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[T]:
        return iter(self._items[: self._size])

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        size = self._size
        if isinstance(index, slice):
            start, stop, step = index.indices(size)
            return self._items[start:stop] if step == 1 else self._items[:size][index]
        if index < 0:
            index += size
        if not 0 <= index < size:
            raise IndexError(index)
        return self._items[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vector) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Vector({list(self)!r})"
