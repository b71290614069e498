"""`tallygate compile`: the output of every case on disk, and the comparison with a cluster.

After an intended change of messages, `python -m tests.cli.record` records the expected output again.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tallygate.cli.app import root
from tests.cli.compile import CASES
from tests.cli.installed_gate import CONFIGURATIONS, install_gate
from tests.cli.recorded import check_recorded
from tests.cli.usage.clusters import Object, namespace
from tests.cli.usage.command_case import CommandCase, list_cases
from tests.kube.kubeconfig import write_kubeconfig
from tests.server.small_cluster import SmallCluster, run_small_cluster

_QUOTAS = "/api/v1/resourcequotas"
_CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
_CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec: {hard: {nvidia.com/gpu: 8, pods: 20}}
"""


@pytest.mark.parametrize("case", list_cases(CASES), ids=lambda case: case.name)
def test_the_output_is_expected(case: CommandCase) -> None:
    check_recorded(case.folder, case.expected, case.run())


@pytest.fixture(name="cluster")
def _cluster() -> Iterator[SmallCluster]:
    """Yield a cluster with a gate whose policies have one cap, and whose webhooks exclude a namespace."""
    namespaces = [namespace(name, **{"kubernetes.io/metadata.name": name}) for name in ("team-a", "team-b", "system-x")]
    with run_small_cluster(pods=[], namespaces=namespaces, nodes=[]) as cluster:
        install_gate(cluster, {"caps.yaml": _CAP})
        cluster.stored[f"{CONFIGURATIONS}/validatingwebhookconfigurations/tallygate"]["webhooks"] = [
            {
                "name": "validating.tallygate.dev",
                "clientConfig": {"service": {"namespace": "team-b", "name": "tallygate"}},
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "resources": ["pods"],
                        "operations": ["CREATE"],
                        "scope": "Namespaced",
                    }
                ],
                "namespaceSelector": {
                    "matchExpressions": [
                        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["system-x"]}
                    ]
                },
            }
        ]
        cluster.objects[_CLASSES] = []
        cluster.objects[_QUOTAS] = []
        yield cluster


def _run(cluster: SmallCluster, folder: Path, *arguments: str) -> tuple[int, str, str]:
    kubeconfig = write_kubeconfig(folder, cluster.server)
    result = CliRunner().invoke(root, ["compile", "--kubeconfig", str(kubeconfig), *arguments])
    return result.exit_code, result.stdout, result.stderr


def _compile(cluster: SmallCluster, folder: Path) -> list[Object]:
    exit_code, output, errors = _run(cluster, folder, "-o", "json")
    assert exit_code == 0, errors
    items: list[Object] = json.loads(output)["items"]
    return items


def _list_differences(cluster: SmallCluster, folder: Path) -> list[tuple[Any, ...]]:
    exit_code, output, errors = _run(cluster, folder, "--check", "-o", "json")
    items = json.loads(output)["items"]
    assert exit_code == bool(items), errors
    return [tuple(item.values()) for item in items]


def test_the_policies_of_the_gate_are_compiled_for_the_namespaces_that_it_is_called_for(
    cluster: SmallCluster, tmp_path: Path
) -> None:
    """Leave out the namespace that the webhooks exclude, and that of the gate's Service."""
    (quota,) = _compile(cluster, tmp_path)
    assert quota["metadata"]["namespace"] == "team-a"
    assert quota["spec"]["hard"] == {"pods": "20", "requests.nvidia.com/gpu": "8"}


def test_classes_of_devices_of_the_cluster_are_known(cluster: SmallCluster, tmp_path: Path) -> None:
    meta = {"name": "gpu", "uid": "c", "resourceVersion": "2"}
    cluster.objects[_CLASSES] = [{"metadata": meta, "spec": {"extendedResourceName": "nvidia.com/gpu"}}]
    (quota,) = _compile(cluster, tmp_path)
    assert quota["spec"]["hard"] == {"pods": "20"}


def test_applied_objects_are_compared(cluster: SmallCluster, tmp_path: Path) -> None:
    assert _list_differences(cluster, tmp_path) == [("missing", "ResourceQuota", "team-a", "tallygate-gpus", None)]
    applied = _compile(cluster, tmp_path)
    cluster.objects[_QUOTAS] = applied
    assert _list_differences(cluster, tmp_path) == []
    exit_code, output, errors = _run(cluster, tmp_path, "--check")
    assert (exit_code, output, errors) == (0, "", "1 compiled object compared with the cluster: no difference\n")
    applied[0]["spec"]["hard"]["pods"] = "21"
    assert _list_differences(cluster, tmp_path) == [
        ("other", "ResourceQuota", "team-a", "tallygate-gpus", "spec.hard.pods")
    ]
    applied[0]["metadata"]["namespace"] = "team-z"
    exit_code, output, errors = _run(cluster, tmp_path, "--check")
    assert output == (
        "DIFFERENCE  KIND           NAMESPACE  NAME            FIELD\n"
        "missing     ResourceQuota  team-a     tallygate-gpus  -\n"
        "surplus     ResourceQuota  team-z     tallygate-gpus  -\n"
    )
    assert (exit_code, errors) == (1, "1 compiled object compared with the cluster: 2 differ\n")


@pytest.mark.parametrize("path", [_QUOTAS, "/api/v1/namespaces", _CLASSES])
def test_a_list_that_fails_is_an_error(cluster: SmallCluster, tmp_path: Path, path: str) -> None:
    cluster.objects.pop(path, None)
    cluster.error_statuses[path] = 403
    exit_code, _, errors = _run(cluster, tmp_path, "--check")
    assert exit_code == 2
    assert f"{path.rpartition('/')[2]} cannot be listed" in errors


def test_a_gate_without_policies_has_nothing_to_compile(cluster: SmallCluster, tmp_path: Path) -> None:
    cluster.stored.clear()
    exit_code, _, errors = _run(cluster, tmp_path)
    assert (exit_code, errors) == (2, "tallygate: the gate here has no policies; name policy files\n")
