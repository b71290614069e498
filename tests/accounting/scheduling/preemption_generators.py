"""Random full clusters in which an incoming pod may preempt others, as stored JSON objects."""

from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]

NODES = ("n0", "n1", "n2")
_PRIORITIES = (0, 0, 10, 100, 1000)
_apps = st.sampled_from(["a", "b", "c"])
_amounts = st.sampled_from(["1", "1", "2", "3"])
_starts = st.sampled_from(["", "", "2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z", "2026-01-02T10:00:00Z"])
_preempted = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
_named = st.lists(st.sampled_from(NODES), min_size=1, max_size=3, unique=True)


@st.composite
def nodes(draw: st.DrawFn) -> list[Json]:
    """Draw up to three nodes, some in zones, some small."""
    drawn: list[Json] = []
    for name in draw(_named):
        allocatable = {"pods": draw(st.sampled_from(["3", "5", "110"])), "cpu": draw(st.sampled_from(["2", "3", "5"]))}
        labels = {"host": name} | draw(st.sampled_from([{}, {"zone": "a"}, {"zone": "b"}]))
        drawn.append({"metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}})
    return drawn


@st.composite
def existing_pods(draw: st.DrawFn) -> list[Json]:
    """Draw pods on nodes, some of them terminating, and pods with a nominated node."""
    return [draw(_existing_pod(f"p{number}")) for number in range(draw(st.integers(4, 10)))]


@st.composite
def incoming_pods(draw: st.DrawFn) -> Json:
    """Draw a pod that may preempt others, and may have a nominated node already."""
    pod = draw(_pods("new", st.sampled_from([10, 100, 100, 1000])))
    if draw(st.integers(0, 3)) == 0:
        pod["status"] = {"nominatedNodeName": draw(st.sampled_from([*NODES, "missing"]))}
    if draw(st.integers(0, 9)) == 0:
        pod["spec"]["preemptionPolicy"] = "Never"
    if draw(st.integers(0, 5)) == 0:
        pod["spec"]["affinity"] = (pod["spec"].get("affinity") or {}) | {"nodeAffinity": draw(_node_affinities)}
    return pod


@st.composite
def budgets(draw: st.DrawFn) -> list[Json]:
    """Draw disruption budgets with the status that their controller writes."""
    return [draw(_budgets(f"b{number}")) for number in range(draw(st.integers(0, 2)))]


_fields = st.builds(
    lambda names: {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]},
    st.lists(st.sampled_from(NODES), min_size=1, max_size=2),
)
_node_affinities = st.builds(
    lambda terms: {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}},
    st.lists(_fields, min_size=1, max_size=2),
)
_terms = st.builds(
    lambda app, key: {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key},
    _apps,
    st.sampled_from(["host", "zone"]),
)
_required = st.builds(lambda term: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}, _terms)
_affinities = st.one_of(
    st.none(),
    st.none(),
    st.none(),
    st.builds(lambda required: {"podAntiAffinity": required}, _required),
    st.builds(lambda required: {"podAffinity": required}, _required),
)


@st.composite
def _pods(draw: st.DrawFn, name: str, priorities: st.SearchStrategy[int]) -> Json:
    ports = draw(st.sampled_from([[], [], [], [{"containerPort": 80, "hostPort": 80}]]))
    container = {"name": "c", "resources": {"requests": {"cpu": draw(_amounts)}}, "ports": ports}
    namespace = draw(st.sampled_from(["default", "default", "other"]))
    affinity = draw(_affinities)
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": name, "labels": {"app": draw(_apps)}},
        "spec": {
            "priority": draw(priorities),
            "containers": [container],
            **({} if affinity is None else {"affinity": affinity}),
        },
    }


@st.composite
def _existing_pod(draw: st.DrawFn, name: str) -> Json:
    pod, on = draw(_pods(name, st.sampled_from(_PRIORITIES))), draw(st.sampled_from(NODES))
    status: Json = {"phase": "Running"}
    if draw(st.integers(0, 5)) == 0:
        status["nominatedNodeName"] = on
    else:
        pod["spec"]["nodeName"] = on
        started = draw(_starts)
        status |= {"startTime": started} if started else {}
    if draw(st.integers(0, 4)) == 0:
        pod["metadata"]["deletionTimestamp"] = "2026-01-03T10:00:00Z"
        status["conditions"] = draw(st.sampled_from([[], [_preempted], [_preempted | {"status": "False"}]]))
    return pod | {"status": status}


@st.composite
def _budgets(draw: st.DrawFn, name: str) -> Json:
    selector = draw(st.sampled_from([{}, None, *[{"matchLabels": {"app": app}} for app in "aabbc"]]))
    disrupted = draw(st.sampled_from([{}, {}, {"p1": "2026-01-03T10:00:00Z"}]))
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": draw(st.sampled_from(["default", "other"]))},
        "spec": {} if selector is None else {"selector": selector},
        "status": {"disruptionsAllowed": draw(st.sampled_from([0, 0, 1])), "disruptedPods": disrupted},
    }
