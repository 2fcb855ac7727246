"""Turns an executed notebook into one page that needs no network: figures stay interactive, code is hidden."""

from __future__ import annotations

from html import escape
from pathlib import Path

import nbformat
from jinja2 import DictLoader
from nbconvert import HTMLExporter

from wastedcores.reports.html import MIME, figure_div, scripts

#: nbconvert's plain cells without prompts; every input is hidden until the reader asks for the code
_TEMPLATE = """
{%- extends 'basic/index.html.j2' -%}
{% block input_group %}<div class="wc-code">
{{ cell.source | highlight_code(metadata=cell.metadata) }}</div>{% endblock %}
{% block in_prompt %}{% endblock %}
{% block empty_in_prompt %}{% endblock %}
{% block output_area_prompt %}{% endblock %}
"""


def page(notebook: nbformat.NotebookNode, title: str) -> str:
    """Return an executed notebook as a complete HTML document."""
    nb = nbformat.from_dict(notebook)
    for number, cell in enumerate(nb.cells):
        for at, output in enumerate(cell.get("outputs", ())):
            data = output.get("data", {})
            if MIME in data:
                output["data"] = {"text/html": figure_div(data[MIME], f"figure-{number}-{at}")}
    exporter = HTMLExporter(
        extra_loaders=[DictLoader({"page.j2": _TEMPLATE})],
        template_file="page.j2",
        exclude_input_prompt=True,
        exclude_output_prompt=True,
        exclude_anchor_links=True,
    )
    body, _ = exporter.from_notebook_node(nb)
    css = "".join(
        Path(__file__).with_name(name).read_text("utf-8") for name in ("results.css", "report.css")
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        + '<meta name="viewport" content="width=device-width, initial-scale=1">'
        + '<link rel="icon" href="data:,">'
        + f"<title>{escape(title)}</title><style>{css}</style><script>{scripts()}</script></head>"
        + '<body><input type="checkbox" id="show-code"><label for="show-code">show code</label>'
        + f"<main>{body}</main></body></html>\n"
    )
