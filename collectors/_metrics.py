# SPDX-License-Identifier: GPL-2.0-only
"""Serve counters in Prometheus' text format, on a thread of its own."""

import http.server
import threading


def page(rows):
    """Return rows of (name, value, help) as text."""
    return "".join(
        "# HELP wastedcores_%s_total %s\n# TYPE wastedcores_%s_total counter\nwastedcores_%s_total %d\n"
        % (n, h, n, n, v)
        for n, v, h in rows
    )


def serve(where, rows):
    """Serve what rows() returns at (host, port), and return the server."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path not in ("/metrics", "/"):
                self.send_error(404)
                return
            text = page(rows()).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *args):
            pass

    server = http.server.HTTPServer(where, Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
