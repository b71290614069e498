"""The kinds of other projects: what is read of a cluster, what is reported, and the printed commands."""

import json
import shlex
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.admission.webhook_configuration import ServiceTarget
from tallygate.cli.doctor.facts import ServedKind, Unavailable, WorkloadFacts
from tallygate.cli.doctor.gather import find_pod_template, read_workload_facts
from tallygate.kube.client import ApiClient
from tallygate.kube.config import load_kubeconfig
from tallygate.policy.known_kinds import KNOWN_KINDS
from tests.admission.plain_configurations import create_plain_configurations
from tests.cli.doctor.fact_changes import WARN
from tests.cli.doctor.healthy_gate import Object, create_facts, create_registration, replica, run_check, with_check
from tests.cli.doctor.workload_cases import GANG_JOBS, JOB_SETS, PROMETHEUS, UNREAD_GANG_JOBS, serve, serve_gangs
from tests.kube.kubeconfig import write_kubeconfig
from tests.server.small_cluster import run_small_cluster

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OPEN: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def fields(**properties: Object) -> Object:
    """Return the schema of an object with these fields."""
    return {"type": "object", "properties": properties}


def items(schema: Object) -> Object:
    """Return the schema of a list."""
    return {"type": "array", "items": schema}


POD_SPEC = fields(containers=items(fields(name={"type": "string"}, image={"type": "string"})))


def definition(group: str, kind: str, schema: Object, *, served: bool = True) -> Object:
    """Return a CustomResourceDefinition with one version."""
    versions = [{"name": "v1", "served": served, "storage": True, "schema": {"openAPIV3Schema": schema}}]
    return {
        "metadata": {"name": f"{kind.lower()}s.{group}"},
        "spec": {"group": group, "names": {"kind": kind, "plural": f"{kind.lower()}s"}, "versions": versions},
    }


@pytest.mark.parametrize(
    ("schema", "field"),
    [
        (fields(spec=fields(template=fields(spec=POD_SPEC))), "spec.template.spec"),
        (fields(spec=POD_SPEC), "spec"),
        (fields(spec=fields(tasks=items(fields(pod=POD_SPEC)))), "spec.tasks[*].pod"),
        (
            fields(spec=fields(roles={"type": "object", "additionalProperties": fields(podTemplate=OPEN)})),
            "spec.roles.*.podTemplate",
        ),
        (fields(spec=fields(template=OPEN)), "spec.template"),
        (fields(spec=fields(deep=fields(template=OPEN), template=OPEN)), "spec.template"),
        (fields(spec=fields(values=OPEN)), ""),
        (fields(spec=fields(template=fields(name={"type": "string"}))), ""),
        (fields(spec=fields(containers=items({"type": "string"}))), ""),
        (fields(status=fields(template=fields(spec=POD_SPEC))), ""),
        (OPEN, ""),
        ({}, ""),
        ({"properties": 7, "items": [], "additionalProperties": True}, ""),
    ],
)
def test_a_pod_template_is_found_by_its_containers_or_its_name(schema: Object, field: str) -> None:
    assert find_pod_template(schema) == field


anything = st.recursive(
    st.none() | st.booleans() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["properties", "items", "additionalProperties", "containers", "image", "template", "x"]),
            inner,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["properties", "items", "additionalProperties"]), anything))
def test_a_schema_of_any_shape_is_walked(schema: Object) -> None:
    assert isinstance(find_pod_template(schema), str)


def test_the_kinds_are_read_from_discovery_and_from_definitions(tmp_path: Path) -> None:
    template = fields(spec=fields(template=fields(spec=POD_SPEC)))
    with run_small_cluster() as cluster:
        cluster.objects[DEFINITIONS] = [
            definition("jobset.x-k8s.io", "JobSet", template),
            definition("monitoring.coreos.com", "Prometheus", fields(spec=POD_SPEC)),
            definition("example.com", "Retired", template, served=False),
            definition("example.com", "Plain", fields(spec=fields(size={"type": "integer"}))),
            definition("example.com", "Bare", {}),
        ]
        cluster.objects |= {f"/apis/kueue.x-k8s.io/{version}/workloads": [] for version in ("v1alpha1", "v1beta1")}
        client = ApiClient(load_kubeconfig(write_kubeconfig(tmp_path, cluster.server)))
        facts = read_workload_facts(client, KNOWN_KINDS)
    (workload,) = (kind for kind in KNOWN_KINDS if kind.kind == "Workload")
    assert facts == WorkloadFacts(
        KNOWN_KINDS, (ServedKind(workload, {"v1alpha1": True, "v1beta1": True}),), (PROMETHEUS,)
    )


@pytest.mark.parametrize(
    "broken", [{"spec": 7}, {}, {"spec": {"group": "a", "names": {"kind": "A"}, "versions": [{"served": "yes"}]}}]
)
def test_what_may_not_be_read_or_is_odd_is_unavailable(tmp_path: Path, broken: Object) -> None:
    with run_small_cluster() as cluster:
        client = ApiClient(load_kubeconfig(write_kubeconfig(tmp_path, cluster.server)))
        cluster.error_statuses |= {"/apis": 403, DEFINITIONS: 403}
        forbidden = Unavailable("the API server says 403: no")
        assert read_workload_facts(client, ()) == WorkloadFacts((), forbidden, forbidden)
        cluster.error_statuses.clear()
        cluster.objects[DEFINITIONS] = [broken]
        odd = read_workload_facts(client, ()).unread
    assert isinstance(odd, Unavailable)
    assert odd.reason.startswith("a CustomResourceDefinition is not as an API server would have stored it: ")


def test_kinds_that_are_not_read_are_named_and_need_nothing() -> None:
    found = run_check("workload-kinds", create_facts(**serve(unread=(PROMETHEUS,))))
    assert found.reason == (
        "no known kind of another project is served; not read, so that their pods are evaluated only when they are "
        "created: Prometheus of monitoring.coreos.com (spec)"
    )


def test_without_policies_the_unread_kinds_are_those_that_no_policy_may_define() -> None:
    reason = "the arguments of the gate's Deployment have no --policies"
    facts = create_facts(policies=Unavailable(reason), **serve(unread=(UNREAD_GANG_JOBS,)))
    assert run_check("workload-kinds", facts).reason == (
        f"the kinds that policies define are unknown: {reason}; name the policy files by --policies; not read, unless "
        "policies define them: GangJob of batch.example.com (spec.leader.template.spec)"
    )


def test_of_a_gate_without_access_the_commands_register_a_kind_of_the_policies() -> None:
    def leave_to_gate(*configurations: Object) -> None:
        for each in configurations:
            each["metadata"]["annotations"] = {"tallygate.dev/registration": "gate"}

    facts = create_facts(**serve_gangs(GANG_JOBS), **create_registration(leave_to_gate))
    commands = run_check("workload-kinds", facts).fix_commands
    assert [each.split()[:2] for each in commands] == [["kubectl", "patch"]] * 2
    before = create_plain_configurations(ServiceTarget(), ca_bundle=b"x")
    after = create_plain_configurations(ServiceTarget(), ca_bundle=b"x", workload_resources=[GANG_JOBS])
    assert [_apply(each, command) for each, command in zip(before, commands, strict=True)] == list(after)


def _apply(configuration: Object, command: str) -> Object:
    """Return a configuration after the JSON patch of a command of kubectl."""
    (text,) = (each.partition("=")[2] for each in shlex.split(command) if each.startswith("--patch="))
    result: Any = json.loads(json.dumps(configuration))
    for each in json.loads(text):
        *parents, last = each["path"].strip("/").split("/")
        place = result
        for step in parents:
            place = place[int(step)] if isinstance(place, list) else place[step]
        if each["op"] == "test":
            assert place[last] == each["value"]
        elif each["op"] == "copy":
            assert int(last) == len(place)
            place.append(json.loads(json.dumps(result["webhooks"][int(each["from"].rpartition("/")[2])])))
        else:
            place[last] = each["value"]
    return dict(result)


@pytest.mark.parametrize("registered", [[], [JOB_SETS]], ids=["no such webhook", "another kind"])
def test_the_printed_commands_register_every_served_kind(registered: list[Any]) -> None:
    served = serve(JOB_SETS, JOB_SETS._replace(group="ray.io", version="v1", plural="rayclusters"))
    facts = create_facts(**served, **create_registration(resources=registered))
    found = run_check("workload-kinds", facts)
    assert found.status is WARN
    assert "RayCluster of ray.io" in found.reason
    resources = sorted(each.resource for each in served["workloads"].served)
    before = create_plain_configurations(ServiceTarget(), ca_bundle=b"x", workload_resources=registered)
    after = create_plain_configurations(ServiceTarget(), ca_bundle=b"x", workload_resources=resources)
    for configuration, expected in zip(before, after, strict=True):
        commands = [each for each in found.fix_commands if configuration["kind"].lower() in each]
        assert reduce(_apply, commands, configuration) == expected


def test_of_a_gate_that_registers_itself_the_reason_is_shown() -> None:
    def leave_to_gate(*configurations: Object) -> None:
        for each in configurations:
            each["metadata"]["annotations"] = {"tallygate.dev/registration": "gate"}

    detail = with_check("registration", state="complete", discovery="the API server says 403: no")
    facts = create_facts(
        **serve(JOB_SETS), **create_registration(leave_to_gate), replicas=(replica(readiness=detail), replica("pod-b"))
    )
    found = run_check("workload-kinds", facts)
    assert found.reason.startswith(
        "JobSet of jobset.x-k8s.io is served and not registered in the mutate phase: pod templates in such objects are "
        "not evaluated: the gate cannot read what is served: the API server says 403: no"
    )
    assert found.fix_commands == ("kubectl get --raw=/apis --as=system:serviceaccount:tallygate-system:tallygate",)
