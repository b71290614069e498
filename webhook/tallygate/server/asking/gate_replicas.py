"""The replicas of the gate and their leader, by the Leases of its namespace: a live read, kept for a while.

Each replica renews a Lease of its own, and the leader one more (`gate.leader_election`).
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from http import HTTPStatus
from typing import Final, NamedTuple

import msgspec

from tallygate.gate.leader_election import LEADER_LEASE, REPLICA_LEASE_PREFIX
from tallygate.kube.api_errors import ApiError
from tallygate.kube.client import ApiClient, ClientConfig, ResponseLimits
from tallygate.objects.coordination import Lease, LeaseList
from tallygate.server.asking.api_reviews import KeptAnswers
from tallygate.state.kubernetes.lease_store import LEASE_SELECTOR
from tallygate.state.kubernetes.stored_leases import create_leases_path

_LIMITS: Final = ResponseLimits(2.0, 2.0, 2.0, 1024 * 1024)


class GateReplica(NamedTuple):
    """A replica of the gate by its identity; `renewed` is when it renewed its Lease, None if that is not known."""

    identity: str
    is_leader: bool
    renewed: datetime | None


class ReplicaReader:
    """The replicas in one namespace, for any thread. `monotonic` returns seconds."""

    def __init__(self, client_config: ClientConfig, namespace: str, monotonic: Callable[[], float]) -> None:
        self._client = ApiClient(client_config, _LIMITS)
        self._path = create_leases_path(namespace)
        self._kept: KeptAnswers[None, tuple[GateReplica, ...] | None] = KeptAnswers(monotonic, 1)

    def read(self) -> tuple[GateReplica, ...] | None:
        """Return the replicas by identity; None if the Leases cannot be read."""
        return self._kept.get(None, self._read)

    def _read(self) -> tuple[GateReplica, ...] | None:
        try:
            response = self._client.get(self._path, {"labelSelector": LEASE_SELECTOR})
            if response.status != HTTPStatus.OK:
                return None
            leases = msgspec.json.decode(response.body, type=LeaseList).items
        except (ApiError, ValueError, RecursionError):
            return None
        return tuple(sorted(_list_replicas(leases)))


def _list_replicas(leases: Iterable[Lease]) -> Iterator[GateReplica]:
    """Yield each replica with a Lease of its own, and the leader also without one."""
    by_name = {lease.metadata.name or "": lease.spec for lease in leases}
    leader = by_name.pop(LEADER_LEASE, None)
    leading = (leader.holder_identity if leader is not None else None) or ""
    own = {spec.holder_identity: spec for name, spec in by_name.items() if name.startswith(REPLICA_LEASE_PREFIX)}
    for identity, spec in own.items():
        if identity:
            yield GateReplica(identity, identity == leading, _parse_time(spec.renew_time))
    if leader is not None and leading and leading not in own:
        yield GateReplica(leading, is_leader=True, renewed=_parse_time(leader.renew_time))


def _parse_time(text: str | None) -> datetime | None:
    """Return the time of a MicroTime; None without one, or if the text has another form."""
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return time if time.tzinfo is not None else None
