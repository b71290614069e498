"""Static manifests of compiled policies, in the folder of an API server that runs beside the cluster's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.api import MERGE, Answer, Object, api
from e2e.command_output import run_tallygate
from e2e.local.build import kubernetes_version
from e2e.local.cluster import LocalCluster
from e2e.ports import Cluster, NotHereError

_ADMIN, _GROUP = "registrar@example.com", "platform"
_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
_OWN = f"{_CONFIGURATIONS}/tallygate"
_POLICIES = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec: {namespaces: {include: [default]}, hard: {example.com/gpu: 1}}
"""


@pytest.fixture(scope="module")
def server(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the kubeconfig of an API server with the static manifests.

    Its administrators have all rights, and are not among those who may change the registration.
    """
    if not isinstance(cluster, LocalCluster):
        raise NotHereError("no API server can be started beside that of the cluster")
    minor = int(kubernetes_version().split(".")[1])
    if minor < 36:
        raise NotHereError("this release has no static manifests")
    folder = tmp_path_factory.mktemp("static")
    policies = folder / "policies.yaml"
    policies.write_text(_POLICIES)
    options = ("--static", f"--may-change-registration={_ADMIN}", f"--may-change-registration=group:{_GROUP}")
    done = run_tallygate(cluster, "compile", str(policies), *options)
    assert done.returncode == 0, done.stderr
    manifests = folder / "manifests"
    manifests.mkdir()
    (manifests / "tallygate.yaml").write_text(done.stdout)
    admission = folder / "admission.yaml"
    admission.write_text(yaml.safe_dump(_configure(manifests)))
    gates = ("--feature-gates=ManifestBasedAdmissionControlConfig=true",) if minor == 36 else ()
    with cluster.run_second_server(arguments=(f"--admission-control-config-file={admission}", *gates)) as second:
        yield second.kubeconfig


def _configure(manifests: Path) -> Object:
    """Return the configuration of admission, as docs/operate/static-manifests.md has it."""
    configuration = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyConfiguration",
        "staticManifestsDir": str(manifests),
    }
    return {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": "ValidatingAdmissionPolicy", "configuration": configuration}],
    }


@pytest.fixture
def registration(cluster: Cluster) -> Iterator[None]:
    """Store a registration of the gate, and another one, as long as a case runs."""
    client = api(cluster.kubeconfig)
    for name in ("tallygate", "tallygate-other"):
        client.create(_CONFIGURATIONS, {"metadata": {"name": name, "labels": {"case": "static"}}})
    yield
    client.delete(_CONFIGURATIONS, labelSelector="case=static")


def _annotate(server: Path, path: str, user: str = "", group: str = "") -> Answer:
    """Change an annotation, as this user if one is named."""
    headers = {**({"Impersonate-User": user} if user else {}), **({"Impersonate-Group": group} if group else {})}
    patch = {"metadata": {"annotations": {"case": user or "admin"}}}
    return api(server).ask("PATCH", path, patch, kind=MERGE, headers=headers)


@pytest.mark.usefixtures("registration")
def test_only_named_users_change_or_delete_the_registration(cluster: Cluster, server: Path) -> None:
    client = api(server)
    assert _annotate(server, f"{_CONFIGURATIONS}/tallygate-other").is_done
    everything = client.ask("DELETE", _CONFIGURATIONS, query={"labelSelector": "case=static"})
    answers = [_annotate(server, _OWN), client.ask("DELETE", _OWN), everything]
    for answer in answers:
        assert answer.status == 403, answer.body
        assert f"only these may change or delete the registration of tallygate: {_ADMIN}, group {_GROUP}" in answer.body
    assert api(cluster.kubeconfig).find(_OWN) is not None
    for user, group in ((_ADMIN, "system:masters"), ("other@example.com", _GROUP)):
        answer = _annotate(server, _OWN, user, group)
        assert "only these may change" not in answer.body
    assert _annotate(server, _OWN, _ADMIN, "system:masters").is_done


def test_a_static_policy_is_not_in_the_api(server: Path) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    assert [each for each in api(server).items(path) if each["metadata"]["name"].endswith(".static.k8s.io")] == []
