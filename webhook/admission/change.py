"""A change: one thing that somebody wants stored, in the form that rules judge.

The web reaches it from an AdmissionReview, the command line from a manifest; from here on they are the same.
"""

from dataclasses import dataclass
from enum import StrEnum

import msgspec


class Phase(StrEnum):
    """Which of the two webhooks is asked. Caps are charged in the validating phase only."""

    MUTATING = "mutate"
    VALIDATING = "validate"


@dataclass(frozen=True, slots=True)
class User:
    """Who asks (authentication.k8s.io/v1 UserInfo)."""

    name: str = ""
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """`kind` as sent (`Pod`), `resource` its plural (`pods`), `object` and `old` the raw JSON of the objects."""

    kind: str
    operation: str
    object: msgspec.Raw | bytes
    old: msgspec.Raw | bytes | None = None
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    user: User = User()
    dry_run: bool = False
