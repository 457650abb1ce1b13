"""Comparisons as self-contained pages: no script, no link outside, everything from a run escaped. Pure."""

import base64
import hashlib
from collections.abc import Iterable
from html import escape

from forkpoint.timetravel.comparing import Aligned, Comparison, Drift, Table
from forkpoint.timetravel.rendering import (
    HEADS,
    drift_title,
    seen,
    shared_text,
    side_text,
    step_of,
    table_cells,
    value_text,
)
from forkpoint.timetravel.trajectory import Call, Step

STYLE = """
:root{color-scheme:light dark;--line:#8884;--add:#2a82;--gone:#c332;--dim:#888}
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem}
h1{font-size:1.3rem}h2{font-size:1.05rem;margin-top:2rem}
table{border-collapse:collapse;width:100%}th,td{border:1px solid var(--line);padding:.4rem .6rem;text-align:left;
vertical-align:top}
pre,code{font:13px/1.4 ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere;margin:.2rem 0}
.same{color:var(--dim)}.only_a,.a{background:var(--gone)}.only_b,.b{background:var(--add)}
.dim{color:var(--dim)}.step{border-top:1px solid var(--line);padding:.5rem 0}.failed,.unknown{background:var(--gone)}
.mark{width:1.5rem;text-align:center}
"""


def page(title: str, body: str) -> str:
    """A whole page. ``body`` is HTML that is safe already; ``title`` is text. Its policy allows its own style only."""
    allowed = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{allowed}'; base-uri 'none'; form-action 'none'"
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="referrer" content="no-referrer">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{text(title)}</title><style>{STYLE}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )


def text(value: str) -> str:
    """Text as HTML: what has a meaning in HTML is escaped, what cannot be seen is shown. Line breaks stay."""
    lines = value.replace("\r\n", "\n").split("\n")
    return "\n".join(escape(seen(line), quote=True) for line in lines)


def comparison_page(found: Comparison) -> str:
    """A comparison of two runs as a page."""
    names = found.names
    said = "No step differs." if found.diverged_at is None else f"Diverged at step {found.diverged_at}."
    body = [
        f"<h1>{text(names[0])} and {text(names[1])}</h1>",
        f"<p><code>a</code> {text(names[0])}: {text(side_text(found.a))}<br>",
        f"<code>b</code> {text(names[1])}: {text(side_text(found.b))}</p>",
        f"<p>Shared: {text(shared_text(found))}. {said}</p>",
    ]
    if found.drift:
        body += ["<h2>What differs</h2>", _drift_table(found.drift)]
    body += ["<h2>Steps</h2>", "<table><tr><th>a</th><th></th><th>b</th></tr>"]
    body += [_aligned_row(found, line) for line in found.aligned]
    return page(f"{names[0]} and {names[1]}", "\n".join([*body, "</table>"]))


def table_page(table: Table) -> str:
    """A table of runs as a page."""
    rows = ["".join(f"<td>{text(cell)}</td>" for cell in cells) for cells in table_cells(table)]
    heads = "".join(f"<th>{text(head)}</th>" for head in HEADS)
    body = [
        f"<h1>{len(rows)} runs against {text(table.reference)}</h1>",
        f"<table><tr>{heads}</tr>",
        *(f"<tr>{row}</tr>" for row in rows),
        "</table>",
        "<h2>First step that differs</h2>",
        _matrix(table),
    ]
    return page(f"{len(rows)} runs", "\n".join(body))


def _matrix(table: Table) -> str:
    names = list(table.diverged)
    heads = "".join(f"<th>{text(name)}</th>" for name in names)
    rows = []
    for name in names:
        cells = (table.diverged[name][other] for other in names)
        told = "".join(f"<td>{'=' if cell is None else cell}</td>" for cell in cells)
        rows.append(f"<tr><th>{text(name)}</th>{told}</tr>")
    return f"<table><tr><th></th>{heads}</tr>{''.join(rows)}</table>"


def _drift_table(drift: Iterable[Drift]) -> str:
    rows = [
        f"<tr><td>{text(drift_title(one))}</td><td class=a><pre>{text(value_text(one.a))}</pre></td>"
        f"<td class=b><pre>{text(value_text(one.b))}</pre></td></tr>"
        for one in drift
    ]
    return f"<table><tr><th></th><th>a</th><th>b</th></tr>{''.join(rows)}</table>"


def _aligned_row(found: Comparison, line: Aligned) -> str:
    a, b = step_of(found.a, line.a), step_of(found.b, line.b)
    mark = {"same": "=", "changed": "≠", "only_a": "←", "only_b": "→"}[line.kind]
    left, right = (step_html(step) if step else "" for step in (a, b))
    return f'<tr class="{line.kind}"><td>{left}</td><td class=mark>{mark}</td><td>{right}</td></tr>'


def step_html(step: Step) -> str:
    """One step as HTML: its text, and its calls with how they ended."""
    said = f"<pre>{text(step.text)}</pre>" if step.text else ""
    return f"<b>{step.number}</b> {said}{''.join(call_html(call) for call in step.calls)}"


def call_html(call: Call) -> str:
    """One call as HTML."""
    ended = call.status if call.error in (None, call.status) else f"{call.status}: {call.error}"
    result = f"<pre>{text(value_text(call.result))}</pre>" if call.answered else ""
    asked = f"<code>{text(call.name)}({text(call.canonical_arguments)})</code>"
    return f'<div>{asked} <span class="dim {call.status}">{text(ended)}</span>{result}</div>'
