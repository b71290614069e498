"""Implied requests of pods of every form: the patch, the completed pod, and the effective request agree."""

import json
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tallygate.accounting.pod_requests import compute_pod_limits, compute_pod_requests
from tallygate.admission.evaluate import evaluate_request
from tallygate.admission.kinds import BUILT_IN_TARGETS
from tallygate.admission.request import CREATE, AdmissionRequest, Phase, Verdict
from tallygate.admission.rule_index import RuleIndex
from tallygate.answers.api_validation import apply_patch
from tallygate.objects.core import Pod
from tests.admission.case import parse_policies
from tests.effort import examples

IP = "example.com/ip"
POLICIES = parse_policies("""
apiVersion: tallygate.dev/v1alpha1
kind: ImpliedRequest
metadata: {name: addresses}
spec: {resource: example.com/ip, perPod: 3, unless: {hostNetwork: true}}
---
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: fill}
spec: {resources: [extended], checks: {requestsEqualLimits: fill}}
""")
RULES = RuleIndex(POLICIES)

lists = st.dictionaries(st.sampled_from(["cpu", "nvidia.com/gpu", IP]), st.sampled_from(["1", "2"]), max_size=2)
resources = st.none() | st.fixed_dictionaries({}, optional={"limits": lists | st.none(), "requests": lists | st.none()})
containers = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("abc")}, optional={"resources": resources}), min_size=1, max_size=3
)
init = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("ij")}, optional={"resources": resources, "restartPolicy": st.just("Always")}
    ),
    max_size=2,
)
pods = st.fixed_dictionaries(
    {"spec": st.fixed_dictionaries({"containers": containers}, optional={"initContainers": init})}
)


def evaluate(body: bytes) -> Verdict:
    """Return the verdict of the mutating phase on a new pod."""
    request = AdmissionRequest("Pod", CREATE, body, namespace="team-a")
    return evaluate_request(request, RULES, None, Phase.MUTATING)


def mutate(body: bytes) -> bytes:
    """Return a new pod after the mutating phase."""
    return apply_patch(body, evaluate(body).patch)


def decode(body: bytes) -> Pod:
    """Return a pod."""
    pod = BUILT_IN_TARGETS["", "Pod"].decode(body)
    assert isinstance(pod, Pod)
    return pod


def names_resource(pod: dict[str, Any]) -> bool:
    """Return whether a container of the pod names the resource."""
    return f'"{IP}"' in json.dumps(pod)


@settings(max_examples=examples(300))
@given(pods)
def test_the_effective_request_and_limit_are_exactly_the_implied_amount(pod: dict[str, Any]) -> None:
    body = json.dumps(pod).encode()
    mutated = mutate(body)
    if evaluate(body).problems:  # GPUs whose request and limit differ: such a pod is denied as it is
        assert mutated == body
        return
    assert mutate(mutated) == mutated
    after = decode(mutated)
    assert after.spec is not None
    if names_resource(pod):
        before = decode(body)
        assert before.spec is not None
        for compute in (compute_pod_requests, compute_pod_limits):
            assert compute(after.spec).amounts.get(IP, 0) >= compute(before.spec).amounts.get(IP, 0)
        assert "3" not in {bytes(raw).decode().strip('"') for raw in _list_amounts(after)}
    else:
        assert compute_pod_requests(after.spec).amounts[IP] == compute_pod_limits(after.spec).amounts[IP] == 3


def _list_amounts(pod: Pod) -> list[Any]:
    assert pod.spec is not None
    found = []
    for container in (*(pod.spec.containers or ()), *(pod.spec.init_containers or ())):
        for each in (container.resources.requests, container.resources.limits) if container.resources else ():
            found += [raw for name, raw in (each or {}).items() if name == IP]
    return found


@settings(max_examples=examples(100))
@given(pods)
def test_a_template_is_completed_to_what_its_pods_get(pod: dict[str, Any]) -> None:
    """Compare the completed template with the pod that the mutating phase makes of it, without what fill adds."""
    body = json.dumps(pod).encode()
    assume(not evaluate(body).problems)
    completed = RULES.select_implied("team-a", None).complete(decode(body))
    mutated = decode(mutate(body))
    assert completed.spec is not None
    assert mutated.spec is not None
    for compute in (compute_pod_requests, compute_pod_limits):
        expected = compute(mutated.spec).amounts.get(IP, 0)
        assert names_resource(pod) or compute(completed.spec).amounts.get(IP, 0) == expected
