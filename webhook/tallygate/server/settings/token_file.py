"""The file of tokens: the secret path segments of `token_file`, for the server and for `tallygate certs publish`."""

import re
from pathlib import Path

from tallygate.errors import TallygateError

_TOKEN_PATTERN = re.compile(rb"[A-Za-z0-9._~-]{16,256}")
_MAX_TOKEN_FILE_BYTES = 1 << 16


class TokenError(TallygateError):
    """The token file cannot be used."""


def read_tokens(path: Path) -> tuple[bytes, ...]:
    """Return the tokens in a file, one a line; ignore empty lines and lines that begin with `#`.

    Raises:
        TokenError: if the file cannot be read or has no token, or if a token is too short to be a secret, too long, or
            has a character that is not allowed in a path.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_TOKEN_FILE_BYTES)
    except OSError as error:
        raise TokenError(f"token_file: {path} cannot be read: {error.strerror}") from None
    lines = [line.strip() for line in content.splitlines()]
    tokens = tuple(line for line in lines if line and not line.startswith(b"#"))
    if not tokens:
        raise TokenError(f"{path}: no token in it; write one a line, such as `openssl rand -hex 32` makes")
    for number, line in enumerate(lines, 1):
        if line in tokens and not _TOKEN_PATTERN.fullmatch(line):
            raise TokenError(f"{path}:{number}: a token is 16 to 256 letters, digits and . _ ~ -")
    return tokens
