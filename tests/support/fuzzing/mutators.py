"""Changes files at random: bytes, numbers and lines."""

from __future__ import annotations

import random
import re

#: Numbers at which something overflows.
MAGIC = (
    0, 1, -1, 2, 7, 127, 128, 255, 256, 4096, 8191, 8192, 32767, 32768, 65535, 65536, 2**22, 2**24, 2**31 - 1, 2**31,
    2**32 - 1, 2**32, 2**48 - 1, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 10**25,
)  # fmt: skip
TOKENS = (
    b"", b"\n", b"\r", b"\r\n", b"\0", b"\xff\xfe", b"\xe2\x80\xa8", b"-", b"#", b"[", b"]", b"{", b"}", b'"', b"'", b",", b":",
    b": ", b" ==> ", b"=", b"\t", b" " * 40, b"null", b"true", b"NaN", b"1e999", b"[[[[[[", b"CPU:1 [LOST 5 EVENTS]\n",
    b"##### CPU 0 buffer started ####\n", b"# tracer: nop\n", b"cpus=4\n", b" nsecs RQ ", b"PERFILE2", b"PAR1",
    b"\x17\x08\x44tracing", b"\x1f\x8b\x08", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd",
    b"9" * 5000, b"[" * 5000, b'{"a":' * 3000, b"2001-99-99", b"&a [*a]", b"!!python/object:os.system",
)  # fmt: skip
_NUMBER = re.compile(rb"-?\d+")


def mutate(data: bytes, other: bytes, rng: random.Random, *, text: bool) -> tuple[bytes, int]:
    """Return ``data`` with one to five changes, and how many they are.

    Parameters
    ----------
    data, other
        Two valid or once valid files; parts of the other one may be put into the first.
    rng
        Source of all choices.
    text
        The file has lines.
    """
    changes = BYTES + LINES if text else BYTES
    n = 1 + min(int(rng.expovariate(0.7)), 4)
    for _ in range(n):
        data = rng.choice(changes)(data, other, rng)
    return data[: 1 << 20], n


def _at(data: bytes, rng: random.Random) -> int:
    """Return a place; half of the time near the beginning or the end, where files have their tables."""
    near = rng.choice((0, 0, 1, 2))
    if near and len(data) > 64:
        place = rng.randrange(64)
        return place if near == 1 else len(data) - 1 - place
    return rng.randrange(len(data) + 1)


def _flip(data: bytes, other: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    if out:
        out[min(_at(data, rng), len(out) - 1)] ^= 1 << rng.randrange(8)
    return bytes(out)


def _byte(data: bytes, other: bytes, rng: random.Random) -> bytes:
    i = _at(data, rng)
    return data[:i] + bytes([rng.choice((0, 255, 127, 32, rng.randrange(256)))]) + data[i + 1 :]


def _insert(data: bytes, other: bytes, rng: random.Random) -> bytes:
    i = _at(data, rng)
    return data[:i] + rng.choice((rng.randbytes(rng.randint(1, 16)), rng.choice(TOKENS))) + data[i:]


def _delete(data: bytes, other: bytes, rng: random.Random) -> bytes:
    i = _at(data, rng)
    return data[:i] + data[i + rng.choice((1, 2, 4, 8, 16, 24, 64, 200)) :]


def _truncate(data: bytes, other: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _double(data: bytes, other: bytes, rng: random.Random) -> bytes:
    i = _at(data, rng)
    piece = data[i : i + rng.choice((1, 4, 8, 24, 64, 300))]
    return data[:i] + piece * rng.choice((2, 2, 3, 50)) + data[i + len(piece) :]


def _splice(data: bytes, other: bytes, rng: random.Random) -> bytes:
    i, j = _at(data, rng), _at(other, rng)
    return data[:i] + other[j : j + rng.choice((8, 24, 100, len(other)))] + data[i:]


def _word(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """Overwrite a binary number."""
    size = rng.choice((1, 2, 4, 4, 8, 8))
    i = _at(data, rng) // size * size if rng.random() < 0.7 else _at(data, rng)
    old = int.from_bytes(data[i : i + size], "little")
    new = rng.choice((rng.choice(MAGIC), old + rng.choice((-1, 1, 8, -8)), old * 2, len(data)))
    return data[:i] + (new & (1 << 8 * size) - 1).to_bytes(size, "little") + data[i + size :]


def _number(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """Change a number that is written in digits."""
    found = list(_NUMBER.finditer(data))
    if not found:
        return data
    where = rng.choice(found)
    old = int(where[0][:30])
    new = rng.choice(
        (rng.choice(MAGIC), old + 1, old - 1, old * 1000, old // 10, int(rng.choice(found)[0][:30]))
    )
    return data[: where.start()] + str(new).encode() + data[where.end() :]


def _lines(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """Drop, double, move, exchange or mix lines."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    n = rng.choice((1, 1, 1, 2, 5, 20))
    match rng.randrange(6):
        case 0:
            del lines[i : i + n]
        case 1:
            lines[i:i] = lines[i : i + n]
        case 2:
            lines[i], lines[j] = lines[j], lines[i]
        case 3:
            piece = lines[i : i + n]
            del lines[i : i + n]
            lines[j:j] = piece
        case 4:
            lines[i:i] = other.splitlines(keepends=True)[j : j + n]
        case 5:
            words = lines[i].split(b" ")
            k = rng.randrange(len(words))
            words[k] = rng.choice(
                (rng.choice(TOKENS), rng.choice(lines[j].split(b" ")), words[k] * 50)
            )
            lines[i] = b" ".join(words)
    return b"".join(lines)


BYTES = (_flip, _byte, _insert, _delete, _truncate, _double, _splice, _word, _word, _number)
LINES = (_number, _lines, _lines, _lines, _lines, _lines)
