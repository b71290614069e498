"""Random clusters and pods with inter-pod affinity and topology spread constraints, as stored JSON objects."""

from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]

NAMESPACES = ("red", "blue", "grey")
NODES = ("n0", "n1", "n2", "n3", "n4")
_KEYS = ("zone", "zone", "rack", "host")  # a repeated value is drawn more often, here and below

_values = st.sampled_from(["a", "a", "a", "b", ""])
_labels = st.one_of(
    st.builds(lambda app, rev: {"app": app, "rev": rev}, _values, _values),
    st.builds(lambda app: {"app": app}, _values),
    st.dictionaries(st.sampled_from(["app", "rev"]), _values, max_size=2),
)
_expressions = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        st.sampled_from(["app", "rev", "team"]),
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=1, max_size=2),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator},
        st.sampled_from(["app", "rev", "team"]),
        st.sampled_from(["Exists", "DoesNotExist"]),
    ),
)
_selectors = st.one_of(
    st.builds(lambda: {"matchLabels": {"app": "a"}}),
    st.builds(lambda: {"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
    st.none(),
    st.builds(dict),  # a new dictionary each time, since label keys are merged into it
    st.fixed_dictionaries(
        {}, optional={"matchLabels": _labels, "matchExpressions": st.lists(_expressions, min_size=1, max_size=2)}
    ),
)
_label_keys = st.lists(st.sampled_from(["rev", "none"]), min_size=1, max_size=2, unique=True)


def _create_fields(**fields: Any) -> st.SearchStrategy[Json]:
    """Return a strategy of dictionaries without the fields that are drawn as None."""
    return st.fixed_dictionaries(fields).map(lambda drawn: {key: val for key, val in drawn.items() if val is not None})


def _maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), strategy)


terms = _create_fields(
    topologyKey=st.sampled_from(_KEYS),
    labelSelector=_selectors,
    namespaces=_maybe(st.lists(st.sampled_from(NAMESPACES), max_size=2)),
    namespaceSelector=_selectors,
    matchLabelKeys=_maybe(_label_keys),
    mismatchLabelKeys=_maybe(_label_keys),
)

constraints = _create_fields(
    topologyKey=st.sampled_from(_KEYS),
    labelSelector=_selectors,
    maxSkew=st.sampled_from([1, 1, 2, 3]),
    whenUnsatisfiable=st.sampled_from(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
    minDomains=_maybe(st.integers(1, 4)),
    nodeAffinityPolicy=_maybe(st.sampled_from(["Honor", "Ignore"])),
    nodeTaintsPolicy=_maybe(st.sampled_from(["Honor", "Ignore"])),
    matchLabelKeys=_maybe(_label_keys),
)

_required = st.lists(terms, max_size=2).map(lambda listed: {"requiredDuringSchedulingIgnoredDuringExecution": listed})
_affinity = st.one_of(
    st.just({}), st.fixed_dictionaries({}, optional={"podAffinity": _required, "podAntiAffinity": _required})
)
_namespaces_and_labels = st.tuples(st.sampled_from(("red", "red", "red", *NAMESPACES)), _labels)


@st.composite
def nodes(draw: st.DrawFn) -> list[Json]:
    """Draw up to five nodes; some lack a label, some have a taint."""
    drawn: list[Json] = []
    for name in draw(st.lists(st.sampled_from(NODES), min_size=1, unique=True)):
        values = {"zone": ["a", "b", ""], "rack": ["1", "2"], "host": [name], "pool": ["x", "y"]}
        labels = {key: draw(st.sampled_from(listed)) for key, listed in values.items()}
        for key in draw(st.lists(st.sampled_from(sorted(labels)), max_size=1)):
            del labels[key]
        effects = draw(st.lists(st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]), max_size=1))
        taints = [{"key": draw(st.sampled_from(["spot", "gpu"])), "effect": effect} for effect in effects]
        status = {"allocatable": {"pods": "110"}}
        drawn.append({"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}, "status": status})
    return drawn


def pods_on_nodes(on: st.SearchStrategy[str], **more: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """Return a strategy of pods that are bound to nodes; the node may not exist."""
    deleted = st.sampled_from([{}, {}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}])
    return st.builds(_create_bound_pod, _namespaces_and_labels, on, _affinity, deleted, **more)


def incoming_pods() -> st.SearchStrategy[Json]:
    """Return a strategy of pods that are to be scheduled, stored already or not."""
    spec = st.fixed_dictionaries(
        {
            "affinity": _affinity,
            "topologySpreadConstraints": st.lists(constraints, min_size=1, max_size=3),
            "nodeSelector": st.sampled_from([{}, {}, {"pool": "x"}]),
            "tolerations": st.sampled_from([[], [{"operator": "Exists"}], [{"key": "spot", "operator": "Exists"}]]),
        }
    )
    return st.builds(_create_incoming_pod, _namespaces_and_labels, st.sampled_from([{}, {"uid": "new"}]), spec)


namespaces = st.dictionaries(
    st.sampled_from(NAMESPACES), st.dictionaries(st.just("team"), st.sampled_from(["a", "b"]), max_size=1)
)


def namespace_objects(labels: dict[str, dict[str, str]]) -> list[Json]:
    """Return namespaces with these labels, as the API server stores them."""
    return [{"kind": "Namespace", "metadata": {"name": name, "labels": each}} for name, each in labels.items()]


def _create_bound_pod(identity: tuple[str, Json], node: str, affinity: Json, deleted: Json, uid: str = "u") -> Json:
    namespace, labels = identity
    return {
        "metadata": {"name": uid, "uid": uid, "namespace": namespace, "labels": labels} | deleted,
        "spec": {"nodeName": node, "affinity": affinity, "containers": []},
        "status": {"phase": "Running"},
    }


def _create_incoming_pod(identity: tuple[str, Json], metadata: Json, spec: Json) -> Json:
    namespace, labels = identity
    return {
        "metadata": {"name": "new", "namespace": namespace, "labels": labels} | metadata,
        "spec": spec | {"containers": []},
    }
