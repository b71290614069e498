"""The policies that API servers ask the gate about: a cap becomes active only after that (rule 14).

An API server that does not ask about the objects of a cap is like a replica without that cap: what is created there is
stored without a charge. So the Lease of a replica lists a cap only after the stored registration has asked about it for
`PROPAGATION_SECONDS`, by which every API server has it. A policy that was dropped from the registration and added again
has another number there, so that a replica notices it between two reads.
"""

import math
from collections.abc import Callable, Mapping
from typing import Final

from tallygate.admission.match_conditions import (
    AskingPolicy,
    MatchConditions,
    compute_digest,
    concerns_every_pod,
    list_policies,
)
from tallygate.admission.self_registration import EVERYTHING
from tallygate.policy.model import NamespaceCap, PolicySet

PROPAGATION_SECONDS: Final = 45.0
"""The longest time from the write of a webhook configuration until every API server acts by it.

It takes milliseconds as a rule. An API server has a connection to etcd of its own for each resource, and notices within
40 s that one is silent: it sends a ping after 30 s, and waits for 10 s (keepaliveTime and keepaliveTimeout in
k8s.io/apiserver pkg/storage/storagebackend/factory/etcd3.go, v1.37). The rest is for the next connection.
"""

REACHES: Final = ("every-pod", "named", "waiting")
"""The kinds of policies by what API servers ask about for them."""

_DigestNumber = tuple[str, int]
_EVERYTHING: Final[_DigestNumber] = EVERYTHING, 0


class AskedPolicies:
    """The loaded policies, and of which of them the API servers ask; for any thread, since each write replaces a value.

    `load` returns the same set until there is a change, `monotonic` seconds. Until the registration is read, none is
    asked about.
    """

    def __init__(self, load: Callable[[], PolicySet], monotonic: Callable[[], float]) -> None:
        self._load = load
        self._monotonic = monotonic
        self._since: Mapping[_DigestNumber, float] | None = {}  # None if it is not known what others register
        self._conditions: tuple[PolicySet, bool, MatchConditions] | None = None
        self._reader: Callable[[], None] = lambda: None

    def get_conditions(self, *, gives_devices: bool) -> MatchConditions:
        """Return the match conditions of all loaded policies (`MatchConditions`)."""
        policies, conditions = self._load(), self._conditions
        if conditions is None or conditions[0] is not policies or conditions[1] != gives_devices:
            made = MatchConditions(policies, gives_devices=gives_devices)
            conditions = self._conditions = policies, gives_devices, made
        return conditions[2]

    def is_asked(self, cap: NamespaceCap) -> bool:
        """Return whether every API server asks about what a cap counts, as far as this replica has seen."""
        since = self.find_asked_since(cap)
        return since is not None and since <= self._monotonic()

    def find_asked_since(self, cap: NamespaceCap) -> float | None:
        """Return the time since which every API server asks about what a cap counts; None if it is not registered.

        It is that of the registration and the time until the last API server has it, and minus infinity if the
        registration asks about everything, or is that of others.
        """
        since = self._since
        if since is None or _EVERYTHING in since:
            return -math.inf
        digest = compute_digest(cap)
        return next((first + PROPAGATION_SECONDS for (listed, _), first in since.items() if listed == digest), None)

    def estimate_wait(self, cap: NamespaceCap) -> float:
        """Return the seconds until every API server asks about what a cap counts, also if it is not registered yet."""
        now, since = self._monotonic(), self.find_asked_since(cap)
        return PROPAGATION_SECONDS if since is None else max(since - now, 0.0)

    def list_waiting(self) -> tuple[str, ...]:
        """Return the names of the loaded policies that the stored registration does not ask about, sorted."""
        return tuple(sorted(policy.name for policy in self._find_waiting()))

    def _find_waiting(self) -> list[AskingPolicy]:
        since = self._since
        if since is None or _EVERYTHING in since:
            return []
        listed = {digest for digest, _ in since}
        return [policy for policy in list_policies(self._load()) if compute_digest(policy) not in listed]

    def count_by_reach(self) -> dict[str, int]:
        """Return the number of loaded policies for each of `REACHES`.

        `every-pod` have something to say about each pod of their namespaces, `named` only about pods with a resource
        that they name, or with claims; `waiting` are those that the stored registration does not ask about.
        """
        policies, waiting = list_policies(self._load()), self._find_waiting()
        wide = sum(concerns_every_pod(policy) for policy in policies if policy not in waiting)
        counts = wide, len(policies) - len(waiting) - wide, len(waiting)
        return dict(zip(REACHES, counts, strict=True))

    def set_reader(self, reader: Callable[[], None]) -> None:
        """Set the function that reads the stored registration and calls `update`; it may raise TallygateError."""
        self._reader = reader

    def read_again(self) -> None:
        """Read the stored registration now.

        Raises:
            TallygateError: if it cannot be read.
        """
        self._reader()

    def update(self, numbers: Mapping[str, int] | None) -> None:
        """Take over the stored registration: the number of each digest, or that of `EVERYTHING`.

        Pass None if the gate has no registration of its own: others may have registered it for everything. What the
        gate's own one covers after that begins then. Webhooks that asked about everything have asked about each policy.
        """
        now, before = self._monotonic(), self._since or {}
        first = before.get(_EVERYTHING, now)
        self._since = None if numbers is None else {key: before.get(key, first) for key in numbers.items()}
