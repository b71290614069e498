"""What an ask says about the version of its cluster, as the commands do on stderr."""

import pytest

from tests.accounting.scheduling.clusters import node
from tests.answers.asked_clusters import Object, answer, build_state
from tests.answers.test_asked_headroom import ask_headroom

_POD = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: team-a}, spec: {containers: [{name: c}]}}"
_PRELIMINARY = "the rules of Kubernetes 1.38 are preliminary"


def _create_version(git_version: str) -> Object:
    return {"apiVersion": "tallygate.dev/v1", "kind": "ClusterVersion", "gitVersion": git_version}


@pytest.mark.parametrize(
    ("git_version", "begins"),
    [
        pytest.param("v1.37.2", [], id="modelled"),
        pytest.param("v1.37.2-gke.100", [], id="of a vendor"),
        pytest.param("v1.37.2+k3s1", [], id="of another vendor"),
        pytest.param("v1.38.0", [_PRELIMINARY], id="preliminary"),
        pytest.param("v1.39.0", [_PRELIMINARY, "the cluster runs Kubernetes v1.39.0, and"], id="newer"),
        pytest.param("v1.30.1", ["the cluster runs Kubernetes v1.30.1, and"], id="older"),
        pytest.param("v2", ["the cluster runs Kubernetes v2, and the rules of kube-scheduler 1.37"], id="unreadable"),
        pytest.param("", ["the API server does not report its version: the rules of kube-scheduler 1.37"], id="empty"),
        pytest.param(None, ["the API server does not report its version"], id="unknown"),
    ],
)
def test_an_answer_says_why_its_rules_may_not_be_those_of_the_cluster(
    git_version: str | None, begins: list[str]
) -> None:
    versions = [] if git_version is None else [_create_version(git_version)]
    marks: list[Object] = [{"kind": f"{kind}List"} for kind in ("LimitRange", "PriorityClass")]
    state = build_state([*versions, *marks, {"kind": "Node", **node("n0")}])
    for found in (answer(_POD, state, namespace="team-a"), ask_headroom(_POD, state)):
        remarks = [each for each in found["remarks"] if "priorityclasses" not in each]
        assert len(remarks) == len(begins), remarks
        assert all(map(str.startswith, remarks, begins)), remarks
