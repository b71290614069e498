"""The error of certificate operations."""

_MAX_LENGTH = 300


class CertsError(Exception):
    """A failed certificate operation; the text names the operation, the object and a remedy."""


def format_one_line(text: str) -> str:
    """Return the text of another program as part of a sentence: printable, in one line, and cut."""
    line = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return line if len(line) <= _MAX_LENGTH else f"{line[:_MAX_LENGTH]} …"
