"""What certificates can fail with."""

_MAX_LENGTH = 300


class CertsError(Exception):
    """Something cannot be done with the certificates, and this text says what, where and what would help."""


def format_one_line(text: str) -> str:
    """What somebody else has said, so that it can stand in a sentence: printable, in one line, and cut."""
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return line if len(line) <= _MAX_LENGTH else f"{line[:_MAX_LENGTH]} …"
