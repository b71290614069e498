"""The cookie of a signed-in browser: an encrypted token of the cluster, of which the server stores nothing.

The prefix `__Host-` keeps it from other hosts and plain HTTP, and `SameSite=Strict` from requests of other sites
(draft-ietf-httpbis-rfc6265bis, sections 4.1.2.7 and 4.1.3). Scripts cannot read it, and without a key it can
neither be read nor made (https://github.com/fernet/spec). The token in it is reviewed for each request, as one in a
header is.
"""

from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from flask import Request, Response

from tallygate.errors import TallygateError
from tallygate.server.asking.ask_error import AskError

COOKIE: Final = "__Host-tallygate"

LONGEST_SECONDS: Final = 8 * 3600
"""How long a cookie is accepted: a working day. Its token may expire before."""

_MAX_COOKIE_BYTES: Final = 4000  # of name and value; browsers ignore more than 4,096 (rfc6265bis, section 5.6)
_MAX_KEY_FILE_BYTES: Final = 1 << 16


class PageKeyError(TallygateError):
    """The file of keys cannot be used."""


def read_keys(path: Path) -> tuple[bytes, ...]:
    """Return the keys in a file, one a line; ignore empty lines and lines that begin with `#`.

    Raises:
        PageKeyError: if the file cannot be read or has no key, or if a line is no key of Fernet.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_KEY_FILE_BYTES)
    except OSError as error:
        raise PageKeyError(f"page_key_file: {path} cannot be read: {error.strerror}") from None
    lines = [line.strip() for line in content.splitlines()]
    for number, line in enumerate(lines, 1):
        if line and not line.startswith(b"#") and not _is_key(line):
            raise PageKeyError(f"{path}:{number}: a key is 32 bytes in base64url, as of `openssl rand -base64 32`")
    keys = tuple(line for line in lines if line and not line.startswith(b"#"))
    if not keys:
        raise PageKeyError(f"{path}: no key in it; write one a line, as of `openssl rand -base64 32`")
    return keys


def _is_key(line: bytes) -> bool:
    try:
        Fernet(line)
    except ValueError:
        return False
    return True


class Sessions:
    """The cookies of one server, for any thread.

    Args:
        keys: the first one encrypts, each of them decrypts; without any, a key of this process alone.
        clock: returns the seconds since 1970.
    """

    def __init__(self, keys: Sequence[bytes], clock: Callable[[], float]) -> None:
        self._fernet = MultiFernet([Fernet(key) for key in keys or (Fernet.generate_key(),)])
        self._clock = clock

    def find_token(self, request: Request) -> str | None:
        """Return the token in the cookie of a request; None without a cookie that this server accepts."""
        value = request.cookies.get(COOKIE, "")
        if not value or len(value) > _MAX_COOKIE_BYTES or not value.isascii():
            return None
        try:
            return self._fernet.decrypt_at_time(value, LONGEST_SECONDS, int(self._clock())).decode()
        except (InvalidToken, ValueError):
            return None

    def set_cookie(self, response: Response, token: str) -> None:
        """Set the cookie of a token.

        Raises:
            AskError: with 413 if the token is too long for a cookie.
        """
        value = self._fernet.encrypt_at_time(token.encode(), int(self._clock())).decode()
        if len(COOKIE) + len(value) > _MAX_COOKIE_BYTES:
            message = f"this token has {len(token)} characters, and a cookie takes about 2,870 of them: use one of"
            raise AskError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"{message} `kubectl create token SERVICEACCOUNT`")
        response.set_cookie(COOKIE, value, LONGEST_SECONDS, secure=True, httponly=True, samesite="Strict", path="/")

    def delete_cookie(self, response: Response) -> None:
        """Delete the cookie of the browser; its token is valid until it expires or is revoked."""
        response.delete_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="Strict")
