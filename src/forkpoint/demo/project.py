"""The project that the coding story is told with: a price list with a mistake in it, and files that lie about."""

import shutil
from pathlib import Path

FOLDER = "project"

_FILES = {
    "pricing.py": '''\
"""Prices in whole cents."""


def discount(cents: int, percent: int) -> int:
    """A price after a discount; what is taken off is rounded down."""
    return cents - cents * percent // 10
''',
    "test_pricing.py": """\
import unittest

from pricing import discount


class Discounts(unittest.TestCase):
    def test_a_tenth_off(self) -> None:
        self.assertEqual(discount(1000, 10), 900)

    def test_what_is_taken_off_is_rounded_down(self) -> None:
        self.assertEqual(discount(999, 10), 900)

    def test_nothing_off(self) -> None:
        self.assertEqual(discount(500, 0), 500)
""",
    "report.py": "from pricing import discount\n\nprint(discount(2500, 20))\n",
    "scratch.txt": "try // 10?\n",
    "notes.md": "# Notes\n\n- prices are whole cents\n",
    "data/rates.csv": "item,percent\nbook,10\npen,0\n",
}

_APP = """\
[project]
name = "coding"
version = "0"

[tool.forkpoint]
app = "coder:agent"
"""


def make_project(folder: Path) -> Path:
    """Write the example into ``folder``: the agent, and the project that it works on, whose path this gives."""
    shutil.copyfile(Path(__file__).with_name("coder.py"), folder / "coder.py")
    (folder / "pyproject.toml").write_text(_APP, "utf-8")
    project = folder / FOLDER
    for name, text in _FILES.items():
        place = project / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8")
        place.chmod(0o644)
    return project
