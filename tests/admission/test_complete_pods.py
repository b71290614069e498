"""Complete pods are sent in the validating phase only: the mutating phase would not change them.

`tests.admission.complete` has the condition as a Python function; an end-to-end test compares both in a real API
server.
"""

import itertools
import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tallygate.accounting.validation.pods import validate_pod
from tallygate.admission.request import Phase
from tallygate.objects.core import Pod
from tests.admission.complete import is_complete
from tests.admission.test_match_conditions import EVERY_RULE
from tests.effort import examples
from tests.gate.gate_fixture import GateFixture, response

GATE = GateFixture(EVERY_RULE)
numbers = itertools.count()

names = st.sampled_from(
    [
        "nvidia.com/gpu",
        "example.com/dongle",
        "cpu",
        "memory",
        "ephemeral-storage",
        "hugepages-2Mi",
        "Bad_Name!",
        "requests.example.com/x",
        "kubernetes.io/batch",
        "pod.alpha.kubernetes.io/opaque-int-resource-bananas",
        f"{'a' * 60}.example.com/{'b' * 63}",
        "example..com/x",
        "example.com/",
    ]
)
quantities = st.sampled_from(
    [
        "0",
        "1",
        "2",
        "500m",
        "1500m",
        "1Ki",
        "64Mi",
        "-1",
        "10E",
        "999999999999999",
        "999999999999",
        "99999Gi",
        "99Ti",
        "4Ei",
    ]
)
lists = st.dictionaries(names, quantities, max_size=3)
equal = lists.map(lambda amounts: {"requests": amounts, "limits": amounts})
unequal = st.fixed_dictionaries({}, optional={"requests": lists, "limits": lists})
containers = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("abc")}, optional={"resources": equal | unequal}),
    min_size=1,
    max_size=2,
    unique_by=lambda each: str(each["name"]),
)
specs = st.fixed_dictionaries(
    {"containers": containers},
    optional={"initContainers": containers, "overhead": lists, "resources": unequal},
)


def _request(spec: dict[str, Any], phase: Phase, namespace: str) -> dict[str, Any]:
    pod = {"kind": "Pod", "metadata": {"uid": namespace, "labels": {"team": "vision"}}, "spec": spec}
    return response(GATE.admit(pod, phase, namespace=namespace, kind={"group": "", "kind": "Pod"}))


@given(specs)
@settings(max_examples=examples(1000))
def test_the_mutating_phase_does_not_change_a_complete_pod(spec: dict[str, Any]) -> None:
    """Expect no patch, and the same denials and warnings in the validating phase."""
    if not is_complete({"spec": spec}):
        return
    namespace = f"complete-{next(numbers)}"
    mutating, validating = (_request(spec, phase, namespace) for phase in (Phase.MUTATING, Phase.VALIDATING))
    assert "patch" not in mutating
    if not mutating["allowed"]:
        assert validating == mutating
    assert set(mutating.get("warnings", [])) <= set(validating.get("warnings", []))


@given(specs)
@settings(max_examples=examples(1000))
def test_a_complete_pod_passes_the_validation_of_kubernetes(spec: dict[str, Any]) -> None:
    """Expect no error of the API server, which the user would see instead of the gate's."""
    if is_complete({"spec": spec}):
        pod = msgspec.json.decode(json.dumps({"spec": spec}), type=Pod)
        assert list(validate_pod(pod, "", template=False)) == []
