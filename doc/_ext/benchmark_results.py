"""The directive ``.. benchmark:: name``: tables and plots of a file that a command wrote.

Reads ``asv_bench/papers/results/<name>.json`` (see `asv_bench.report`) and shows its tables,
its plots, the command, and the date, processor, load and versions of the run.  ``:tables: 1 2``
shows these tables only, ``:tables: 0`` shows none; ``:no-plots:`` leaves the plots out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, directives

RESULTS = Path(__file__).parents[2] / "asv_bench" / "papers" / "results"


def make_table(title: str, columns: list[str], rows: list[list[str]]) -> nodes.table:
    """A docutils table."""
    table = nodes.table(classes=["benchmark"])
    table += nodes.title(text=title)
    group = nodes.tgroup(cols=len(columns))
    table += group
    for i in range(len(columns)):
        width = max(len(columns[i]), *(len(row[i]) for row in rows), 1) if rows else 1
        group += nodes.colspec(colwidth=min(width, 40))
    head, body = nodes.thead(), nodes.tbody()
    group += [head, body]
    for part, lines in ((head, [columns]), (body, rows)):
        for line in lines:
            row = nodes.row()
            for cell in line:
                entry = nodes.entry()
                entry += nodes.paragraph(text=cell)
                row += entry
            part += row
    return table


def say_where(found: dict[str, Any]) -> str:
    """Date, processor, load and versions in one sentence."""
    machine = found["machine"]
    versions = ", ".join(f"{k} {v}" for k, v in machine["versions"].items())
    load = machine.get("load")
    busy = f", load average {load[0]} at the start" if load else ""
    if load and machine.get("load_at_end"):
        busy += f" and {machine['load_at_end'][0]} at the end"
    return (
        f"Measured {machine['date']} on {machine['processor']}, {machine['cores']} cores{busy}; "
        f"Python {machine['python']}, {versions}. It took {found['seconds']:,.0f} s."
    )


class Benchmark(Directive):
    """Tables and plots of one results file."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {
        "tables": directives.positive_int_list,
        "no-tables": directives.flag,
        "no-plots": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        path = RESULTS / f"{self.arguments[0]}.json"
        environment = self.state.document.settings.env
        environment.note_dependency(str(path))
        if not path.exists():
            return [
                nodes.note("", nodes.paragraph(text=f"{path.name} has not been measured yet."))
            ]
        found = json.loads(path.read_text())
        out: list[nodes.Node] = [nodes.paragraph(text=found["about"])]
        out.append(nodes.literal_block(found["command"], found["command"], language="console"))
        chosen = self.options.get("tables")
        for number, table in enumerate(found["tables"], 1):
            if "no-tables" in self.options or (chosen and number not in chosen):
                continue
            out.append(make_table(table["title"], table["columns"], table["rows"]))
            if table["note"]:
                out.append(nodes.paragraph(text=table["note"]))
        if "no-plots" not in self.options:
            for name in found["plots"]:
                up = [".."] * (1 + environment.docname.count("/"))  # from the page's folder
                uri = Path(*up, "asv_bench", "papers", "results", name).as_posix()
                out.append(nodes.image(uri=uri, alt=f"{found['title']}: {name}"))
        small = nodes.paragraph(classes=["benchmark-machine"])
        small += nodes.emphasis(text=say_where(found))
        out.append(small)
        return out


def setup(app: Any) -> dict[str, Any]:
    app.add_directive("benchmark", Benchmark)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
