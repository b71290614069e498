"""CapUsage: the object that shows a tenant one cap of his namespace. `crd` describes the same fields.

It is one object for each cap in each member namespace, so that `kubectl get capusages` prints a line for each cap. It
has numbers of other namespaces, and no names. No decision depends on it.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import msgspec

from tallygate.accounting.amounts import format_amount
from tallygate.policy.times import format_time
from tallygate.state.kubernetes.cap_ledger import GROUP, VERSION

KIND: Final = "CapUsage"
PLURAL: Final = "capusages"
MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "tallygate"
"""The value of the label: only objects with it are deleted."""


class CapState(StrEnum):
    """The state of a ledger: active; new, so that it counts first and denies nothing; or initializing."""

    ACTIVE = "active"
    NEW = "new"
    INITIALIZING = "initializing"


class CapSharing(StrEnum):
    """The namespaces that a ledger counts: this one alone, all namespaces of the cap, or those of a group."""

    NONE = "none"
    NAMESPACES = "namespaces"
    GROUP = "group"


class PublishedResource(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """The usage of one resource, in quantities; an amount that does not exist, or is unknown, is absent.

    `hard` is the limit until `until`, and `later` the one from then on.
    """

    name: str
    hard: str | None = None
    soft: str | None = None
    used: str | None = None
    reserved: str | None = None
    free: str | None = None
    until: datetime | None = None
    later: str | None = None


class PublishedSummary(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """The columns of `kubectl get`."""

    used: str = ""
    reserved: str = ""
    free: str = ""
    until: str = ""


class PublishedStatus(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """The content of a CapUsage.

    `namespaces` is the number of the namespaces that share the amounts, this one included. `active_from` is the time at
    which a ledger that is not active is expected to be. `as_of` is the time of the write.
    """

    state: CapState
    sharing: CapSharing
    namespaces: int
    resources: list[PublishedResource] = []
    summary: PublishedSummary = PublishedSummary()
    active_from: datetime | None = None
    as_of: datetime | None = None


def create_resource(  # noqa: PLR0913  # the amounts of one resource
    name: str,
    *,
    hard: int | None,
    soft: int | None,
    used: int | None,
    reserved: int | None,
    free: int | None,
    until: datetime | None = None,
    later: int | None = None,
) -> PublishedResource:
    """Return the usage of a resource, from amounts in the units of accounting."""
    amounts = {"hard": hard, "soft": soft, "used": used, "reserved": reserved, "free": free, "later": later}
    texts = {field: None if amount is None else format_amount(name, amount) for field, amount in amounts.items()}
    return PublishedResource(name=name, until=until, **texts)


def create_summary(resources: Iterable[PublishedResource]) -> PublishedSummary:
    """Return the columns for these resources: `nvidia.com/gpu 3/8`, and the earliest end of a limit."""
    listed = list(resources)
    ends = sorted(resource.until for resource in listed if resource.until is not None)
    return PublishedSummary(
        used=_join(
            (each.name, f"{each.used or '?'}{f'/{each.hard}' if each.hard is not None else ''}") for each in listed
        ),
        reserved=_join((each.name, each.reserved) for each in listed),
        free=_join((each.name, each.free) for each in listed),
        until=format_time(ends[0]) if ends else "",
    )


def _join(amounts: Iterable[tuple[str, str | None]]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in amounts if amount is not None)


def create_object(namespace: str, cap: str, status: PublishedStatus) -> dict[str, Any]:
    """Return a CapUsage, ready to apply."""
    labels = {MANAGED_BY_LABEL: MANAGER}
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {"name": cap, "namespace": namespace, "labels": labels},
        "status": msgspec.to_builtins(status),
    }
