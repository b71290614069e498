"""The workloads of other projects that the gate is asked about: by the names in their pods, wherever these are."""

from pathlib import Path
from typing import Any

import pytest

from tallygate.admission.match_conditions import MatchConditions
from tallygate.admission.webhook_configuration import ServiceTarget, create_webhook_configurations
from tallygate.admission.workload_resources import select_resources
from tallygate.admission.workload_texts import MAX_TEXT, create_name_tests, create_text_condition, estimate_text_cost
from tallygate.policy.known_kinds import KNOWN_KINDS
from tests.admission.case import parse_policies
from tests.admission.conditions import MAX_COST, evaluate_condition, list_asked
from tests.admission.test_workload_resources import EVERYTHING_SERVED

SHIPPED = (Path(__file__).parents[2] / "policies" / "default.yaml").read_text("utf-8")
CAP = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: cap}
spec: {namespaces: {include: ["team-*"]}, %s}
"""
OF_GPUS = CAP % "hard: {nvidia.com/gpu: 1}"
GPU, NATIVE = {"nvidia.com/gpu": "1"}, {"cpu": "1", "memory": 5, "ephemeral-storage": "1Gi"}


def _is_asked(
    policies: str, kind: str, spec: dict[str, Any], old: dict[str, Any] | None = None, namespace: str = "team-a"
) -> bool:
    """Return whether an API server asks about an object of a kind with this spec, or about its change."""
    (found,) = (each for each in KNOWN_KINDS if f"{each.kind}.{each.group}" == kind)
    resources = select_resources(KNOWN_KINDS, EVERYTHING_SERVED)
    conditions = MatchConditions(parse_policies(policies), gives_devices=False)
    _, validating = create_webhook_configurations(ServiceTarget(), conditions=conditions, workload_resources=resources)
    request: dict[str, Any] = {
        "kind": {"group": found.group, "kind": found.kind},
        "resource": found.resource,
        "namespace": namespace,
        "operation": "CREATE" if old is None else "UPDATE",
        "object": {"metadata": {}, "spec": spec},
    }
    if old is not None:
        request["oldObject"] = {"metadata": {}, "spec": old}
    (webhook,) = list_asked(validating, request)
    return webhook.is_called(request, {"kubernetes.io/metadata.name": namespace})


def _create_ray(resources: object, **spec: object) -> dict[str, Any]:
    containers = [{"name": "ray", "image": "rayproject/ray:2.9", "resources": resources}]
    template = {"metadata": {"labels": {"nvidia.com/gpu.product": "A100"}}, "spec": {"containers": containers, **spec}}
    return {"headGroupSpec": {"template": template}}


RAY = "RayCluster.ray.io"


@pytest.mark.parametrize(
    ("resources", "calls"),
    [
        (None, 0),
        ({}, 0),
        ({"requests": {}, "limits": NATIVE}, 0),
        ({"limits": {**NATIVE, **GPU}}, 1),
        ({"limits": {"example.com/dongle": 1}}, 1),
        ({"requests": {"Bad Name": "1"}}, 1),
        ({"requests": {'b"ad}': "1"}}, 1),
        ({"requests": {"hugepages-2Mi": "1"}}, 1),
        ({"requests": {"cpu": '1"'}}, 1),
        ({"requests": {"cpu": ["1"]}}, 1),
        ({"requests": "none"}, 1),
    ],
)
def test_the_shipped_rules_concern_workloads_with_other_names_than_those_of_kubernetes(
    resources: object, calls: int
) -> None:
    assert _is_asked(SHIPPED, RAY, _create_ray(resources)) == calls
    assert _is_asked(SHIPPED, RAY, _create_ray(resources), _create_ray(None)) == calls
    assert _is_asked(SHIPPED, RAY, _create_ray(None), _create_ray(resources)) == calls


@pytest.mark.parametrize(
    ("kind", "spec", "calls"),
    [
        (RAY, _create_ray({"limits": NATIVE}), 0),
        (RAY, _create_ray({"limits": {"example.com/dongle": 1}}), 0),
        (RAY, _create_ray({"limits": GPU}), 1),
        (RAY, _create_ray({"limits": {"deviceclass.resource.kubernetes.io/gpu": 1}}), 1),
        (RAY, _create_ray({}, resourceClaims=[{"name": "a", "resourceClaimName": "b"}]), 1),
        (RAY, _create_ray({}, overhead=GPU), 1),
        (
            "SparkApplication.sparkoperator.k8s.io",
            {"executor": {"gpu": {"name": "nvidia.com/gpu", "quantity": 1}}},
            1,
        ),
        ("SparkApplication.sparkoperator.k8s.io", {"executor": {"cores": 1}}, 0),
        (
            "Workflow.argoproj.io",
            {"podSpecPatch": '{"containers": [{"name": "a", "x": "nvidia.com\\u002fgpu"}]}'},
            1,
        ),
        ("Workflow.argoproj.io", {"templates": [{"name": "a", "container": {"resources": {"limits": GPU}}}]}, 1),
        ("Workflow.argoproj.io", {"templates": [{"name": "a", "container": {"image": "nvidia.com/gpu"}}]}, 0),
        ("NIMService.apps.nvidia.com", {"draResources": [{"resourceClaimTemplateName": "a"}]}, 1),
        ("TaskRun.tekton.dev", {"computeResources": {"requests": GPU}}, 1),
        ("TrainJob.trainer.kubeflow.org", {"trainer": {"resourcesPerNode": {"limits": GPU}}}, 1),
        (RAY, _create_ray({}) | {"note": "x" * MAX_TEXT}, 1),
    ],
)
def test_a_cap_on_devices_concerns_workloads_that_name_them(kind: str, spec: dict[str, Any], calls: int) -> None:
    assert _is_asked(OF_GPUS, kind, spec) == calls
    assert not _is_asked(OF_GPUS, kind, spec, namespace="other")


def test_a_cap_on_parts_of_devices_concerns_the_annotations_of_workloads() -> None:
    cap = CAP % "counts: {thousandths: {annotation: gpu-fraction}}, hard: {thousandths: 100}"
    for annotations, is_asked in (({"gpu-fraction": "0.5"}, True), ({"note": "x"}, False)):
        template = {"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "a"}]}}
        assert _is_asked(cap, RAY, {"headGroupSpec": {"template": template}}) is is_asked


@pytest.mark.parametrize("limits", ["cpu: 1", "pods: 1", "limits.memory: 1Gi"])
def test_a_cap_on_resources_of_every_pod_concerns_every_workload(limits: str) -> None:
    assert _is_asked(CAP % f"hard: {{{limits}}}", RAY, {})


def test_globs_are_tested_by_their_longest_part() -> None:
    """Test no part whose characters the text would escape."""
    assert create_name_tests(["nvidia.com/*", "*/do?gle", "!cpu"]) == (
        "s.contains('nvidia.com/')",
        "s.contains('/do')",
    )
    assert create_name_tests(["nvidia.com/gpu"]) == ("s.contains('\"nvidia.com/gpu\"')",)
    for pattern in ("*", "extended", "opaque", 'b"ad', "é"):
        assert create_name_tests([pattern]) == ("true",)


def test_very_many_names_are_not_tested_in_a_text() -> None:
    """Ask about all workloads in the namespaces then, and stay within the cost of one expression else."""
    names = [f"example.com/{'x' * 40}-{number}" for number in range(80)]
    for count in (40, 80):
        hard = ", ".join(f"{name}: 1" for name in names[:count])
        assert _is_asked(CAP % f"hard: {{{hard}}}", RAY, {}) is (count == 80)
    condition = create_text_condition([".?spec"], "true", (), "(" + " || ".join(create_name_tests(names[:40])) + ")")
    request = {"operation": "CREATE", "object": {"spec": "x" * (MAX_TEXT - 100) + '"requests":'}}
    is_true, cost = evaluate_condition(condition, request)
    assert not is_true
    assert cost <= estimate_text_cost(condition) + 1000 <= MAX_COST
