"""Snapshots and rewinds against `git add -A && git write-tree` in a git directory of its own, in one run.

`python -m bench.workspace [--files 20000 60000] [--repeats 5] [--json]`. Trees are made from the packages installed
for this Python. Each figure is a median of repeats that alternate between both; CPU is given beside wall time.
"""

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from forkpoint.workspace import File, TreeId, WorkspaceRecorder, packing

MEGABYTE = 1 << 20


@dataclass(kw_only=True)
class Timed:
    """Repeats of one figure for one side: wall and CPU, in ms."""

    wall_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)

    def add(self, act: Callable[[], object]) -> None:
        """Measure one repeat, children included."""
        cpu, wall = _cpu_s(), time.perf_counter()
        act()
        self.wall_ms.append((time.perf_counter() - wall) * 1000)
        self.cpu_ms.append((_cpu_s() - cpu) * 1000)

    @property
    def wall(self) -> float:
        """Median wall time in ms."""
        return statistics.median(self.wall_ms)

    @property
    def cpu(self) -> float:
        """Median CPU time in ms."""
        return statistics.median(self.cpu_ms)


class Git:
    """git with a directory of its own, away from anyone's configuration."""

    def __init__(self, tree: Path, at: Path) -> None:
        self._tree, self._at = tree, at
        self._env = {
            "PATH": os.environ["PATH"],
            "HOME": str(at),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_DIR": str(at / "git"),
            "GIT_WORK_TREE": str(tree),
        }
        at.mkdir(parents=True)
        self.run("init", "-q")

    def run(self, *words: str, **env: str) -> str:
        """One git command."""
        done = subprocess.run(
            ["git", *words], env={**self._env, **env}, cwd=self._tree, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def snapshot(self) -> str:
        """What is measured against a snapshot."""
        self.run("add", "-A")
        return self.run("write-tree")

    def rewind(self, tree: str) -> None:
        """The same with what a rewind does: the present state is kept first."""
        self.snapshot()
        self.run("read-tree", "--reset", "-u", tree)

    def copy_to(self, tree: str, folder: Path) -> None:
        """A tree in a folder of its own."""
        folder.mkdir()
        own = {"GIT_INDEX_FILE": str(self._at / "copy-index"), "GIT_WORK_TREE": str(folder)}
        self.run("read-tree", tree, **own)
        self.run("checkout-index", "-a", **own)

    @property
    def stored_bytes(self) -> int:
        """Bytes of loose objects."""
        return _size_of(self._at / "git" / "objects")


class Bench:
    """One tree of files, git and ours beside each other."""

    def __init__(self, folder: Path, files: int, repeats: int) -> None:
        self.folder, self.repeats = folder, repeats
        self.tree = folder / "tree"
        self.files, self.size = build_tree(self.tree, files)
        self._chance = random.Random(files)
        self._found: list[dict[str, object]] = []

    def rows(self) -> list[dict[str, object]]:
        """Every figure of this tree."""
        self._first()
        self.git = Git(self.tree, self.folder / "git")
        self.ours = self._recorder("ours")
        self.first_git, self.first_ours = self.git.snapshot(), self.ours.snapshot(by="outside", turn=0).tree
        self.names = [p for p, e in self.ours.files(self.first_ours) if type(e) is File and e.size < 100_000]
        self._settle()
        self._unchanged()
        for count in (1, 100):
            self._changed(count)
        for count in (1, 100):
            self._rewound(count)
        self._compared()
        self._forked()
        self.ours.close()
        return self._found

    def _recorder(self, name: str) -> WorkspaceRecorder:
        return WorkspaceRecorder(self.tree, self.folder / name, bulk=(), max_file_bytes=1 << 40, keep_turns=None)

    # Nothing is deleted before the end: ext4 is slow to give out the inodes of files that were just deleted.

    def _first(self) -> None:
        ours, theirs = Timed(), Timed()
        stored = {"ours": 0, "git": 0, "disk": 0}
        for number in range(min(self.repeats, 3)):
            git = Git(self.tree, self.folder / f"git-{number}")
            theirs.add(git.snapshot)
            stored["git"] = git.stored_bytes
            with self._recorder(f"first-{number}") as recorder:
                ours.add(lambda r=recorder: r.snapshot(by="outside"))
                stored["ours"] = recorder.store.stored_bytes
            stored["disk"] = _size_of(self.folder / f"first-{number}")
        self._row("first snapshot", ours, theirs, reach="a quarter of git", ok=ours.wall <= theirs.wall / 4)
        self._found.append(
            {
                "figure": "bytes stored, MB",
                "files": self.files,
                "ours": round(stored["disk"] / MEGABYTE, 1),
                "git": round(stored["git"] / MEGABYTE, 1),
                "reach": "160 at 20,000 files" if self.files < 40_000 else "",
                "ok": stored["disk"] <= 160 * MEGABYTE or self.files >= 40_000,
            }
        )

    def _unchanged(self) -> None:
        ours, theirs = Timed(), Timed()
        for _ in range(self.repeats):
            theirs.add(self.git.snapshot)
            ours.add(lambda: self.ours.snapshot(by="run"))
        self._row("nothing changed", ours, theirs, reach="no slower", ok=ours.wall <= theirs.wall)

    def _changed(self, count: int) -> None:
        ours, theirs = Timed(), Timed()
        for turn in range(self.repeats):
            self._edit(count)
            theirs.add(self.git.snapshot)
            ours.add(lambda t=turn: self.ours.snapshot(by="run", turn=t))
            self._settle()
        self._row(f"{count} changed", ours, theirs, reach="no slower", ok=ours.wall <= theirs.wall)

    def _rewound(self, count: int) -> None:
        ours, theirs = Timed(), Timed()
        for _ in range(self.repeats):
            ours_before, git_before = self.ours.snapshot(by="run").tree, self.git.snapshot()
            names = self._edit(count)
            kept = {name: (self.tree / os.fsdecode(name)).read_bytes() for name in names}
            self.ours.snapshot(by="run")
            ours.add(lambda t=ours_before: self._ours_back(t, count))
            for name, data in kept.items():
                (self.tree / os.fsdecode(name)).write_bytes(data)
            theirs.add(lambda t=git_before: self.git.rewind(t))
            self.ours.snapshot(by="run")
            self._settle()
        self._row(f"rewind of {count}", ours, theirs, reach="no slower", ok=ours.wall <= theirs.wall)

    def _ours_back(self, tree: TreeId, count: int) -> None:
        done = self.ours.rewind(tree)
        if len(done.put_back) != count:
            raise AssertionError(f"put back {len(done.put_back)} files, not {count}")

    def _compared(self) -> None:
        before = self.ours.snapshot(by="run").tree
        self._edit(100)
        after = self.ours.snapshot(by="run").tree
        ours = Timed()
        for _ in range(self.repeats):
            self.ours.store.forget_read()
            ours.add(lambda: self.ours.changes(before, after))
        self._row("compare trees, 100 differ", ours, None, reach="30 ms", ok=ours.wall < 30)

    def _forked(self) -> None:
        ours, theirs = Timed(), Timed()
        ours_tree, git_tree = self.ours.snapshot(by="run").tree, self.git.snapshot()
        for number in range(min(self.repeats, 3)):
            for side, timed in (("git", theirs), ("ours", ours)):
                to = self.folder / f"{side}-fork-{number}"
                if side == "git":
                    timed.add(lambda f=to: self.git.copy_to(git_tree, f))
                else:
                    timed.add(lambda f=to: self.ours.copy_to(ours_tree, f))
        self._row("a fork's folder", ours, theirs, reach="1600 ms at 20,000 files", ok=ours.wall <= 1600)

    def _edit(self, count: int) -> list[bytes]:
        names = self._chance.sample(self.names, count)
        for name in names:
            with (self.tree / os.fsdecode(name)).open("ab") as file:
                file.write(b"# one line more\n")
        return names

    def _settle(self) -> None:
        """Both sides see everything once more, so that no stamp is young when the next is measured."""
        time.sleep(0.1)
        self.git.snapshot()
        self.ours.snapshot(by="run")

    def _row(self, figure: str, ours: Timed, git: Timed | None, *, reach: str, ok: bool) -> None:
        self._found.append(
            {
                "figure": figure + ", ms",
                "files": self.files,
                "ours": round(ours.wall, 1),
                "ours_cpu": round(ours.cpu, 1),
                "git": round(git.wall, 1) if git else None,
                "git_cpu": round(git.cpu, 1) if git else None,
                "reach": reach,
                "ok": ok,
            }
        )


def build_tree(folder: Path, files: int) -> tuple[int, int]:
    """Copy about ``files`` installed files, the largest packages first; how many and their bytes."""
    count = size = number = 0
    while count < files:
        for source in _packages():
            for path in _files_below(source):
                target = folder / str(number) / source.name / path.relative_to(source)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
                count, size = count + 1, size + path.stat().st_size
                if count == files:
                    return count, size
        number += 1
    return count, size


def _packages() -> list[Path]:
    """Every installed package and the standard library, the largest first."""
    base = Path(sysconfig.get_paths(vars={"base": sys.base_prefix, "platbase": sys.base_prefix})["purelib"])
    places = [*base.iterdir(), *Path(sysconfig.get_paths()["purelib"]).iterdir(), base.parent]
    found = [p for p in places if p.is_dir() and not p.is_symlink()]
    return sorted(found, key=lambda p: (-_size_of(p, skip="site-packages"), str(p)))


def _files_below(folder: Path) -> Iterator[Path]:
    for base, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in ("site-packages", "__pycache__"))
        for name in sorted(names):
            path = Path(base) / name
            if path.is_file() and not path.is_symlink():
                yield path


def _size_of(folder: Path, skip: str = "") -> int:
    total = 0
    for base, folders, names in os.walk(folder):
        folders[:] = [f for f in folders if f != skip]
        total += sum(os.lstat(os.path.join(base, n)).st_size for n in names)  # noqa: PTH118
    return total


def _cpu_s() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def rows(
    files: Sequence[int] = (20_000, 60_000), repeats: int = 5, folder: Path | None = None
) -> list[dict[str, object]]:
    """Every figure of every tree, ours beside git's, with what is to be reached and whether it is."""
    found: list[dict[str, object]] = []
    for count in files:
        with tempfile.TemporaryDirectory(dir=folder) as made:
            found += Bench(Path(made), count, repeats).rows()
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, or JSON rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[20_000, 60_000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=None, help="where the trees are made")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    found = rows(asked.files, asked.repeats, asked.folder)
    if asked.json:
        print(json.dumps(found, indent=1))
        return
    names = {packing.RAW: "none", packing.ZLIB: "zlib", packing.ZSTD: "zstd"}
    print(f"packing: {names[packing.best_packing()]}, {os.cpu_count()} cores")
    print(f"{'figure':28}{'files':>8}{'ours':>10}{'cpu':>10}{'git':>10}{'cpu':>10}  reach")
    for row in found:
        cells = [row.get(key) for key in ("ours", "ours_cpu", "git", "git_cpu")]
        shown = "".join(f"{'-' if cell is None else cell:>10}" for cell in cells)
        print(f"{row['figure']:28}{row['files']:>8}{shown}  {row['reach']}{'' if row['ok'] else '  MISSED'}")


if __name__ == "__main__":
    main()
