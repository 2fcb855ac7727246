"""Reads the page of a service every second and writes when, how long it took in ms, and its size, until it is ended."""

from __future__ import annotations

import os
import sys
import time
import urllib.request
from http.client import HTTPException

if __name__ == "__main__":
    url, file = sys.argv[1:]
    os.nice(-20)  # a Prometheus elsewhere waits for none of this machine's CPUs
    due = time.monotonic()
    with open(file, "a", buffering=1) as out:
        while True:
            began = time.monotonic()
            try:
                with urllib.request.urlopen(url, timeout=10) as answer:
                    size = len(answer.read())
            except (OSError, HTTPException):  # the second if an answer ends early
                size = 0
            out.write(f"{began:.3f} {(time.monotonic() - began) * 1000:.2f} {size}\n")
            due = max(
                due + 0.99, time.monotonic()
            )  # not in step with the looks, which come every second
            time.sleep(max(0.0, due - time.monotonic()))
