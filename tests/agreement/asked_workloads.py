"""Drawn objects of the known kinds of other projects, with pods in each of their forms."""

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from tallygate.policy.known_kinds import KNOWN_KINDS
from tallygate.policy.workload_kinds import PathStep, PodForm, PodSetDefinition, Wildcard, WorkloadKind
from tests.agreement.asked import AMOUNTS, ANNOTATIONS, POD_SPECS, POLICIES, name_policies
from tests.agreement.drawn import GPU, LICENCE, Object

_RESOURCES = st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS})
_TEMPLATES = st.builds(
    lambda annotations, spec: {"metadata": {"labels": {"app": "x"}, "annotations": annotations}, "spec": spec},
    ANNOTATIONS,
    POD_SPECS,
)
_TASKS = st.builds(
    lambda field, resources, sidecar: {
        "steps": [{"name": "a", "image": "a/b:1", field: resources}],
        "sidecars": [{"name": "b", field: sidecar}],
    },
    st.sampled_from(["resources", "computeResources"]),
    _RESOURCES,
    _RESOURCES,
)
_PATCHES = st.sampled_from(["cpu", GPU, GPU.replace("/", "\\u002f")]).map(
    lambda name: f'{{"containers": [{{"name": "main", "resources": {{"limits": {{"{name}": 1}}}}}}]}}'
)
_OBJECTS = st.builds(
    lambda kind, template: {
        "apiVersion": "v1" if kind == "Pod" else "batch/v1",
        "kind": kind,
        "metadata": {"name": "x", **template["metadata"]},
        "spec": template["spec"] if kind == "Pod" else {"template": template},
    },
    st.sampled_from(["Pod", "Job"]),
    _TEMPLATES,
)


def _draw_content(form: PodForm) -> st.SearchStrategy[Any]:
    """Return a strategy for pods in a form."""
    match form:
        case PodForm.SPEC:
            return POD_SPECS
        case PodForm.RESOURCES:
            return _RESOURCES
        case PodForm.WORKFLOW:
            container = {"container": st.builds(lambda found: {"image": "a", "resources": found}, _RESOURCES)}
            return st.fixed_dictionaries({"name": st.just("x"), **container}, optional={"podSpecPatch": _PATCHES})
        case PodForm.COMPONENT:
            model = st.builds(lambda found: {"modelFormat": {"name": "x"}, "resources": found}, _RESOURCES)
            return st.one_of(POD_SPECS, st.fixed_dictionaries({"model": model}))
        case PodForm.SPARK_POD:
            gpu = st.fixed_dictionaries({"name": st.sampled_from([GPU, "cpu"]), "quantity": st.integers(0, 2)})
            return st.fixed_dictionaries({}, optional={"template": _TEMPLATES, "gpu": gpu})
        case PodForm.NIM_SERVICE:
            claims = st.sampled_from([[{"resourceClaimName": "stored-0"}], [{"resourceClaimTemplateName": "two-gpus"}]])
            return st.fixed_dictionaries(
                {}, optional={"resources": _RESOURCES, "draResources": claims, "annotations": ANNOTATIONS}
            )
        case PodForm.TASK:
            return _TASKS
        case PodForm.TASK_RUN:
            return st.fixed_dictionaries({"taskSpec": _TASKS}, optional={"computeResources": _RESOURCES})
        case PodForm.OBJECT:
            return _OBJECTS
        case _:
            return _TEMPLATES


_RULES = st.builds(
    lambda resources, checks: {"resources": resources, "checks": checks},
    st.sampled_from([["extended", "opaque"], [GPU], ["nvidia.com/*"], ["*", "!cpu", "!memory"], ["*/do?gle"], ["*"]]),
    st.sampled_from(
        [
            {"wholeQuantity": True, "requestsEqualLimits": True},
            {"perContainer": {"min": 9}, "requestsEqualLimits": False},
            {"wellFormedName": True, "wholeQuantity": False, "requestsEqualLimits": False},
        ]
    ),
)
_CAP_FORMS: st.SearchStrategy[Object] = st.sampled_from(
    [
        {"hard": {GPU: 0}},
        {"hard": {"example.com/dongle": 0}},
        {"hard": {"nvidia.com/gpumem": 0, LICENCE: 0}},
        {"hard": {"devices": 0}, "devices": {"devices": {"sum": "memory"}}},
        {"hard": {"thousandths": 0}, "counts": {"thousandths": {"annotation": "gpu-fraction"}}},
        {"hard": {"cpu": 0}},
    ]
)
_CAPS = _CAP_FORMS.map(lambda form: {**form, "namespaces": {}, "shared": False, "workloads": "deny"})
WORKLOAD_POLICIES = st.one_of(
    _RULES.map(lambda rule: tuple(name_policies("ResourceRule", [rule]))),
    _CAPS.map(lambda cap: tuple(name_policies("NamespaceCap", [cap]))),
    POLICIES,
)
"""Policies of which most concern objects of other projects in every namespace."""


def _put(content: Any, steps: Sequence[PathStep], value: Any) -> Any:
    """Return content with a value at a path, in one item of each wildcard."""
    if not steps:
        return value
    first, rest = steps[0], steps[1:]
    if first is Wildcard.ITEMS:
        items = content or [None]
        return [_put(items[0], rest, value), *items[1:]]
    key = "Worker" if first is Wildcard.VALUES else first
    return {**(content or {}), key: _put((content or {}).get(key), rest, value)}


def draw_workloads(kind: WorkloadKind) -> st.SearchStrategy[Object]:
    """Return a strategy for objects of a kind with pods in some of its pod sets."""

    def draw_set(definition: PodSetDefinition) -> st.SearchStrategy[tuple[Sequence[PathStep], Any]]:
        paths = st.sampled_from([path.steps for path in definition.templates])
        return st.tuples(paths, _draw_content(definition.form))

    def create(chosen: list[tuple[Sequence[PathStep], Any]], note: str) -> Object:
        version = f"{kind.group}/{kind.versions[0]}"
        body: Object = {"apiVersion": version, "kind": kind.kind, "metadata": {"name": "new"}, "spec": {"note": note}}
        for steps, content in chosen:
            body = _put(body, steps, content)
        return json.loads(json.dumps(body))  # type: ignore[no-any-return]  # an object

    sets = st.sampled_from(kind.pod_sets).flatmap(draw_set)
    notes = st.sampled_from(["", "a/b", 'an "é"\n', "x" * 20_001])
    return st.builds(create, st.lists(sets, min_size=1, max_size=2), notes)


WORKLOADS = st.sampled_from(KNOWN_KINDS).flatmap(lambda kind: st.tuples(st.just(kind), draw_workloads(kind)))
"""Kinds with an object of each."""
