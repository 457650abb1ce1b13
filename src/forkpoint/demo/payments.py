"""A small payment service in a process of its own, the books it keeps, and the client that tools call it with.

``python -m forkpoint.demo.payments FOLDER`` serves ``FOLDER`` on 127.0.0.1. Every charge and every mail is a line of
``ledger.jsonl``, so that what really happened can be counted. Like many a real gateway it takes an idempotency key for
one thing (mails) and not for the other (charges).
"""

import argparse
import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
PORT_FILE = "payments.port"
LEDGER = "ledger.jsonl"
INVOICES = "invoices.json"
IDLE_S = 10.0
"""How long a service goes on that was started for somebody's one call and is not called any more."""

ANSWER_S = 30.0
"""How long a client waits for an answer, and how long an answer is withheld at most."""


# ── the books ────────────────────────────────────────────────────────────────────────────────────────────────────


class Books:
    """What the service knows and has done, in two files of one folder."""

    def __init__(self, folder: Path) -> None:
        self._ledger = folder / LEDGER
        self._invoices = folder / INVOICES
        self._one_at_a_time = threading.Lock()

    def lines(self) -> list[dict[str, Any]]:
        """Everything done so far, oldest first."""
        return ledger_of(self._ledger.parent)

    def invoice(self, number: str) -> dict[str, Any] | None:
        """The invoice with what is still due on it; ``None`` if there is none."""
        invoices = json.loads(self._invoices.read_text("utf-8"))
        found: dict[str, Any] | None = invoices.get(number)
        if found is None:
            return None
        paid = sum(one["cents"] for one in self.lines() if one["did"] == "charge" and one["invoice"] == number)
        return {"number": number, **found, "due_cents": max(0, found["due_cents"] - paid)}

    def charge(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Take the money. Asked twice, it takes it twice: there is no key to know a second asking by."""
        with self._one_at_a_time:
            number = f"ch_{self._count('charge') + 1}"
            self._write({"did": "charge", "id": number, "invoice": asked["number"], "cents": asked["cents"]})
        return {"charge": number, "status": "paid"}

    def mail(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Send a mail, once for each key; a second asking gets the first answer."""
        with self._one_at_a_time:
            sent = next((one for one in self.lines() if one["did"] == "mail" and one["key"] == asked["key"]), None)
            if sent is not None:
                self._write({"did": "nothing", "because": "this key was used before", "id": sent["id"]})
                return {"mail": sent["id"], "status": "sent"}
            number = f"m_{self._count('mail') + 1}"
            told = {"to": asked["to"], "subject": asked["subject"], "key": asked["key"]}
            self._write({"did": "mail", "id": number, **told})
        return {"mail": number, "status": "sent"}

    def _count(self, did: str) -> int:
        return sum(1 for one in self.lines() if one["did"] == did)

    def _write(self, line: dict[str, Any]) -> None:
        with self._ledger.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def ledger_of(folder: Path) -> list[dict[str, Any]]:
    """The lines of the ledger in ``folder``, oldest first."""
    text = (folder / LEDGER).read_text("utf-8") if (folder / LEDGER).exists() else ""
    return [json.loads(line) for line in text.splitlines()]


# ── the service ──────────────────────────────────────────────────────────────────────────────────────────────────


class Service(ThreadingHTTPServer):
    """The books behind HTTP. The first ``withhold`` charges and mails are done, but their answers never sent.

    For each of those a line says so on standard output, when the deed is in the ledger.
    """

    daemon_threads = True

    def __init__(self, folder: Path, *, withhold: int) -> None:
        super().__init__((HOST, 0), _Exchange)
        self.books = Books(folder)
        self.called_at_s = time.monotonic()
        self._withhold = withhold
        self._counting = threading.Lock()

    def withholds(self) -> bool:
        """Whether this answer is one of those that are never sent. Counts down."""
        with self._counting:
            self._withhold -= 1
            return self._withhold >= 0

    def serve_until(self, over: Callable[[], bool]) -> None:
        """Serve until ``over`` says so; it is asked twice a second."""
        self.timeout = 0.5
        while not over():
            self.handle_request()

    def is_idle(self) -> bool:
        """Whether nobody has called for ``IDLE_S``."""
        return time.monotonic() - self.called_at_s > IDLE_S


class _Exchange(BaseHTTPRequestHandler):
    server: Service

    def do_GET(self) -> None:
        self.server.called_at_s = time.monotonic()
        found = self.server.books.invoice(self.path.rpartition("/")[2])
        self._answer(404 if found is None else 200, {"error": "no such invoice"} if found is None else found)

    def do_POST(self) -> None:
        self.server.called_at_s = time.monotonic()
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        did = self.path.strip("/")
        answer = self.server.books.charge(asked) if did == "charge" else self.server.books.mail(asked)
        if self.server.withholds():
            say({"did": did, "withheld": answer})
            self._wait_for_hangup()
            return
        self._answer(200, answer)

    def _wait_for_hangup(self) -> None:
        self.connection.settimeout(ANSWER_S)
        try:
            self.connection.recv(1)
        except OSError:
            # Cut off or out of time: either way nobody is told.
            self.close_connection = True

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the ledger tells what was done."""


def say(document: dict[str, Any]) -> None:
    """One line on standard output, at once."""
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def serve() -> None:
    """Serve a folder until nobody calls any more; the port is in ``payments.port`` and on standard output."""
    parser = argparse.ArgumentParser(description="A small payment service for one folder.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--withhold", type=int, default=0, metavar="N", help="do N deeds and never answer")
    parser.add_argument("--attended", action="store_true", help="serve until standard input ends, not until idle")
    chosen = parser.parse_args()
    with Service(chosen.folder, withhold=chosen.withhold) as service:
        port = service.server_address[1]
        (chosen.folder / PORT_FILE).write_text(f"{port}\n", encoding="utf-8")
        say({"listening": port})
        service.serve_until(_left_alone() if chosen.attended else service.is_idle)


def _left_alone() -> Callable[[], bool]:
    """Whether standard input has ended: whoever started this process is gone, however it went."""
    ended = threading.Event()

    def read() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=read, daemon=True).start()
    return ended.is_set


# ── the client ───────────────────────────────────────────────────────────────────────────────────────────────────


class Payments:
    """The service of a folder, as tools call it. Where none is listening, one is started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: subprocess.Popen[str] | None = None
        self._starting = threading.Lock()

    def invoice(self, number: str) -> dict[str, Any]:
        """The invoice of that number."""
        return self._ask("GET", f"/invoices/{number}", None)

    def charge(self, number: str, cents: int) -> dict[str, Any]:
        """Charge the card that pays this invoice."""
        return self._ask("POST", "/charge", {"number": number, "cents": cents})

    def mail(self, to: str, subject: str, body: str, *, key: str) -> dict[str, Any]:
        """Send a mail, once for each ``key``."""
        return self._ask("POST", "/mail", {"to": to, "subject": subject, "body": body, "key": key})

    def _ask(self, method: str, path: str, document: dict[str, Any] | None) -> dict[str, Any]:
        with self._starting:
            port = self._port()
            if port is None:
                self._started, port = start(self._folder)
        connection = http.client.HTTPConnection(HOST, port, timeout=ANSWER_S)
        try:
            connection.request(method, path, None if document is None else json.dumps(document))
            answer = connection.getresponse()
            told: dict[str, Any] = json.loads(answer.read())
        finally:
            connection.close()
        if answer.status != 200:
            raise LookupError(f"{path}: {told['error']}")
        return told

    def _port(self) -> int | None:
        """The port of a service that is listening now."""
        try:
            port = int((self._folder / PORT_FILE).read_text("utf-8"))
            socket.create_connection((HOST, port), timeout=1).close()
        except (OSError, ValueError):
            return None
        return port


def start(folder: Path, *, withhold: int = 0, attended: bool = False) -> tuple["subprocess.Popen[str]", int]:
    """A new process that serves ``folder``, and its port, once it is listening.

    An ``attended`` one ends with this process at the latest, any other when nobody calls it any more.
    """
    command = [sys.executable, "-m", "forkpoint.demo.payments", str(folder), "--withhold", str(withhold)]
    process = subprocess.Popen(
        [*command, "--attended"] if attended else command,
        stdin=subprocess.PIPE if attended else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise ConnectionRefusedError(f"the payment service of {folder} did not start")
    return process, int(json.loads(line)["listening"])


if __name__ == "__main__":
    serve()
