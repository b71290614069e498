"""Cases of kinds of other projects: served and not registered, not read, or not visible."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tallygate.admission.workload_resources import WorkloadResource
from tallygate.cli.doctor.facts import ServedKind, UnreadKind, WorkloadFacts
from tallygate.policy.known_kinds import KNOWN_KINDS
from tallygate.policy.workload_kinds import WorkloadKind
from tests.admission.case import parse_policies
from tests.cli.doctor.fact_changes import UNAVAILABLE, UNKNOWN, WARN, Cases
from tests.cli.doctor.healthy_gate import Object, create_registration

JOB_SETS = WorkloadResource("jobset.x-k8s.io", "v1alpha2", "jobsets", is_namespaced=True)
OLD_WORKLOADS, NEW_WORKLOADS = (
    WorkloadResource("kueue.x-k8s.io", version, "workloads", is_namespaced=True) for version in ("v1beta1", "v1beta2")
)
PROMETHEUS = UnreadKind("monitoring.coreos.com", "Prometheus", "spec")


GANGS = parse_policies(Path("policies/examples/gang-jobs.yaml").read_text(encoding="utf-8"))
GANG_JOBS = WorkloadResource("batch.example.com", "v1", "gangjobs", is_namespaced=True)
UNREAD_GANG_JOBS = UnreadKind("batch.example.com", "GangJob", "spec.leader.template.spec")


def serve(*resources: WorkloadResource, kinds: Sequence[WorkloadKind] = (), **facts: Any) -> dict[str, Any]:
    """Return the facts of a cluster that serves these resources of the known kinds and of further kinds."""
    served = []
    for kind in (*KNOWN_KINDS, *kinds):
        versions = {each.version: each.is_namespaced for each in resources if each.plural == kind.resource}
        if versions and kind.group in {each.group for each in resources}:
            served.append(ServedKind(kind, versions))
    return {"workloads": WorkloadFacts((*KNOWN_KINDS, *kinds), tuple(served), **facts)}


def serve_gangs(*resources: WorkloadResource) -> dict[str, Any]:
    """Return the facts of a cluster that serves these resources, for policies that define `GangJob`."""
    return serve(*resources, kinds=GANGS.workload_kinds) | {"policies": GANGS}


def change_conditions(mutating: Object, validating: Object) -> None:
    """Let a condition pass everything."""
    for each in (mutating, validating):
        each["webhooks"][-1]["matchConditions"] = [{"name": "mine", "expression": "false"}]


CASES: Cases = {
    "a known kind is served and not registered": (serve(JOB_SETS), {"workload-kinds": WARN}),
    "one of two kinds is not registered": (
        serve(JOB_SETS, NEW_WORKLOADS) | create_registration(resources=[JOB_SETS]),
        {"workload-kinds": WARN},
    ),
    "a known kind is served in a version that is not read": (
        serve(JOB_SETS._replace(version="v1alpha1")),
        {"workload-kinds": WARN},
    ),
    "the condition of the registered kinds is not ours": (
        serve(JOB_SETS) | create_registration(change_conditions, resources=[JOB_SETS]),
        {"conditions": WARN},
    ),
    "a kind that policies define is served and not registered": (
        serve_gangs(JOB_SETS, GANG_JOBS) | create_registration(resources=[JOB_SETS]),
        {"workload-kinds": WARN},
    ),
    "the condition beside a registered kind of the policies is not ours": (
        serve_gangs(GANG_JOBS) | create_registration(change_conditions, resources=[GANG_JOBS]),
        {"conditions": WARN},
    ),
    "the policies are unknown": ({"policies": UNAVAILABLE}, {"workload-kinds": UNKNOWN}),
    "what is served cannot be read": ({"workloads": WorkloadFacts(served=UNAVAILABLE)}, {"workload-kinds": UNKNOWN}),
    "the definitions cannot be listed": ({"workloads": WorkloadFacts(unread=UNAVAILABLE)}, {"workload-kinds": UNKNOWN}),
}

VALID: list[dict[str, Any]] = [
    serve(JOB_SETS) | create_registration(resources=[JOB_SETS]),
    serve(OLD_WORKLOADS, NEW_WORKLOADS) | create_registration(resources=[OLD_WORKLOADS]),
    create_registration(resources=[JOB_SETS]),
    serve_gangs(GANG_JOBS) | create_registration(resources=[GANG_JOBS]),
    serve(unread=(PROMETHEUS,)),
]
