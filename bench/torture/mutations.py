"""Random changes of bytes and of lines of text."""

from __future__ import annotations

import random
import struct

# Numbers at which counters, sizes and offsets overflow.
EXTREMES = [0, 1, 2, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1]

TOKENS = [
    b"nan", b"inf", b"-inf", b"-1", b"0", b"-0", b"1e999", b"1e-999", b"1" * 400, b"9223372036854775808", b"0x1f",
    b"1_0", b"2147483648", b"4294967296:1", b"0:1", b"1:", b":1", b":", b"a:b:c", b"#", b"%", b'"', b"'", b"''",
    b'"""', b",", b";", b"\t", b" ", b"\r", b"\r\n", b"\n\n", b"\0", b"\x1b[31m", b"\xef\xbb\xbf", b"\xff\xfe",
    b"\xc3", b"\xed\xa0\x80", b"{}", b"[]", b"{" * 50, b"[" * 2000, b'{"id": 1}', b'{"id": null}', b"null",
    b"true", b"\\", b"\\u0000", b"\\ud800", b"/", b"../", b"=1+1", b"@x", "e\u0301".encode() * 20,
    "\u202e".encode(), "\u00a0".encode(), "\u0661".encode(), "\u2028".encode(), "\x85".encode(), b"x" * 2000,
    b" " * 3000, b"a,b\n", b"(>= 1)", b"| !", b"<!x>", b"qid:1", b"1:2 " * 300,
]  # fmt: skip


def mutate_bytes(rng: random.Random, raw: bytes) -> bytes:
    """Return bytes with one to eight changes: flipped, overwritten, cut, inserted, copied or set to extremes."""
    changed = bytearray(raw)
    for _ in range(1 if rng.random() < 0.6 else rng.randrange(2, 9)):
        size = len(changed)
        if size == 0:
            changed += rng.randbytes(rng.randrange(64))
            continue
        start, length = rng.randrange(size), 1 << rng.randrange(8)
        kind = rng.randrange(9)
        if kind == 0:
            changed[start] ^= 1 << rng.randrange(8)
        elif kind == 1:
            changed[start] = rng.randrange(256)
        elif kind == 2:
            changed[start : start + length] = rng.randbytes(length)
        elif kind == 3:
            changed[start : start + length] = bytes([rng.choice([0, 255])]) * length
        elif kind == 4:
            del changed[start:]
        elif kind == 5:
            del changed[start : start + length]
        elif kind == 6:
            changed[start:start] = rng.randbytes(length)
        elif kind == 7:
            source = rng.randrange(size)
            changed[start : start + length] = changed[source : source + length]
        else:
            width = rng.choice([1, 2, 4, 8])
            packed = struct.pack("<Q", rng.choice(EXTREMES))[:width]
            start -= start % width if rng.random() < 0.5 else 0
            changed[start : start + width] = packed
    return bytes(changed)


def mutate_text(rng: random.Random, raw: bytes) -> bytes:
    """Return a text with changed lines, fields or bytes."""
    if rng.random() < 0.25:
        return mutate_bytes(rng, raw)
    lines = raw.split(b"\n")
    for _ in range(1 if rng.random() < 0.6 else rng.randrange(2, 7)):
        place, other, kind = rng.randrange(len(lines)), rng.randrange(len(lines)), rng.randrange(9)
        line, token = lines[place], rng.choice(TOKENS)
        if kind == 0:
            lines[place], lines[other] = lines[other], line
        elif kind == 1:
            lines.insert(place, lines[other])
        elif kind == 2 and len(lines) > 1:
            del lines[place]
        elif kind == 3:
            cut = rng.randrange(len(line) + 1)
            lines[place] = line[:cut] + token + line[cut:]
        elif kind == 4:
            lines[place] = line[: rng.randrange(len(line) + 1)]
        elif kind == 5:
            lines[place] = line + lines[other]
        elif kind == 6:
            lines[place : place + 1] = [line] * rng.choice([2, 10, 100])
        elif kind == 7:
            lines[place] = token
        else:
            fields = line.split(rng.choice([b" ", b"\t", b",", b":", b'"']))
            fields[rng.randrange(len(fields))] = token
            lines[place] = rng.choice([b" ", b"\t", b",", b":"]).join(fields)
    return b"\n".join(lines)
