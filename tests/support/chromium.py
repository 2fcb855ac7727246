"""A headless Chromium driven over its debugging protocol: what it drew, said and asked the network for."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import tempfile
import time
from pathlib import Path

import websocket

from wastedcores.reports.screenshot import FLAGS, browser


class Chromium:
    """``with Chromium() as page: page.open(url)``; ``errors`` and ``requests`` collect as it goes."""

    def __init__(self, width=1280, height=900):
        self.size = width, height

    def __enter__(self):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        command = [
            browser(),
            *FLAGS,
            f"--user-data-dir={self.profile.name}",
            "--remote-debugging-port=0",
        ]
        command += [
            f"--window-size={self.size[0]},{self.size[1]}",
            "--remote-allow-origins=*",
            "about:blank",
        ]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        address = next(
            m[1] for line in self.process.stderr if (m := re.search(r"(ws://\S+)", line))
        )
        self.socket = websocket.create_connection(address, timeout=60)
        self.number, self.session, self.errors, self.requests = 0, None, [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_):
        self.socket.close()
        self.process.terminate()
        self.process.wait(20)
        self.process.stderr.close()
        self.profile.cleanup()

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.socket.send(json.dumps(message))
        while True:
            got = json.loads(self.socket.recv())
            if got.get("id") == self.number:
                assert "error" not in got, got
                return got["result"]
            self._event(got)

    def _event(self, got):
        params = got.get("params", {})
        if got.get("method") == "Runtime.exceptionThrown":
            self.errors.append(
                params["exceptionDetails"].get("exception", {}).get("description", "exception")
            )
        elif got.get("method") == "Runtime.consoleAPICalled" and params["type"] == "error":
            self.errors.append(str([a.get("value", a.get("description")) for a in params["args"]]))
        elif got.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        elif got.get("method") == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def open(self, url):
        self.call("Page.navigate", url=url)

    def js(self, expression):
        result = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def until(self, expression, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.js(expression)
            if value:
                return value
            time.sleep(0.3)
        raise AssertionError(f"not within {seconds} s: {expression}; errors: {self.errors[-5:]}")

    def drag(self, box, start, end):
        """Drag over a box (left, top, width, height) from one share of its width to another, at half height."""
        left, top, width, height = box
        y = top + height / 2
        for kind, share in (
            ("mouseMoved", start),
            ("mousePressed", start),
            ("mouseMoved", (start + end) / 2),
            ("mouseMoved", end),
            ("mouseReleased", end),
        ):
            button = (
                {"button": "left", "buttons": 1, "clickCount": 1}
                if kind != "mouseMoved" or share != start
                else {}
            )
            self.call("Input.dispatchMouseEvent", type=kind, x=left + share * width, y=y, **button)

    def screenshot(self, path):
        shot = self.call("Page.captureScreenshot", format="png")
        Path(path).write_bytes(base64.b64decode(shot["data"]))
