"""The policies that a gate's Deployment mounts: where they are found, and why they are unknown."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
import pytest

from tallygate.cli.doctor.api_types import GateDeployment
from tallygate.cli.doctor.doctor_client import DoctorClient
from tallygate.cli.doctor.facts import MountedConfigMap, StoredPolicies, Unavailable
from tallygate.cli.doctor.mounted_policies import get_policies, list_labelled_config_maps, read_stored_policies
from tallygate.kube.config import load_kubeconfig
from tallygate.policy.load import load_policies
from tallygate.policy.model import PolicySet
from tests.cli.doctor.scripted_server import Response, run_server

_RULE = "apiVersion: tallygate.dev/v1alpha1\nkind: ResourceRule\nmetadata: {name: %s}\nspec: {resources: [a.com/b]}\n"
_CONFIG_MAPS = {
    "mine": {"a.yaml": _RULE % "a", "b.yml": _RULE % "b", "notes.txt": "no policy", ".hidden.yaml": "no policy"},
    "other": {"c.json": json.dumps({"apiVersion": "v1"}), "d.yaml": _RULE % "d"},
    "empty": None,
}
_MOUNTED = {"name": "mine", "mountPath": "/policies"}
_VOLUME = {"name": "mine", "configMap": {"name": "mine"}}


def create_deployment(*paths: str, mounts: Any = (_MOUNTED,), volumes: Any = (_VOLUME,)) -> GateDeployment:
    """Return the Deployment of a gate with policies at these paths."""
    arguments = ["serve", *(f"--policies={each}" for each in paths)]
    container = {"name": "tallygate", "args": arguments, "volumeMounts": list(mounts)}
    spec = {"template": {"spec": {"containers": [{"name": "other"}, container], "volumes": list(volumes)}}}
    return msgspec.convert({"metadata": {"name": "tallygate"}, "spec": spec}, GateDeployment)


def read(tmp_path: Path, deployment: GateDeployment | Unavailable | None) -> PolicySet | Unavailable:
    """Read the policies of a Deployment from a server with these ConfigMaps."""

    def answer(_method: str, path: str) -> Response:
        name = path.rpartition("/")[2]
        if name not in _CONFIG_MAPS or not path.startswith("/api/v1/namespaces/gates/configmaps/"):
            return Response(404, b"{}")
        return Response(200, json.dumps({"data": _CONFIG_MAPS[name]}).encode())

    with run_server(tmp_path, answer) as kubeconfig:
        return get_policies(read_stored_policies(DoctorClient(load_kubeconfig(kubeconfig)), "gates", deployment))


@pytest.mark.parametrize(
    ("paths", "rules"),
    [
        pytest.param(["/policies"], ["a", "b"], id="a folder has each key with a suffix of policies"),
        pytest.param(["/policies/"], ["a", "b"], id="a slash at the end of a path changes nothing"),
        pytest.param(["/policies/b.yml"], ["b"], id="a file is one key"),
        pytest.param(["/policies/b.yml", "/policies"], ["a", "b"], id="a file that is named twice is read once"),
    ],
)
def test_the_keys_of_the_config_map_are_the_files(tmp_path: Path, paths: list[str], rules: list[str]) -> None:
    policies = read(tmp_path, create_deployment(*paths))
    assert isinstance(policies, PolicySet), policies
    assert sorted(each.name for each in policies.rules) == rules


@pytest.mark.parametrize(
    ("deployment", "reason"),
    [
        pytest.param(None, "there is no Deployment of the gate in gates", id="no Deployment"),
        pytest.param(Unavailable("no"), "the gate's Deployment cannot be read: no", id="no right to read it"),
        pytest.param(create_deployment(), "arguments of the gate's Deployment have no --policies", id="no argument"),
        pytest.param(create_deployment("/image"), "mounts no ConfigMap at /image", id="a folder of the image"),
        pytest.param(
            create_deployment("/policies", volumes=[{"name": "mine", "emptyDir": {}}]),
            "mounts no ConfigMap at /policies",
            id="a volume of another type",
        ),
        pytest.param(
            create_deployment("/policies", mounts=[_MOUNTED | {"subPath": "a.yaml"}]),
            "mounts no ConfigMap at /policies",
            id="one key, mounted by itself",
        ),
        pytest.param(
            create_deployment(
                "/policies",
                volumes=[_VOLUME | {"configMap": {"name": "mine", "items": [{"key": "a.yaml", "path": "x.yaml"}]}}],
            ),
            "mounts no ConfigMap at /policies",
            id="some keys under other names",
        ),
        pytest.param(
            create_deployment("/policies", volumes=[{"name": "mine", "configMap": {"name": "deleted"}}]),
            "there is no ConfigMap gates/deleted",
            id="a ConfigMap that does not exist",
        ),
        pytest.param(
            create_deployment("/policies", volumes=[{"name": "mine", "configMap": {"name": "other"}}]),
            "the gate's policies are not usable: configmap/other/c.json:1:",
            id="policies with an error",
        ),
    ],
)
def test_policies_that_are_not_in_a_config_map_are_unknown(
    tmp_path: Path, deployment: GateDeployment | Unavailable | None, reason: str
) -> None:
    policies = read(tmp_path, deployment)
    assert isinstance(policies, Unavailable)
    assert reason in policies.reason


def test_an_empty_config_map_has_no_policies(tmp_path: Path) -> None:
    volumes = [{"name": "mine", "configMap": {"name": "empty"}}]
    policies = read(tmp_path, create_deployment("/policies", volumes=volumes))
    assert isinstance(policies, PolicySet)
    assert not policies.rules


def test_a_config_map_has_the_time_of_its_last_write_and_the_digest_of_a_folder(tmp_path: Path) -> None:
    """Compare with the files of a folder, which is what a gate reads."""
    fields = [{"time": "2026-11-22T02:00:00Z"}, {"time": "2026-11-22T02:50:00Z"}, {}]
    metadata = {"name": "mine", "labels": {"tallygate.dev/policies": "true"}, "managedFields": fields}
    texts = {"b.yaml": _RULE % "b", "a.yaml": _RULE % "a", "notes.txt": "no policy"}
    body = json.dumps({"metadata": metadata, "data": texts}).encode()
    folder = tmp_path / "policies"
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).write_text(text)
    with run_server(tmp_path, lambda _method, _path: Response(200, body)) as kubeconfig:
        api = DoctorClient(load_kubeconfig(kubeconfig))
        stored = read_stored_policies(api, "gates", create_deployment("/policies"))
    assert isinstance(stored, StoredPolicies)
    assert stored.config_maps == (MountedConfigMap("mine", changed_at=datetime(2026, 11, 22, 2, 50, tzinfo=UTC)),)
    assert stored.parsed.policies.digest == load_policies([folder]).policies.digest


def test_config_maps_with_the_label_are_listed(tmp_path: Path) -> None:
    paths = []

    def answer(_method: str, path: str) -> Response:
        paths.append(unquote(path))
        return Response(200, json.dumps({"items": [{"metadata": {"name": "mine"}}]}).encode())

    with run_server(tmp_path, answer) as kubeconfig:
        assert list_labelled_config_maps(DoctorClient(load_kubeconfig(kubeconfig)), "gates") == ("mine",)
    assert paths == ["/api/v1/namespaces/gates/configmaps?labelSelector=tallygate.dev/policies=true&limit=50"]
