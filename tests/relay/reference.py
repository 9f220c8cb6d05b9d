"""STOMP, cut, spelled and read once more, as simply as can be: it shares nothing with what it tests."""

from dataclasses import dataclass

Pairs = list[tuple[bytes, bytes]]

SPELLED = {
    b"1.0": {},
    b"1.1": {0x5C: b"\\\\", 0x0A: b"\\n", 0x3A: b"\\c"},
    b"1.2": {0x5C: b"\\\\", 0x0A: b"\\n", 0x3A: b"\\c", 0x0D: b"\\r"},
}
MEANT = {version: {value: bytes([key]) for key, value in table.items()} for version, table in SPELLED.items()}


def spell(version: bytes, text: bytes) -> bytes:
    """A name or value as this version writes it."""
    table = SPELLED[version]
    return b"".join(table.get(octet, bytes([octet])) for octet in text)


def read(version: bytes, text: bytes) -> bytes:
    """What a spelled name or value means; octet by octet, so that no escape is read twice."""
    table = MEANT[version]
    meant, at = b"", 0
    while at < len(text):
        two = text[at : at + 2]
        if table and two[:1] == b"\\":
            meant += table[two]
            at += 2
        else:
            meant += two[:1]
            at += 1
    return meant


def write(version: bytes, command: bytes, headers: Pairs, body: bytes = b"") -> bytes:
    """A frame as this version writes it. The blank line ends the head, the NUL the frame."""
    lines = [spell(version, name) + b":" + spell(version, value) + b"\n" for name, value in headers]
    return command + b"\n" + b"".join(lines) + b"\n" + body + b"\0"


@dataclass
class Heard:
    """A frame that was read."""

    command: bytes
    headers: Pairs
    body: bytes

    def first(self, name: bytes) -> bytes | None:
        """Of repeated headers the first counts."""
        return next((value for each, value in self.headers if each == name), None)


def cut(version: bytes, data: bytes) -> tuple[list[Heard], bytes]:
    """The frames in `data`, and what is left of it."""
    frames: list[Heard] = []
    while True:
        data = data.lstrip(b"\n")
        end = data.find(b"\n\n")
        if end < 0:
            return frames, data
        command, *lines = data[:end].split(b"\n")
        headers = []
        for line in lines:
            name, colon, value = line.partition(b":")
            assert colon, f"no colon in {line!r}"
            headers.append((read(version, name), read(version, value)))
        start = end + 2
        length = next((int(value) for name, value in headers if name == b"content-length"), None)
        stop = data.find(b"\0", start) if length is None else start + length
        if stop < 0 or stop >= len(data):
            return frames, data
        assert data[stop : stop + 1] == b"\0", "the body is not as long as it says"
        frames.append(Heard(command, headers, data[start:stop]))
        data = data[stop + 1 :]
