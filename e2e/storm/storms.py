"""Every storm by its name, in the order in which they come."""

from collections.abc import Callable, Mapping
from functools import partial

from e2e.storm.changes import ledger_deleted, lowered, put_back, relabelled, resized, young_ledger_deleted
from e2e.storm.crowds import Gates, Size, crowd, quota_crowd
from e2e.storm.faults import API_SERVER, ETCD_KILLED, ETCD_STOPPED, KILLED, frozen
from e2e.storm.ground import Ground
from e2e.storm.led import leader_killed
from e2e.storm.outcome import Outcome
from e2e.storm.retried import retried
from e2e.storm.several import refused_after_us, two_caps
from e2e.storm.unwatched import watch_cut, watch_silent

_SHORT = 5.0  # seconds of the in-flight bound
_LONG = Size(pods=3000, hard=1500)  # some twenty seconds

STORMS: Mapping[str, Callable[[Ground], Outcome]] = {
    "killed": partial(crowd, size=Size(), gates=Gates(fault=KILLED)),
    "quota": partial(quota_crowd, size=Size()),
    "memory": partial(crowd, size=Size(), gates=Gates(count=1, ledgers="memory")),
    "two-caps": two_caps,
    "refused-after": refused_after_us,
    "api-server": partial(crowd, size=Size(), gates=Gates(fault=API_SERVER)),
    "etcd-stopped": partial(crowd, size=Size(), gates=Gates(fault=ETCD_STOPPED)),
    "etcd-killed": partial(crowd, size=Size(), gates=Gates(fault=ETCD_KILLED)),
    "frozen": partial(crowd, size=_LONG, gates=Gates(bound=_SHORT, fault=frozen(_SHORT + 2))),
    "watch-cut": partial(watch_cut, size=_LONG),
    "watch-silent": watch_silent,
    "leader-killed": partial(leader_killed, size=Size(pods=1200, hard=400, clients=16)),
    "lowered": lowered,
    "put-back": put_back,
    "resized": resized,
    "replica-sets": retried,
    "relabelled": relabelled,
    "ledger-deleted": ledger_deleted,
    "young-ledger-deleted": young_ledger_deleted,
}
