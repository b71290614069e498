"""Cases of kinds of other projects: served and not registered, not read, or not visible."""

from typing import Any

from tallygate.webhook.admission.workload_resources import WorkloadResource
from tallygate.webhook.cli.doctor.facts import ServedKind, UnreadKind, WorkloadFacts
from tallygate.webhook.policy.known_kinds import KNOWN_KINDS
from tests.cli.doctor.fact_changes import UNAVAILABLE, UNKNOWN, WARN, Cases
from tests.cli.doctor.healthy_gate import Object, create_registration

JOB_SETS = WorkloadResource("jobset.x-k8s.io", "v1alpha2", "jobsets", is_namespaced=True)
OLD_WORKLOADS, NEW_WORKLOADS = (
    WorkloadResource("kueue.x-k8s.io", version, "workloads", is_namespaced=True) for version in ("v1beta1", "v1beta2")
)
PROMETHEUS = UnreadKind("monitoring.coreos.com", "Prometheus", "spec")


def serve(*resources: WorkloadResource, **facts: Any) -> dict[str, Any]:
    """Return the facts of a cluster that serves these resources of known kinds."""
    served = []
    for kind in KNOWN_KINDS:
        versions = {each.version: each.is_namespaced for each in resources if each.plural == kind.resource}
        if versions and kind.group in {each.group for each in resources}:
            served.append(ServedKind(kind, versions))
    return {"workloads": WorkloadFacts(served=tuple(served), **facts)}


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
    "what is served cannot be read": ({"workloads": WorkloadFacts(served=UNAVAILABLE)}, {"workload-kinds": UNKNOWN}),
    "the definitions cannot be listed": ({"workloads": WorkloadFacts(unread=UNAVAILABLE)}, {"workload-kinds": UNKNOWN}),
}

VALID: list[dict[str, Any]] = [
    serve(JOB_SETS) | create_registration(resources=[JOB_SETS]),
    serve(OLD_WORKLOADS, NEW_WORKLOADS) | create_registration(resources=[OLD_WORKLOADS]),
    create_registration(resources=[JOB_SETS]),
    serve(unread=(PROMETHEUS,)),
]
