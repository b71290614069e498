"""Everything that is known of a gate and its cluster, at one time. What could not be seen says why."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from webhook.accounting.amounts import Amounts
from webhook.cli.doctoring.records import (
    Budget,
    Configuration,
    Definition,
    Deployment,
    GatePod,
    Lease,
    Secret,
    Space,
)
from webhook.cli.doctoring.rights import DEFAULT_SECRET, Right
from webhook.objects.core import ResourceQuota

MUTATING, VALIDATING = "mutatingwebhookconfiguration", "validatingwebhookconfiguration"


@dataclass(frozen=True, slots=True)
class Unseen:
    """Something that could not be read, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """What the gate is called here, and how commands name its cluster: `options` go behind kubectl and tallygate.

    `name` is that of its webhook configurations, `secret` that of what it serves with.
    """

    namespace: str
    name: str
    secret: str = DEFAULT_SECRET
    options: tuple[str, ...] = ()


class Attempt(NamedTuple):
    """A pod that was sent as a dry run: what was answered to it."""

    pod: str
    namespace: str
    status: int
    message: str


class Shown(NamedTuple):
    """What a gate that is called by URL shows, as PEM, and why who trusts a bundle would not talk to it, by bundle."""

    certificate: bytes
    refusals: Mapping[bytes, str]


class Sample(NamedTuple):
    """One series of `/metrics`."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Metrics:
    """What a replica's `/metrics` says, by name."""

    samples: Mapping[str, tuple[Sample, ...]]

    def of(self, name: str) -> tuple[Sample, ...]:
        """The series of a metric, its name without `tallygate_`."""
        return self.samples.get(f"tallygate_{name}", ())

    def value(self, name: str) -> float | None:
        """The value of one without labels; None where it is not told."""
        return next((each.value for each in self.of(name)), None)


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica of the gate: its `/readyz`, its `/metrics`, and how far its clock is ahead of ours, in seconds."""

    name: str
    readiness: Mapping[str, Any] | Unseen
    metrics: Metrics | Unseen
    ahead: float | None = None

    def checks(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The checks of `/readyz` by name; none where it could not be read."""
        told = {} if isinstance(self.readiness, Unseen) else self.readiness.get("checks")
        for name, detail in (told if isinstance(told, dict) else {}).items():
            yield str(name), detail if isinstance(detail, dict) else {}

    def check(self, name: str) -> Mapping[str, Any] | None:
        """One of them; None where there is none."""
        return dict(self.checks()).get(name)


class Answered(NamedTuple):
    """A right that the gate needs, and whether it has it."""

    right: Right
    allowed: bool


class Bound(NamedTuple):
    """What a cap allows a namespace: its name, the namespace, and amounts; `whole`, where it counts every pod there."""

    cap: str
    namespace: str
    hard: Amounts
    whole: bool


class User(NamedTuple):
    """Something that uses an opaque name."""

    kind: str
    namespace: str
    name: str
    resource: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What was gathered. `now` is our clock, `ahead` how far the API server's is ahead of it, in seconds.

    `version` is that of the tallygate that asks.
    `served` is what a gate that is called by URL shows; None where it is called by its Service.
    """

    now: datetime
    version: str
    here: Whereabouts
    ahead: float | None
    mutating: Configuration | Unseen | None
    validating: Configuration | Unseen | None
    others: tuple[Configuration, ...] | Unseen
    spaces: tuple[Space, ...] | Unseen
    attempts: tuple[Attempt, ...] | Unseen
    secret: Secret | Unseen | None
    served: Shown | Unseen | None
    deployment: Deployment | Unseen | None
    budgets: tuple[Budget, ...] | Unseen
    pods: tuple[GatePod, ...] | Unseen
    replicas: tuple[Replica, ...] | Unseen
    rights: tuple[Answered, ...] | Unseen
    definition: Definition | Unseen | None
    lease: Lease | Unseen | None
    quotas: tuple[ResourceQuota, ...] | Unseen
    bounds: tuple[Bound, ...] | Unseen
    users: tuple[User, ...] | Unseen = field(default=())

    def configurations(self) -> Iterator[tuple[str, Configuration]]:
        """Those of the gate's that are there, by what kubectl calls their kind."""
        if isinstance(self.mutating, Configuration):
            yield MUTATING, self.mutating
        if isinstance(self.validating, Configuration):
            yield VALIDATING, self.validating

    @property
    def unregistered(self) -> str:
        """Why nothing can be said of the registration; empty where one of the two is there."""
        if any(self.configurations()):
            return ""
        unseen = next((each.why for each in (self.mutating, self.validating) if isinstance(each, Unseen)), "")
        return f"the registration cannot be read: {unseen}" if unseen else "nothing of the gate is registered"

    @property
    def is_called_by_url(self) -> bool:
        """Whether the gate runs elsewhere than behind a Service of this cluster."""
        return any(
            each.client_config.url for _, configuration in self.configurations() for each in configuration.webhooks
        )
