"""The PodGroup of a Job, as its controller makes it: for which Jobs, with which quorum and claims."""

from typing import Any

import msgspec
import pytest

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.ingest import ingest
from tallygate.accounting.kubernetes_versions.version import MODELLED_VERSIONS, KubernetesVersion
from tallygate.accounting.pod_defaults import NO_POD_DEFAULTS
from tallygate.accounting.scheduling.pod_group_cycle import get_quorum
from tallygate.admission.implied_requests import NO_IMPLIED
from tallygate.answers.group_predictions import open_group_predictions
from tallygate.answers.pods_to_place import PodsToPlace, create_pods_in_files
from tallygate.documents.reader import read_documents
from tallygate.documents.syntax_tree import DEFAULT_LIMITS
from tallygate.manifests.manifest_objects import Manifest, list_objects
from tallygate.objects.core import PodGroupReference
from tallygate.policy.model import PolicySet

Json = dict[str, Any]

_GANG: Json = {"scheduling": {"schedulingPolicy": {"gang": {}}}}

_OWNERS = [{"kind": "X", "name": "x", "controller": True}]
_BY_TEMPLATE = {"scheduling.k8s.io/group-template-name": "w"}
_BY_WORKLOAD = {"scheduling.k8s.io/workload-name": "w"}


def _complete(pods: PodsToPlace, version: KubernetesVersion) -> PodsToPlace:
    return pods.complete(NO_IMPLIED.with_defaults(NO_POD_DEFAULTS._replace(version=version)), print)


def _create_pods(spec: Json, template: Json | None = None, count: int | None = None, **metadata: Any) -> PodsToPlace:
    containers = [{"name": "c", "image": "example.com/none:1"}]
    pod = {"restartPolicy": "Never", "containers": containers, **(template or {})}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "team", **metadata},
        "spec": {"template": {"spec": pod}, **spec},
    }
    text = msgspec.json.encode(job).decode()
    documents = read_documents(text, DEFAULT_LIMITS)
    manifests = [each for one in documents for each in list_objects("job.json", one) if isinstance(each, Manifest)]
    (pods,) = create_pods_in_files(manifests, "team", PolicySet(), count, print).pods
    return pods


@pytest.mark.parametrize(
    ("spec", "count", "quorum"),
    [
        pytest.param({}, None, 1, id="pods start one by one by default"),
        pytest.param({"scheduling": {"schedulingPolicy": {"basic": {}}}}, None, 1, id="basic"),
        pytest.param({"parallelism": 8, "completions": 2} | _GANG, None, 8, id="parallelism is the default"),
        pytest.param({"parallelism": 0} | _GANG, None, 1, id="at least one"),
        pytest.param({"parallelism": 8} | _GANG, 3, 3, id="another number of copies"),
        pytest.param(
            {"parallelism": 8, "scheduling": {"schedulingPolicy": {"gang": {"minCount": 5}}}}, None, 5, id="written"
        ),
    ],
)
def test_a_job_has_a_group_with_its_quorum(spec: Json, count: int | None, quorum: int) -> None:
    group = _create_pods(spec, count=count).job_group
    assert group is not None
    assert get_quorum(group) == quorum


@pytest.mark.parametrize(
    ("spec", "template", "metadata"),
    [
        pytest.param({}, {"schedulingGroup": {"podGroupName": "own"}}, {}, id="its pods name one"),
        pytest.param({"managedBy": "example.com/queue"}, {}, {}, id="another controller manages it"),
        pytest.param(
            {}, {}, {"ownerReferences": [{"kind": "X", "name": "x", "controller": True}]}, id="it has an owner"
        ),
    ],
)
def test_a_job_of_another_controller_has_none(spec: Json, template: Json, metadata: Json) -> None:
    assert _create_pods({**spec, **_GANG}, template, **metadata).job_group is None


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"annotations": _BY_WORKLOAD}, id="a workload has its template"),
        pytest.param({"annotations": _BY_TEMPLATE}, id="a template of its owner"),
        pytest.param({"annotations": _BY_TEMPLATE, "ownerReferences": _OWNERS}, id="a template that its owner names"),
    ],
)
@pytest.mark.parametrize("version", MODELLED_VERSIONS, ids=str)
def test_a_group_that_the_job_does_not_decide_is_unknown(metadata: Json, version: KubernetesVersion) -> None:
    pods = _complete(_create_pods(_GANG, **metadata), version)
    assert pods.job_group is None
    assert pods.pod.spec is not None
    assert pods.pod.spec.scheduling_group == PodGroupReference()


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"ownerReferences": _OWNERS}, id="by its own scheduling"),
        pytest.param({"ownerReferences": _OWNERS, "annotations": _BY_WORKLOAD}, id="by an annotation"),
    ],
)
@pytest.mark.parametrize("version", MODELLED_VERSIONS, ids=str)
def test_a_job_that_another_controller_owns_has_a_group_since_1_38(metadata: Json, version: KubernetesVersion) -> None:
    """Await the group in 1.38, whose rules are not modelled, and place the pods by themselves before."""
    pods = _complete(_create_pods(_GANG, **metadata), version)
    assert pods.job_group is None
    assert pods.pod.spec is not None
    assert pods.pod.spec.scheduling_group == (PodGroupReference() if version.minor >= 38 else None)


def test_a_job_that_asked_for_nothing_is_left_to_its_owner() -> None:
    pods = _create_pods({}, ownerReferences=[{"kind": "X", "name": "x", "controller": True}])
    assert pods.job_group is None
    assert pods.pod.spec is not None
    assert pods.pod.spec.scheduling_group is None


def test_the_group_has_the_claims_and_the_class_of_the_job() -> None:
    claims = [{"name": "gpus", "resourceClaimTemplateName": "two"}]
    group = _create_pods({"scheduling": {"resourceClaims": claims}}, {"priorityClassName": "high"}).job_group
    assert group is not None
    assert group.spec is not None
    assert msgspec.to_builtins(group.spec.resource_claims) == claims
    assert group.spec.priority_class_name == "high"


@pytest.mark.parametrize("has_gate", [True, False])
def test_the_pods_name_the_group_only_where_the_gate_is_on(*, has_gate: bool) -> None:
    """Read the gate in a PodGroup that a Job owns, and leave none in the cluster."""
    cluster, pods = Cluster(), _create_pods(_GANG)
    if has_gate:
        owners = [{"kind": "Job", "name": "other", "uid": "o", "controller": True}]
        metadata = {"name": "other", "namespace": "team", "uid": "g", "ownerReferences": owners}
        ingest(cluster, "PodGroup", msgspec.json.encode({"metadata": metadata}))
    with open_group_predictions([pods], cluster) as groups:
        named = groups.get_named(pods).pod.spec
        assert (cluster.pod_groups.find(("team", "train-pgt-0-")) is not None) is has_gate
    assert named is not None
    assert named.scheduling_group is not None
    assert named.scheduling_group.pod_group_name == ("train-pgt-0-" if has_gate else None)
    assert cluster.pod_groups.find(("team", "train-pgt-0-")) is None
