"""The text in a page of systrace is found wherever the pieces of the file end."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest

from wastedcores.trace.io import open_trace
from wastedcores.trace.readers.support.embedded import systrace_text
from wastedcores.trace.recognisers import SYSTRACE_BLOCKS


class Dribble(io.RawIOBase):
    """A file that gives a few bytes at a time."""

    def __init__(self, content: bytes, rng: random.Random) -> None:
        self._file, self._rng = io.BytesIO(content), rng

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        return self._file.readinto(memoryview(buffer)[: self._rng.choice((1, 2, 7, 40, 4000))])


@pytest.mark.parametrize("seed", range(40))
def test_the_text_is_found_wherever_the_pieces_end(seed):
    rng = random.Random(seed)
    block = rng.choice(SYSTRACE_BLOCKS)
    end = b"</script>" if block == SYSTRACE_BLOCKS[0] else b'\\n";'
    # parts of the words stand before them, so that a search that stops in one of them has to begin again
    bait = [block[:-1], end[:-1], b"<", b"</scrip", b"\\", b"x" * 50, b"# tracer: nop\n", b"\n"]
    text = b"# " + b"".join(rng.choices(bait, k=rng.randrange(60)))
    # catapult/systrace: android_process_data_agent.py, android_cgroup_agent.py
    blank = rng.choice((b"", b" \n", b"\r\n"))
    processes, groups, other = (
        SYSTRACE_BLOCKS[0] + blank + content + b"  </script>\n"
        for content in (
            b"PROCESS DUMP\nUSER PID\nroot 1\n",
            b"# tracer: \nCGROUP DUMP\n/top (root=1) : 1 2\n",
            b'{"traceEvents": []}',
        )
    )
    others = b"".join(rng.choice((b"", block)) for block in (processes, groups, other))
    page = b"<html>" + others + rng.choice(bait) + block + b"\n" + text
    ended = rng.random() < 0.8
    found = systrace_text(Dribble(page + end + b"</html>" if ended else page, rng)).read()
    assert found == text + b"\n" * ended


def test_a_page_with_a_block_per_agent_is_a_trace(tmp_path):
    lines = (Path(__file__).parents[1] / "golden" / "ftrace_4.1.txt").read_bytes()
    begin = SYSTRACE_BLOCKS[0]
    page = b"<html>" + begin + b"\nPROCESS DUMP\nUSER PID\nroot 1\n  </script>\n"
    page += begin + b"\n# tracer: \nCGROUP DUMP\n/top (root=1) : 1 2\n  </script>\n"
    page += begin + b"\n" + lines + b"  </script>\n"
    (tmp_path / "page.html").write_bytes(page)
    (tmp_path / "text.txt").write_bytes(lines)
    events, expected = (
        open_trace(tmp_path / name).events.collect() for name in ("page.html", "text.txt")
    )
    assert expected.height > 10
    assert events.equals(expected)


def test_pages_that_are_longer_than_the_buffer_are_read_whole():
    lines = b"".join(b"%d line\n" % n for n in range(400_000))
    assert len(lines) > 4 << 20
    page = b"<html>" * 500_000 + SYSTRACE_BLOCKS[0] + b"\n" + lines + b"</script></html>"
    assert systrace_text(io.BytesIO(page)).read() == lines + b"\n"
