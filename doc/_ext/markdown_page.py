"""Directive ``markdown-page``: show one of the repository's Markdown files.

Knows what those files use: headings, paragraphs, lists, code fenced or
indented, `code`, **strong** and links.  ``.. markdown-page:: ../CHANGELOG.md``
"""

import re
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

UNDERLINES = "=-~^"


def as_rst(markdown: str) -> list[str]:
    """The same text in reStructuredText."""
    lines: list[str] = []
    fenced = False
    for line in markdown.splitlines():
        if line.startswith("```"):
            fenced = not fenced
            lines += ["", f".. code-block:: {line[3:] or 'text'}", ""] if fenced else [""]
        elif fenced:
            lines.append("   " + line)
        elif heading := re.match(r"(#+) (.*)", line):
            text = heading[2].replace("`", "``")
            lines += ["", text, UNDERLINES[len(heading[1]) - 1] * len(text), ""]
        elif line.startswith("    "):
            if not (lines and (lines[-1].startswith("    ") or lines[-1] == "   ")):
                lines += ["", ".. code-block:: text", ""]
            lines.append(line)
        else:
            line = re.sub(r"`([^`]+)`", r"``\1``", line)
            lines.append(re.sub(r"\[([^\]]+)\]\(([^)]+)\)", r"`\1 <\2>`__", line))
    return lines


class MarkdownPage(SphinxDirective):
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        path = Path(self.env.doc2path(self.env.docname)).parent / self.arguments[0]
        self.env.note_dependency(str(path.resolve()))
        lines = as_rst(path.read_text(encoding="utf-8"))
        self.state_machine.insert_input(StringList(lines, source=str(path)), str(path))
        return []


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("markdown-page", MarkdownPage)
    return {"parallel_read_safe": True}
