"""A change: one thing that somebody wants stored, in the form that rules judge.

The web reaches it from an AdmissionReview, the command line from a manifest; from here on they are the same.
"""

from enum import StrEnum

import msgspec


class Phase(StrEnum):
    """Which of the two webhooks is asked. Caps are charged in the validating phase only."""

    MUTATING = "mutate"
    VALIDATING = "validate"


CREATE = "CREATE"
UPDATE = "UPDATE"


class UserInfo(msgspec.Struct, frozen=True):
    """Who asks (authentication.k8s.io/v1 UserInfo)."""

    name: str = ""
    groups: tuple[str, ...] = ()


class AdmissionRequest(msgspec.Struct, frozen=True):
    """`group` and `kind` as sent (`apps`, `Deployment`); `object` and `old` are the raw JSON of the objects.

    `old` is what is stored now: absent on CREATE. `namespace` is empty for cluster-scoped objects. `resource` is group
    and plural of what is written (`apps`, `deployments`), which the kind does not tell of a subresource; a manifest has
    none.
    """

    kind: str
    operation: str
    object: msgspec.Raw | bytes
    old_object: msgspec.Raw | bytes | None = None
    group: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    user: UserInfo = UserInfo()
    dry_run: bool = False
    resource: tuple[str, str] = ("", "")
