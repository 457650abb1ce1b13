"""Forkpoint without ``await``: the same runtime and runs, for programs that have no event loop.

``with blocking.connect("runs.db", agents=[agent]) as runtime`` gives what ``forkpoint.connect`` gives, with methods
that return when they are done. Any number of OS threads may use one runtime; what it performs is performed on an
event loop on an OS thread of its own. ``run``, ``runtime`` and ``files`` are generated from the async classes.
"""

from forkpoint.blocking.files import RunFiles as RunFiles
from forkpoint.blocking.run import Run as Run
from forkpoint.blocking.runtime import Runtime as Runtime
from forkpoint.blocking.runtime import connect as connect
