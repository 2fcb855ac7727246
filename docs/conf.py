"""Sphinx's configuration. ``make docs`` stages the sources and calls Sphinx (tools/build_docs.py)."""

from __future__ import annotations

import wastedcores

project = "wastedcores"
copyright = "the wastedcores authors; Apache-2.0"
version = release = wastedcores.__version__
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.duration",
]
root_doc = "docs/index"
exclude_patterns: list[str] = []
html_theme = "furo"
html_title = "wastedcores"
html_static_path = ["_static"]
html_css_files = ["results.css", "site.css"]
html_show_sphinx = False
html_copy_source = False

nb_execution_mode = (
    "off"  # tools/build_docs.py executes the notebooks, with small parameters and a cache
)
nb_merge_streams = True
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]

autodoc_typehints = "description"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_numpy_docstring = True
napoleon_use_ivar = True
# a name that several classes have (``name``, ``kernel``) is not a link; plain code is as readable
suppress_warnings = ["ref.python"]


def setup(app) -> None:
    """Add the plotting library to the pages of the notebooks, and to no other page: it has 4.7 MB."""

    def add(app, pagename, templatename, context, doctree) -> None:
        if pagename.startswith("notebooks/"):
            app.add_js_file("plotly.min.js")

    app.connect("html-page-context", add)
