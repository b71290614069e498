"""Drawn caps, namespaces and pods: no quota denies what its cap allows.

Three statements together: a quota counts each pod at most as the cap does, demands nothing more of it, and its limit is
at least the highest that the gate may allow. The last test compares whole sequences with the gate.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tallygate.accounting.charge import compute_hard_limits
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.resource_quota import compute_quota_charge, is_in_scope, list_missing_amounts
from tallygate.admission.cap_index import ActiveCap, CapIndex
from tallygate.backstop.compiled_objects import CompiledObject
from tallygate.backstop.resource_quotas import ObservedCluster, create_resource_quotas
from tallygate.objects.core import Pod, PodSpec, ResourceQuotaSpec
from tallygate.policy.model import PolicySet
from tests.accounting.test_quantity_properties import parse_fraction
from tests.admission.case import parse_policies
from tests.effort import examples
from tests.gate.gate_fixture import GateFixture

GPU, MIG, MEMORY = "nvidia.com/gpu", "nvidia.com/mig", "nvidia.com/gpumem"
NOW = datetime(2026, 12, 1, tzinfo=UTC)
NAMESPACES: Mapping[str, Mapping[str, str]] = {
    "team-a": {"team": "vision"},
    "team-b": {"team": "speech", "tier": "gold"},
    "other": {},
    "kube-system": {},
}
Json = dict[str, Any]
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def _draw_some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries({}, optional=fields)


_LIMITS = _draw_some(
    **{
        GPU: st.integers(0, 9),
        MIG: st.integers(0, 9),
        "pods": st.integers(0, 6),
        "units": st.integers(0, 40),
        "cpu": st.sampled_from([2, "2500m"]),
        "limits.cpu": st.sampled_from([1, "2500m", "1.0005"]),
        "limits.memory": st.sampled_from(["2Gi", "3.5Gi"]),
        "limits.ephemeral-storage": st.sampled_from(["2Gi"]),
        "ephemeral-storage": st.sampled_from(["2Gi"]),
        "hugepages-2Mi": st.sampled_from(["8Mi"]),
    }
).filter(bool)


def _keep_names(cap: Json, amounts: Json) -> Json:
    """Return the amounts of names that a cap limits; overrides give no limit of a name of its own."""
    return {name: amount for name, amount in amounts.items() if name in cap["hard"] and name != "units"}


def _complete_cap(cap: Json) -> Json:
    """Return a cap whose parts concern names that it limits."""
    share = cap.pop("share")
    if "units" in cap["hard"]:
        cap["counts"] = {"units": {"weights": {GPU: 4, MIG: 3}}}
    if amounts := _keep_names(cap, cap.pop("surged", {})):
        cap["surge"] = {"amounts": amounts, "for": "15m"}
    most = _keep_names(cap, cap.pop("most", {}))
    if most and not share:
        cap["overrideAnnotation"] = {"setBy": {"groups": ["x"]}, "most": most}
    selects = {"shared": {}, "groupBy": {"groups": ["vision"]}}.get(next(iter(share), ""), {"namespaces": ["team-a"]})
    overrides = [
        {"hard": hard, **({"until": (NOW + timedelta(days=days)).isoformat()} if days else {}), **selects}
        for days, amounts in cap.pop("raises", [])
        if (hard := _keep_names(cap, amounts))
    ]
    return {**cap, **share, **({"overrides": overrides} if overrides else {})}


_CAPS = st.fixed_dictionaries(
    {
        "namespaces": st.sampled_from(
            [{}, {"include": ["team-*"]}, {"include": ["team-a"]}, {"selector": {"matchLabels": {"tier": "gold"}}}]
        ),
        "hard": _LIMITS,
        "share": st.sampled_from([{}, {}, {"shared": True}, {"groupBy": {"label": "team"}}]),
    },
    optional={
        "surged": _LIMITS,
        "most": _LIMITS,
        "raises": st.lists(st.tuples(st.integers(-1, 3), _LIMITS), max_size=3),
        "pods": st.sampled_from(
            [
                {"priorityClasses": ["high"]},
                {"objectSelector": {"matchLabels": {"a": "b"}}},
                {"nodeSelector": {"a": "b"}},
            ]
        ),
        "exceed": st.just({"users": ["jane"]}),
        "admit": st.just("whole"),
        "soft": st.just({"nvidia.com/other": 1}),
    },
).map(_complete_cap)


def _write_policies(caps: list[Json]) -> str:
    return "\n---\n".join(
        json.dumps(
            {
                "apiVersion": "tallygate.dev/v1alpha1",
                "kind": "NamespaceCap",
                "metadata": {"name": f"cap-{number}"},
                "spec": cap,
            }
        )
        for number, cap in enumerate(caps)
    )


_TEXTS = st.lists(_CAPS, min_size=1, max_size=3).map(_write_policies)
_AMOUNTS = _draw_some(
    **{
        GPU: st.sampled_from(["0", "1", "2", "1k"]),
        MIG: st.sampled_from(["1", "3"]),
        "cpu": st.sampled_from(["0", "250m", "0.0005", "1"]),
        "memory": st.sampled_from(["1Gi", "1500M", "0"]),
        "ephemeral-storage": st.sampled_from(["1Gi"]),
        "hugepages-2Mi": st.sampled_from(["4Mi"]),
    }
)
_RESOURCES: st.SearchStrategy[Json] = st.builds(
    lambda amounts, limits: {"requests": {**amounts, **limits}, "limits": limits},
    _draw_some(cpu=st.just("100m"), memory=st.just("1Mi")),
    _AMOUNTS,
) | st.just({})


def _create_pod(
    containers: list[Json], init: list[tuple[Json, bool]], actual: list[Json], fields: Json, status: Json
) -> Json:
    written = [{"name": f"c{number}", "resources": resources} for number, resources in enumerate(containers)]
    steps = [
        {"name": f"i{number}", "resources": resources, **({"restartPolicy": "Always"} if is_sidecar else {})}
        for number, (resources, is_sidecar) in enumerate(init)
    ]
    statuses = [{"name": f"c{number}", "resources": resources} for number, resources in enumerate(actual)]
    return {
        "metadata": {"name": "p", "uid": "u", "labels": {"a": "b"}},
        "spec": {"containers": written, "initContainers": steps, **fields},
        "status": {**status, "containerStatuses": statuses},
    }


_POD_FIELDS = _draw_some(
    priorityClassName=st.sampled_from(["high", "low"]),
    overhead=st.sampled_from([{"cpu": "100m"}, {GPU: "1"}]),
    resources=st.sampled_from(
        [{"requests": {"cpu": "2"}}, {"requests": {"memory": "2Gi"}, "limits": {"memory": "2Gi"}}, {}]
    ),
)
_STATUSES = _draw_some(
    phase=st.sampled_from(["Running", "Succeeded"]),
    conditions=st.just([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]),
)
_INIT = st.lists(st.tuples(_RESOURCES, st.booleans()), max_size=2)
_NEW_PODS = st.builds(
    _create_pod,
    st.lists(_RESOURCES, min_size=1, max_size=2),
    _INIT,
    st.just([]),
    _POD_FIELDS,
    st.just({}),
)
_PODS = st.builds(
    _create_pod,
    st.lists(_RESOURCES, min_size=1, max_size=2),
    _INIT,
    st.lists(_RESOURCES, max_size=2),
    _POD_FIELDS,
    _STATUSES,
)


def _decode_pod(pod: Json) -> Pod:
    return msgspec.json.decode(json.dumps(pod), type=Pod)


def _decode_spec(quota: CompiledObject) -> ResourceQuotaSpec:
    return msgspec.json.decode(json.dumps(quota["spec"]), type=ResourceQuotaSpec)


def _compile(policies: PolicySet, resources_by_class: Mapping[str, str] | None = None) -> list[CompiledObject]:
    cluster = ObservedCluster(NAMESPACES, resources_by_class or {}, ("kube-system",))
    return create_resource_quotas(policies, cluster, NOW)[0]


def _find_cap(policies: PolicySet, quota: CompiledObject, now: datetime = NOW) -> ActiveCap:
    namespace, name = quota["metadata"]["namespace"], quota["metadata"]["labels"]["tallygate.dev/policy"]
    matching = CapIndex(policies, now).find_matching(namespace, NAMESPACES[namespace]).caps
    (cap,) = (cap for cap in matching if cap.definition.name == name)
    return cap


def _list_names(cap: ActiveCap, key: str) -> Iterator[tuple[str, int]]:
    """Yield the counted names of a cap that a key of its quota stands for, each with the weight."""
    resource = key.removeprefix("requests.")
    if resource in cap.hard:
        yield resource, 1
    weights = cap.definition.counts["units"].weights if "units" in cap.hard else {}
    if resource in weights:
        yield "units", weights[resource]


def _charge_in_scope(quota: ResourceQuotaSpec, pod: Pod) -> Mapping[str, Quantity]:
    if not is_in_scope(quota, pod.spec or PodSpec(), is_across=None):
        return {}
    charge = compute_quota_charge(pod, None)
    return {key: charge[key] for key in quota.hard or {} if key in charge}


def _to_units(key: str, quantity: Quantity) -> Fraction:
    """Return a quantity in the unit of amounts."""
    return parse_fraction(quantity.canonical) * (1000 if key.endswith("cpu") else 1)


@settings(max_examples=examples(150))
@given(_TEXTS)
def test_names_are_valid_and_unique_and_no_excluded_namespace_has_a_quota(text: str) -> None:
    metadata = [quota["metadata"] for quota in _compile(parse_policies(text))]
    places = Counter((meta["namespace"], meta["name"]) for meta in metadata)
    assert all(count == 1 for count in places.values())
    assert all(len(name) <= 253 and _NAME.fullmatch(name) for _, name in places)
    assert all(_LABEL.fullmatch(label) for meta in metadata for label in meta["labels"].values())
    assert "kube-system" not in {namespace for namespace, _ in places}


@settings(max_examples=examples(150))
@given(_TEXTS)
def test_each_limit_of_a_cap_is_in_every_quota_of_it_or_in_a_gap(text: str) -> None:
    policies = parse_policies(text)
    quotas, gaps = create_resource_quotas(policies, ObservedCluster(NAMESPACES, {}, ()), NOW)
    missing = {(gap.policy, gap.subject) for gap in gaps if not gap.is_looser}
    for cap in policies.caps:
        keys = {
            frozenset(name for key in quota["spec"]["hard"] for name, _ in _list_names(_find_cap(policies, quota), key))
            for quota in quotas
            if quota["metadata"]["labels"]["tallygate.dev/policy"] == cap.name
        }
        for name in cap.hard:
            is_missing = (f"cap {cap.name}", f"hard.{name}") in missing
            assert all((name in counted) is not is_missing for counted in keys)
            assert (
                keys
                or is_missing
                or not any(CapIndex(policies, NOW).find_matching(*one).caps for one in NAMESPACES.items())
            )


@settings(max_examples=examples(300))
@given(_TEXTS, _PODS)
def test_a_quota_counts_each_pod_at_most_as_its_cap_and_demands_no_more(text: str, written: Json) -> None:
    policies, pod = parse_policies(text), _decode_pod(written)
    for quota in _compile(policies):
        spec, cap = _decode_spec(quota), _find_cap(policies, quota)
        charge = cap.compute_charge(pod)
        for key, quantity in _charge_in_scope(spec, pod).items():
            for name, weight in _list_names(cap, key):
                assert _to_units(key, quantity) * weight <= charge.amounts.get(name, 0)
        if is_in_scope(spec, pod.spec or PodSpec(), is_across=None) and not (pod.status and pod.status.phase):
            for key in spec.hard or {}:
                assert {*list_missing_amounts(key, pod.spec or PodSpec())} <= {*charge.unlimited.get(key, ())}


@settings(max_examples=examples(150))
@given(_TEXTS, st.integers(0, 4))
def test_the_limit_of_a_quota_is_at_least_the_highest_of_the_cap(text: str, days: int) -> None:
    policies = parse_policies(text)
    for quota in _compile(policies):
        cap = _find_cap(policies, quota, NOW + timedelta(days=days))
        annotation = cap.definition.annotation
        most = compute_hard_limits(annotation.most) if annotation else {}
        for key, limit in quota["spec"]["hard"].items():
            bounds = [
                (max(cap.hard[name], most.get(name, 0)) + cap.surge.get(name, 0)) // weight
                for name, weight in _list_names(cap, key)
            ]
            assert _to_units(key, Quantity.parse(limit)) >= min(bounds)


@settings(max_examples=examples(120))
@given(_TEXTS, st.lists(st.tuples(st.sampled_from(["team-a", "team-b", "other"]), _NEW_PODS), min_size=1, max_size=12))
def test_no_quota_denies_what_the_gate_admits(text: str, pods: list[tuple[str, Json]]) -> None:
    """Let ResourceQuota decide on each pod by those that the gate admitted before."""
    gate = GateFixture(text, labels=NAMESPACES)
    gate.utc = NOW
    quotas = _compile(gate.policies)
    used: dict[tuple[str, str, str], Fraction] = {}
    for number, (namespace, written) in enumerate(pods):
        pod = {**written, "metadata": {**written["metadata"], "name": f"p{number}", "uid": f"u{number}"}}
        if gate.admit(pod, namespace=namespace).record.verdict != "allow":
            continue
        decoded = _decode_pod(pod)
        for quota in quotas:
            if quota["metadata"]["namespace"] != namespace:
                continue
            spec = _decode_spec(quota)
            for key, quantity in _charge_in_scope(spec, decoded).items():
                place = (namespace, quota["metadata"]["name"], key)
                amount = _to_units(key, quantity)
                used[place] = used.get(place, Fraction(0)) + amount
                limit = Quantity.parse(quota["spec"]["hard"][key])
                assert amount == 0 or used[place] <= _to_units(key, limit)
