"""Leases (coordination.k8s.io/v1), for writing and reading."""

import msgspec

from tallygate.objects.meta import ObjectMeta


class LeaseSpec(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """`spec` of a Lease."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(msgspec.Struct, rename="camel", frozen=True):
    """A Lease."""

    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()
    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"


class LeaseList(msgspec.Struct, frozen=True):
    """A list of Leases."""

    items: list[Lease]
