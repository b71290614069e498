"""The overlay in which the gate follows its cluster: rights and arguments that fit what the server does."""

import json
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.generate import BASE
from tests.deploy.manifests import container
from webhook.admission.registration import NAMESPACE
from webhook.admission.workloads import SCALED
from webhook.cli.serve import serve
from webhook.server.settings.sources import load_settings
from webhook.state.kubernetes import naming

FOLLOWED = BASE.parent / "overlays" / "followed"
KUSTOMIZATION = yaml.safe_load((FOLLOWED / "kustomization.yaml").read_text())
RIGHTS = {
    (each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all((FOLLOWED / "rbac.yaml").read_text())
}


def operations(kind: str) -> list[dict[str, Any]]:
    """What the overlay changes of an object."""
    return [
        operation
        for patch in KUSTOMIZATION["patches"]
        if patch["target"]["kind"] == kind
        for operation in yaml.safe_load(patch["patch"])
    ]


def test_every_file_is_applied() -> None:
    listed = {Path(each).name for each in KUSTOMIZATION["resources"] if each.endswith(".yaml")}
    assert {path.name for path in FOLLOWED.iterdir()} == {*listed, "kustomization.yaml"}
    assert (FOLLOWED / KUSTOMIZATION["resources"][0]).resolve() == BASE


def test_the_arguments_are_settings_of_the_server() -> None:
    added = [each["value"] for each in operations("Deployment") if each["path"].endswith("/args/-")]
    command, *arguments = list[str](container()["args"]) + added
    flags = serve.make_context(command, arguments).params
    settings = load_settings(flags, {}, flags.pop("config"))
    assert (settings.cluster, settings.ledgers, settings.namespace) == ("in-cluster", "kubernetes", NAMESPACE)


def test_who_calls_the_api_server_has_a_token() -> None:
    for kind in ("ServiceAccount", "Deployment"):
        (token,) = (each for each in operations(kind) if each["path"].endswith("/automountServiceAccountToken"))
        assert token["value"] is True


def test_the_rights_are_given_to_the_gate_and_to_nobody_else() -> None:
    for binding in ("ClusterRoleBinding", "RoleBinding"):
        given = RIGHTS[binding, "tallygate"]
        assert given["roleRef"]["kind"] == binding.removesuffix("Binding")
        assert given["subjects"] == [{"kind": "ServiceAccount", "name": "tallygate", "namespace": NAMESPACE}]
        assert (given["roleRef"]["kind"], given["roleRef"]["name"]) in RIGHTS


def test_the_rights_are_to_look_at_the_cluster_and_to_keep_ledgers() -> None:
    looks, (keeps, leads) = RIGHTS["ClusterRole", "tallygate"]["rules"], RIGHTS["Role", "tallygate"]["rules"]
    assert {resource: set(each["verbs"]) for each in looks for resource in each["resources"]} == {
        **{resource: {"get", "list", "watch"} for resource in ("pods", "namespaces", "nodes")},
        "resourcequotas": {"list", "watch"},
        "deviceclasses": {"list", "watch"},
        **{plural: {"get"} for _, plural in SCALED},
    }
    assert {(group, each) for rule in looks for group in rule["apiGroups"] for each in rule["resources"]} >= set(SCALED)
    assert (keeps["apiGroups"], keeps["resources"]) == ([naming.GROUP], [naming.PLURAL])
    assert (leads["apiGroups"], leads["resources"]) == (["coordination.k8s.io"], ["leases"])
    assert "*" not in json.dumps([looks, keeps, leads])
