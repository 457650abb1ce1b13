"""A journal in one SQLite file: the default store."""

from forkpoint.stores.sqlite.journal import SqliteJournal

__all__ = ["SqliteJournal"]
