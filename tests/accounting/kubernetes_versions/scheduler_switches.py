"""The cases of the switches of the scheduler and of its messages."""

from typing import Any

from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.accounting.kubernetes_versions.version import KubernetesVersion
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.pod_group_cycle import find_group_problem
from tallygate.accounting.scheduling.scoring import score_allocation
from tallygate.accounting.scheduling.victims import NoCandidate, PreemptionCandidate, select_victims_on_node
from tallygate.admission.job_pod_groups import JobGroupSource, find_group_source
from tallygate.objects.apps import JobScheduling, WorkloadSpec
from tallygate.objects.core import Pod
from tests.accounting.kubernetes_versions.switch_case import switch_case
from tests.accounting.scheduling.clusters import create_cluster, decode_pod, node, pod
from tests.accounting.scheduling.product_scheduler import attempt, create_full_cluster, decide
from tests.accounting.scheduling.storage_objects import Json, csi_claim, pod_with_claims

_NOT_HELPFUL = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
_PLACED = "preemption: found a potential placement for pod on node n0, preempting 1 victims"


def create_running_pod(name: str, **status: Any) -> Json:
    """Return a pod of one cpu on node n0, with its name as label `app`."""
    return pod(name, on="n0", requests={"cpu": "1"}, labels={"app": name}) | {"status": status}


def create_budget(name: str, selector: Json, allowed: int = 0) -> Json:
    """Return a disruption budget of namespace default."""
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed},
    }


def preempt(pods: list[Json], budgets: list[Json], version: KubernetesVersion) -> PreemptionCandidate:
    """Return the preemption for a pod of one cpu on a node of two."""
    new = decode_pod(pod("new", requests={"cpu": "1"}, priority=100))
    result = attempt(new, create_full_cluster([node("n0", cpu="2")], pods, budgets, version))
    assert result.preemption is not None
    assert result.preemption.selected is not None
    return result.preemption.selected


def _list_victims(pods: list[Json], budgets: list[Json], version: KubernetesVersion) -> list[str]:
    return [each.name for each in preempt(pods, budgets, version).victims]


@switch_case(
    Switch.OMITS_CLAIM_NOTE,
    before=f"0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, {_NOT_HELPFUL}",
    after=f"0/1 nodes are available: 1 Insufficient cpu. {_NOT_HELPFUL}",
)
def place_a_pod_that_fits_nowhere(version: KubernetesVersion) -> Any:
    return decide([node("n0", cpu="0")], [], [], pod("new", requests={"cpu": "1"}), version).message


@switch_case(
    Switch.REPORTS_PREEMPTION,
    before="0/1 nodes are available: 1 Insufficient cpu.",
    after=f"0/1 nodes are available: 1 Insufficient cpu. {_PLACED}",
)
def place_a_pod_that_preempts(version: KubernetesVersion) -> Any:
    pods = [create_running_pod("a"), create_running_pod("b")]
    new = pod("new", requests={"cpu": "1"}, priority=100)
    return decide([node("n0", cpu="2")], pods, [], new, version).message


@switch_case(Switch.REQUIRES_INSTALLED_DRIVER, before={"n0"}, after=set())
def place_a_pod_where_its_driver_is_not_installed(version: KubernetesVersion) -> Any:
    driver = {
        "kind": "CSIDriver",
        "metadata": {"name": "csi.io"},
        "spec": {"preventPodSchedulingIfMissing": True},
    }
    return decide([node("n0")], [], [*csi_claim("data", "v"), driver], pod_with_claims("data"), version).nodes


@switch_case(Switch.DROPS_NAMESPACE_SELECTORS, before={"n1"}, after={"n0", "n1"})
def avoid_namespaces_without_a_label(version: KubernetesVersion) -> Any:
    """Return the nodes for a pod that avoids namespaces without a team, where node n0 has a pod of one with a team."""
    selector = {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}
    term = {"labelSelector": {}, "topologyKey": "host", "namespaceSelector": selector}
    anti_affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    old = pod("old", on="n0")
    old["metadata"]["namespace"] = "blue"
    blue = {"kind": "Namespace", "metadata": {"name": "blue", "labels": {"team": "b"}}}
    return set(decide([node("n0"), node("n1")], [old], [blue], pod("new", affinity=anti_affinity), version).nodes)


@switch_case(Switch.COUNTS_ONE_VIOLATED_BUDGET, before=1, after=0)
def preempt_under_two_budgets(version: KubernetesVersion) -> Any:
    """Return how many budgets are violated: in 1.36 the older pod, which violates the first, uses up the second."""
    pods = [
        create_running_pod("old", startTime="2026-01-01T10:00:00Z"),
        create_running_pod("young", startTime="2026-01-01T11:00:00Z"),
    ]
    names = (["old"], ["old", "young"])
    first, second = ({"matchExpressions": [{"key": "app", "operator": "In", "values": each}]} for each in names)
    budgets = [create_budget("first", first), create_budget("second", second, allowed=1)]
    return preempt(pods, budgets, version).violation_count


@switch_case(Switch.FIXES_START_TIMES, before=["first"], after=["second"])
def preempt_pods_that_have_not_started(version: KubernetesVersion) -> Any:
    return _list_victims([create_running_pod("first"), create_running_pod("second")], [], version)


@switch_case(Switch.SUMS_RESIZES, before=[], after=["n0"])
def place_a_pod_beside_a_resize(version: KubernetesVersion) -> Any:
    """Return the node with 3 cpu, on which one container grows from 1 to 2 while another one shrinks from 2 to 1."""
    old = pod("old", on="n0")
    amounts = {"a": ("2", "1"), "b": ("1", "2")}
    old["spec"]["containers"] = [
        {"name": name, "resources": {"requests": {"cpu": wanted}}} for name, (wanted, _) in amounts.items()
    ]
    old["status"] = {
        "containerStatuses": [
            {"name": name, "allocatedResources": {"cpu": actual}, "resources": {"requests": {"cpu": actual}}}
            for name, (_, actual) in amounts.items()
        ]
    }
    return sorted(decide([node("n0", cpu="4")], [old], [], pod("new", requests={"cpu": "1"}), version).nodes)


def _find_group_problem(version: KubernetesVersion) -> str:
    cluster = create_cluster([node("n0")], [])
    cluster.version = version
    cluster.pod_groups.has_gate = cluster.pod_groups.are_known = True
    new = decode_pod(pod("new", schedulingGroup={"podGroupName": "g"}))
    return find_group_problem(IncomingPod.from_pod(new), cluster)


@switch_case(Switch.PLACES_POD_GROUPS, before=False, after=True)
def place_a_pod_group(version: KubernetesVersion) -> Any:
    """Return whether the rules of the version are modelled."""
    return "are not modelled" not in _find_group_problem(version)


@switch_case(Switch.CHANGES_POD_GROUPS, before=True, after=False)
def place_a_pod_group_by_changed_rules(version: KubernetesVersion) -> Any:
    """Return whether the rules of the version are modelled."""
    return "are not modelled" not in _find_group_problem(version)


@switch_case(Switch.GROUPS_OWNED_JOBS, before=JobGroupSource.NONE, after=JobGroupSource.OWNED)
def group_the_pods_of_an_owned_job(version: KubernetesVersion) -> Any:
    spec = WorkloadSpec(template=Pod(), scheduling=JobScheduling())
    return find_group_source(spec, None, is_owned=True).settle(version)


@switch_case(Switch.MATCHES_EMPTY_SPREAD_SELECTORS, before=["n0", "n1"], after=["n1"])
def spread_over_hosts_with_an_empty_selector(version: KubernetesVersion) -> Any:
    """Return the hosts for a pod, one of which has a pod: in 1.37 no pod counts, so that each host would do."""
    spread = [{"maxSkew": 1, "topologyKey": "host", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]
    new = pod("new", labels={"app": "x"})
    new["spec"]["topologySpreadConstraints"] = spread
    return sorted(decide([node("n0"), node("n1")], [pod("old", on="n0")], [], new, version).nodes)


def _preempt_under_a_budget_for_all(version: KubernetesVersion, labels: dict[str, str]) -> list[str]:
    """Return the evicted pod: of a lower priority under a budget for all pods, or of a higher one under none."""
    old = pod("old", on="n0", requests={"cpu": "1"}, labels=labels, priority=1)
    young = pod("young", on="n0", requests={"cpu": "1"}, priority=2)
    young["metadata"]["namespace"] = "other"
    return _list_victims([old, young], [create_budget("all", {})], version)


@switch_case(Switch.MATCHES_EMPTY_BUDGET_SELECTORS, before=["old"], after=["young"])
def preempt_under_a_budget_with_an_empty_selector(version: KubernetesVersion) -> Any:
    return _preempt_under_a_budget_for_all(version, {"app": "old"})


@switch_case(Switch.MATCHES_EMPTY_BUDGET_SELECTORS, before=["old"], after=["young"])
def preempt_under_a_budget_that_covers_a_pod_without_labels(version: KubernetesVersion) -> Any:
    return _preempt_under_a_budget_for_all(version, {})


@switch_case(Switch.ORDERS_EQUAL_VICTIMS, before=["second"], after=["first"])
def preempt_one_of_two_equal_pods(version: KubernetesVersion) -> Any:
    """Return the evicted pod: in 1.37 the first in the scheduler's cache stays, later the one with the lower UID."""
    pods = [create_running_pod(name, startTime="2026-01-01T10:00:00Z") for name in ("first", "second")]
    pods[0]["metadata"]["uid"], pods[1]["metadata"]["uid"] = "b", "a"
    return _list_victims(pods, [], version)


@switch_case(Switch.SCORES_POD_LEVEL, before=["n0", "n1"], after=["n1"])
def score_a_pod_with_requests_at_pod_level(version: KubernetesVersion) -> Any:
    """Return the nodes with the highest score: one has more free memory after the pod."""
    new = pod("new")
    new["spec"]["resources"] = {"requests": {"cpu": "1", "memory": "8Gi"}}
    nodes = [node("n0", cpu="4", memory="9Gi"), node("n1", cpu="4", memory="16Gi")]
    cluster = create_full_cluster(nodes, [], [], version)
    scores = score_allocation(IncomingPod.from_pod(decode_pod(new)), cluster, cluster.nodes.get_indices())
    return [cluster.nodes.get_name(index) for index in range(len(nodes)) if scores[index] == scores.max()]


@switch_case(Switch.REPORTS_NO_VICTIMS, before=True, after=False)
def preempt_where_no_victim_is_needed(version: KubernetesVersion) -> Any:
    """Return whether a node on which the pod fits without a victim is an error of the scheduler."""
    cluster = create_full_cluster([node("n0", cpu="2")], [create_running_pod("old")], [], version)
    new = IncomingPod.from_pod(decode_pod(pod("new", requests={"cpu": "1"}, priority=100)))
    found = select_victims_on_node(new, cluster, 0)
    assert isinstance(found, NoCandidate)
    assert found.reasons[0].startswith("expected at least one" if found.is_error else "No preemption victims found")
    return found.is_error
