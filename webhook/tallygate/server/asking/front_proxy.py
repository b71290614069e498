"""Who asks through a front proxy: the user whom its headers state, which count over mutual TLS alone.

The rules are those of the API server's authenticator of headers (k8s.io/apiserver pkg/authentication/request:
headerrequest, and `Verifier` of x509, v1.36). It is stricter in three points: a front proxy that states no user gets
401, where the API server asks its next authenticator; a header of the user that comes twice is refused, since a proxy
that adds its own to the one of a client would state the client's; and values are printable text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from tallygate.server.asking.ask_error import AskError
from tallygate.server.asking.certificate_identity import AUTHENTICATED, read_client_certificate
from tallygate.server.asking.identity import Asker
from tallygate.server.interfaces import ProxyRequest

MAX_BYTES: Final = 16 * 1024
"""The bytes of the stated user with his groups and extra, as of a token: answers about a user are kept with these."""

_ANONYMOUS: Final = "system:anonymous"  # not in AUTHENTICATED (group.AuthenticatedGroupAdder)
_UNAUTHENTICATED: Final = "system:unauthenticated"
_HALF_ESCAPED: Final = re.compile(rb"%(?![0-9a-f]{2})")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedHeaders:
    """The names of the headers that state a user.

    `has_group_lists`: whether one header has several groups, with commas between them; else each header has one.
    """

    user: str = "X-Remote-User"
    group: str = "X-Remote-Group"
    extra_prefix: str = "X-Remote-Extra-"
    has_group_lists: bool = False


class FrontProxies:
    """The front proxies that may state users: those with a common name out of `names`, or all without names."""

    def __init__(self, names: Sequence[str] = (), headers: StatedHeaders = StatedHeaders()) -> None:
        self._names = frozenset(names)
        self._headers = headers
        self._user, self._group, self._prefix = (
            name.lower().encode("ascii") for name in (headers.user, headers.group, headers.extra_prefix)
        )
        self._keys = {_create_environ_key(headers.user), _create_environ_key(headers.group)}
        self._key_prefix = _create_environ_key(headers.extra_prefix)

    def identify(self, proxied: ProxyRequest, now: datetime) -> Asker:
        """Return the user whom a front proxy states.

        Raises:
            AskError: with 401 if the certificate does not count, or the headers state no user, two, or other than text.
        """
        certificate = read_client_certificate(proxied.certificate, now)
        if self._names and certificate.common_name not in self._names:
            raise _create_error("the certificate of the front proxy has a common name (CN) that is not allowed")
        stated = [(name, value) for name, value in proxied.headers if value and self._is_stated(name)]
        if sum(len(name) + len(value) for name, value in stated) > MAX_BYTES:
            raise _create_error(f"the front proxy states a user with more than {MAX_BYTES} bytes")
        users = [value for name, value in proxied.headers if name == self._user]
        if len(users) > 1:
            raise _create_error(f"the front proxy states several users: its header `{self._headers.user}` is repeated")
        if not users or not users[0]:
            raise _create_error(f"the front proxy states no user: its header `{self._headers.user}` is missing")
        username = _decode(users[0])
        groups = [_decode(value) for name, value in stated if name == self._group]
        if self._headers.has_group_lists:
            groups = [group for text in groups for part in text.split(",") if (group := part.strip())]
        if username != _ANONYMOUS and {AUTHENTICATED, _UNAUTHENTICATED}.isdisjoint(groups):
            groups.append(AUTHENTICATED)
        return Asker(username, groups=tuple(groups), extra=tuple(sorted(self._read_extra(stated))))

    def remove_headers(self, environ: dict[str, Any]) -> None:
        """Remove the headers that state a user from a WSGI environment: only `identify` reads them."""
        for key in [each for each in environ if each in self._keys or each.startswith(self._key_prefix)]:
            del environ[key]

    def _is_stated(self, name: bytes) -> bool:
        return name in {self._user, self._group} or name.startswith(self._prefix)

    def _read_extra(self, stated: Sequence[tuple[bytes, bytes]]) -> Iterator[tuple[str, tuple[str, ...]]]:
        extra: dict[str, list[str]] = {}
        for name, value in stated:
            if name.startswith(self._prefix) and name not in {self._user, self._group}:
                extra.setdefault(_unescape(name[len(self._prefix) :]), []).append(_decode(value))
        for key, values in extra.items():
            yield key, tuple(values)


def _create_environ_key(name: str) -> str:
    return f"HTTP_{name.upper().replace('-', '_')}"


def _unescape(key: bytes) -> str:
    """Return the key of an extra; one with a `%` that escapes nothing stays as it is."""
    return _decode(key if _HALF_ESCAPED.search(key) else unquote_to_bytes(key))


def _decode(value: bytes) -> str:
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if not text.isprintable():
        raise _create_error("the front proxy states a user with other than printable text in UTF-8")
    return text


def _create_error(reason: str) -> AskError:
    return AskError(HTTPStatus.UNAUTHORIZED, reason)
