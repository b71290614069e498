"""The stress tests by name, in their order."""

from collections.abc import Callable, Mapping
from functools import partial

from e2e.stress.changes import delete_ledger, delete_young_ledger, lower_cap, put_cap_back, relabel_pods, resize_pods
from e2e.stress.claim_storms import overload_with_claims, reallocate_claims, replace_claims, retry_templates
from e2e.stress.environment import StressEnvironment
from e2e.stress.faults import API_SERVER, ETCD_KILLED, ETCD_STOPPED, KILLED, freeze
from e2e.stress.gang_jobs import admit_gangs, admit_job_sets
from e2e.stress.leader_failure import kill_leader
from e2e.stress.moving_groups import move_namespaces
from e2e.stress.outcome import Outcome
from e2e.stress.overload import Gates, Size, overload_cap, overload_quota
from e2e.stress.percent_storm import storm_nodes
from e2e.stress.retries import retry_replica_sets
from e2e.stress.rollouts import roll_full_cap
from e2e.stress.scheduler_claims import play_scheduler
from e2e.stress.several_caps import fill_two_caps, reject_after_gate
from e2e.stress.switched_caps import switch_caps
from e2e.stress.watch_faults import cut_watches, silence_watches

_SHORT = 5.0  # seconds of the in-flight bound
_LONG = Size(pods=3000, hard=1500)  # some twenty seconds

STRESS_RUNS: Mapping[str, Callable[[StressEnvironment], Outcome]] = {
    "killed": partial(overload_cap, size=Size(), gates=Gates(fault=KILLED)),
    "quota": partial(overload_quota, size=Size()),
    "memory": partial(overload_cap, size=Size(), gates=Gates(count=1, ledgers="memory")),
    "two-caps": fill_two_caps,
    "groups-moved": move_namespaces,
    "gangs": admit_gangs,
    "rollouts": roll_full_cap,
    "refused-after": reject_after_gate,
    "api-server": partial(overload_cap, size=Size(), gates=Gates(fault=API_SERVER)),
    "etcd-stopped": partial(overload_cap, size=Size(), gates=Gates(fault=ETCD_STOPPED)),
    "etcd-killed": partial(overload_cap, size=Size(), gates=Gates(fault=ETCD_KILLED)),
    "frozen": partial(overload_cap, size=_LONG, gates=Gates(bound=_SHORT, fault=freeze(_SHORT + 2))),
    "watch-cut": partial(cut_watches, size=_LONG),
    "watch-silent": silence_watches,
    "leader-killed": partial(kill_leader, size=Size(pods=1200, hard=400, clients=16)),
    "lowered": lower_cap,
    "put-back": put_cap_back,
    "resized": resize_pods,
    "replica-sets": retry_replica_sets,
    "relabelled": relabel_pods,
    "ledger-deleted": delete_ledger,
    "young-ledger-deleted": delete_young_ledger,
    "claims": partial(overload_with_claims, size=Size(), gates=Gates(fault=KILLED)),
    "claims-replaced": partial(replace_claims, size=Size(pods=3000, hard=200)),
    "claim-templates": retry_templates,
    "scheduler-claims": partial(play_scheduler, size=Size(pods=320, hard=40, clients=16)),
    "claims-reallocated": partial(reallocate_claims, size=Size(pods=3000, hard=100)),
    "gang-sets": admit_job_sets,
    "switched": switch_caps,
    "nodes": storm_nodes,
}
