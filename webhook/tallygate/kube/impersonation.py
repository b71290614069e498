"""The user, groups, UID and extra fields as which a client sends its requests: those of a kubeconfig, or of `--as`.

The rules are those of client-go 0.37: the fields `as`, `as-uid`, `as-groups` and `as-user-extra` of a user
(tools/clientcmd/api/v1/types.go), options of the same names that replace them one by one (client_config.go), no field
without a user (validation.go), and the headers of transport/round_trippers.go.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from tallygate.errors import TallygateError

# The characters of an HTTP token (RFC 9110, 5.6.2) but for the percent sign, as in client-go's `legalHeaderByte`.
_HEADER_CHARACTERS = "!#$&'*+-.^_`|~"


class ImpersonationError(TallygateError):
    """An impersonation that cannot be sent."""


@dataclass(frozen=True, slots=True)
class Impersonation:
    """The identity that requests ask for; an empty one asks for none. `extra` has the values of each key."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def override(self, options: "Impersonation") -> "Impersonation":
        """Return this impersonation with the fields that `options` has in their place.

        Values of an extra key replace those of the same key, and the other keys stay.
        """
        return Impersonation(
            options.user or self.user,
            options.uid or self.uid,
            options.groups or self.groups,
            {**self.extra, **options.extra},
        )

    def list_headers(self) -> list[tuple[str, str]]:
        """Return the headers, a name once for each of its values.

        Raises:
            ImpersonationError: if there is no user for the other fields, or a value cannot stand in a header.
        """
        headers = list(self._iterate_headers())
        if headers and not self.user:
            raise ImpersonationError(
                "a UID, groups or extra fields are impersonated without a user: name one by `as` or --as"
            )
        for name, value in headers:
            if not (value.isascii() and value.isprintable()):
                raise ImpersonationError(f"{name} {value!r} has characters that no header may have")
        return headers

    def _iterate_headers(self) -> Iterator[tuple[str, str]]:
        if self.user:
            yield "Impersonate-User", self.user
        if self.uid:
            yield "Impersonate-Uid", self.uid
        yield from (("Impersonate-Group", group) for group in self.groups)
        for key, values in self.extra.items():
            name = f"Impersonate-Extra-{quote(key, safe=_HEADER_CHARACTERS)}"
            yield from ((name, value) for value in values)


NO_IMPERSONATION = Impersonation()
"""The requests of the user itself."""


def parse_impersonation(user: Mapping[str, Any]) -> Impersonation:
    """Return the impersonation of a user of a kubeconfig.

    Raises:
        ImpersonationError: if a field has another type than in Kubernetes; the text names the field.
    """
    return Impersonation(
        _get_text(user, "as"),
        _get_text(user, "as-uid"),
        tuple(_parse_texts(user.get("as-groups") or [], "as-groups")),
        _parse_extra(user.get("as-user-extra") or {}),
    )


def parse_user_extra(words: Sequence[str]) -> dict[str, list[str]]:
    """Return the extra fields of options `KEY=VALUE`; a key may be repeated (cli-runtime, config_flags.go).

    Raises:
        ImpersonationError: if a word has no `=`, or no key before it.
    """
    extra: dict[str, list[str]] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not (key and equals):
            raise ImpersonationError(f"--as-user-extra {word}: write KEY=VALUE")
        extra.setdefault(key, []).append(value)
    return extra


def _get_text(user: Mapping[str, Any], name: str) -> str:
    value = user.get(name)
    if value is not None and not isinstance(value, str):
        raise ImpersonationError(f"{name} of its user is no string")
    return value or ""


def _parse_extra(content: object) -> dict[str, list[str]]:
    if not isinstance(content, Mapping):
        raise ImpersonationError("as-user-extra of its user is no mapping of lists of strings")
    return {str(key): _parse_texts(values, f"as-user-extra.{key}") for key, values in content.items()}


def _parse_texts(content: object, name: str) -> list[str]:
    if not (isinstance(content, list) and all(isinstance(item, str) for item in content)):
        raise ImpersonationError(f"{name} of its user is no list of strings")
    return content
