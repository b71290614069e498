"""The policies in the ConfigMaps of a gate: they are listed, and the steps have patches of their whole text."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.cli.doctor.scripted_server import Response, run_server
from tests.cli.migrate.test_migrate_command import OLD, run

_NEW = "example.com/bananas"
_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/"
_DEPLOYMENT = "/apis/apps/v1/namespaces/{}/deployments/tallygate"
_CAP = f"""\
# the fruit of a team
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: fruit}}
spec:
  hard:
    {OLD}: 8  # of the whole team
"""


def _create_answers(text: str = _CAP, namespace: str = "", *, immutable: bool = False) -> dict[str, Any]:
    """Return the objects of a gate with these policies, which its Service in a namespace reaches."""
    container = {
        "name": "tallygate",
        "args": ["serve", "--policies=/etc/policies"],
        "volumeMounts": [{"name": "p", "mountPath": "/etc/policies"}],
    }
    pod = {"containers": [container], "volumes": [{"name": "p", "configMap": {"name": "gate-policies"}}]}
    where = namespace or "tallygate-system"
    config_map = {"data": {"fruit.yaml": text, "README.md": OLD}, "immutable": immutable}
    found: dict[str, Any] = {
        _DEPLOYMENT.format(where): {"metadata": {"name": "tallygate"}, "spec": {"template": {"spec": pod}}},
        f"/api/v1/namespaces/{where}/configmaps/gate-policies": config_map,
    }
    if namespace:
        service = {"namespace": namespace, "name": "tallygate"}
        webhook = {"name": "validate.tallygate.dev", "clientConfig": {"service": service}}
        configuration = {"metadata": {"name": "tallygate"}, "webhooks": [webhook]}
        found[f"{_CONFIGURATIONS}validatingwebhookconfigurations/tallygate"] = configuration
    return found


def _migrate(folder: Path, answers: dict[str, Any], *arguments: str, statuses: dict[str, int] | None = None) -> Result:
    """Run the command on a cluster that has these objects, and no other."""

    def answer(_method: str, path: str) -> Response:
        if path in (statuses or {}):
            return Response((statuses or {})[path], b'{"message":"no"}')
        if path in answers:
            return Response(200, json.dumps(answers[path]).encode())
        if path == "/apis":
            return Response(200, b'{"kind":"APIGroupDiscoveryList"}')
        is_list = "?" in path or (path.count("/") <= 4 and not path.startswith(_CONFIGURATIONS))
        return Response(200, b'{"metadata":{"resourceVersion":"1"}}') if is_list else Response(404, b"{}")

    with run_server(folder, answer) as kubeconfig:
        return run("--kubeconfig", str(kubeconfig), "--domain", "example.com", *arguments)


@pytest.mark.parametrize("namespace", ["", "gates"])
def test_the_policies_of_the_gate_are_listed_with_their_place(tmp_path: Path, namespace: str) -> None:
    result = _migrate(tmp_path, _create_answers(namespace=namespace), "-o", "json")
    read = json.loads(result.stdout)
    assert (result.exit_code, read["unread"]) == (1, [])
    assert [(each["object"], each["location"], each["step"]) for each in read["items"]] == [
        ("NamespaceCap fruit", "configmap/gate-policies/fruit.yaml:7:5", 1)
    ]


def test_the_steps_replace_the_text_of_the_config_map_and_keep_comments(tmp_path: Path) -> None:
    steps = tmp_path / "steps"
    assert _migrate(tmp_path, _create_answers(), "--write", str(steps)).exit_code == 1
    both = _CAP + f"    {_NEW}: 8  # of the whole team\n"
    new = _CAP.replace(OLD, _NEW)
    for step, before, after in (("1-accept-both", _CAP, both), ("5-withdraw-old", both, new)):
        for kind, first, last in (("patches", before, after), ("back", after, before)):
            assert json.loads((steps / step / kind / "policies-0.json").read_text()) == [
                {"op": "test", "path": "/data/fruit.yaml", "value": first},
                {"op": "replace", "path": "/data/fruit.yaml", "value": last},
            ]
        command = (steps / step / "apply.sh").read_text().splitlines()[-1]
        assert command == (
            'kubectl "$@" patch ConfigMap gate-policies --namespace tallygate-system --type=json '
            "--patch-file=patches/policies-0.json"
        )
    assert {each.name for each in steps.iterdir()} == {"1-accept-both", "5-withdraw-old"}


def test_an_immutable_config_map_is_written_as_files(tmp_path: Path) -> None:
    steps = tmp_path / "steps"
    assert _migrate(tmp_path, _create_answers(immutable=True), "--write", str(steps)).exit_code == 1
    assert {str(each.relative_to(steps)) for each in steps.rglob("*.*")} == {
        f"{step}/files/configmap/gate-policies/fruit.yaml" for step in ("1-accept-both", "5-withdraw-old")
    }


def test_files_with_policies_replace_those_of_the_gate(tmp_path: Path) -> None:
    policy = tmp_path / "fruit.yaml"
    policy.write_text(_CAP)
    result = _migrate(tmp_path, _create_answers(), "-f", str(policy), "-o", "json")
    assert [each["location"] for each in json.loads(result.stdout)["items"]] == [f"{policy}:7:5"]


def test_a_cluster_without_a_gate_has_no_policies(tmp_path: Path) -> None:
    result = _migrate(tmp_path, {})
    assert (result.exit_code, result.stderr) == (0, "no use of an opaque name is left\n")


@pytest.mark.parametrize(
    ("path", "text", "reason"),
    [
        (f"{_CONFIGURATIONS}mutatingwebhookconfigurations/tallygate", _CAP, "cannot be read: 403 no"),
        (_DEPLOYMENT.format("tallygate-system"), _CAP, "the gate's Deployment cannot be read: 403 no"),
        (
            "/api/v1/namespaces/tallygate-system/configmaps/gate-policies",
            _CAP,
            "the ConfigMap tallygate-system/gate-policies cannot be read: 403 no",
        ),
        ("", "a: [", "configmap/gate-policies/fruit.yaml:2:1: this is not YAML"),
    ],
)
def test_policies_that_cannot_be_read_are_not_reported_as_fine(
    tmp_path: Path, path: str, text: str, reason: str
) -> None:
    result = _migrate(tmp_path, _create_answers(text), statuses={path: 403})
    assert result.exit_code == 2
    assert reason in result.stderr
