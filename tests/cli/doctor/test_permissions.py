"""The permissions that doctor checks are those that deploy/ grants for the arguments of the gate."""

from typing import Any

import msgspec
import pytest
import yaml

from tallygate.cli.doctor.api_types import GateDeployment
from tallygate.cli.doctor.permissions import PERMISSIONS, Feature, Permission, list_permissions, parse_features
from tests.admission.case import parse_policies
from tests.cli.doctor.check_table import REPOSITORY

_COMPONENTS = REPOSITORY / "deploy" / "kustomize" / "components"
_GRANTING = {"ClusterRole", "Role"}


def _read_permissions(file: str) -> set[tuple[str, str, str, bool, str]]:
    """Return every permission of a file: verb, group, resource, whether it is namespaced, and the resource name."""
    documents: list[dict[str, Any]] = list(yaml.safe_load_all((REPOSITORY / file).read_text()))
    return {
        (verb, group, resource, document["kind"] == "Role", name)
        for document in documents
        if document["kind"] in _GRANTING
        for rule in document["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
    }


def _to_tuple(permission: Permission) -> tuple[str, str, str, bool, str]:
    return (permission.verb, permission.group, permission.resource, permission.is_namespaced, permission.name)


FILES = sorted({feature.manifest_path for feature in Feature})


@pytest.mark.parametrize("file", FILES)
def test_a_file_grants_exactly_the_permissions_of_its_features(file: str) -> None:
    assert {
        _to_tuple(permission) for permission in PERMISSIONS if permission.feature.manifest_path == file
    } == _read_permissions(file)


def test_no_other_component_grants_the_gate_anything() -> None:
    others = [path for path in _COMPONENTS.rglob("*.yaml") if str(path.relative_to(REPOSITORY)) not in FILES]
    found = {
        document["metadata"]["name"]
        for path in others
        for document in yaml.safe_load_all(path.read_text())
        if document and document["kind"] in {*_GRANTING, "ClusterRoleBinding", "RoleBinding"}
    }
    of_asks = {f"tallygate-ask{end}" for end in ("", "-authentication", "-gate", "-reader")}
    assert found == {"tallygate-view", *of_asks}, "no component binds it, or one binds it to others"
    subjects = {
        subject["name"]
        for path in others
        for document in yaml.safe_load_all(path.read_text())
        if document and document["kind"].endswith("RoleBinding")
        for subject in document["subjects"]
    }
    assert subjects == {"tallygate-ask", "system:authenticated"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), set()),
        (("--cluster=none", "--ledgers=memory"), set()),
        (("--cluster=in-cluster",), {Feature.CLUSTER, Feature.EVENTS}),
        (("--cluster=in-cluster", "--events=off"), {Feature.CLUSTER}),
        (("--cluster=kubeconfig", "--ledgers=kubernetes"), {Feature.CLUSTER, Feature.EVENTS, Feature.CLUSTER_LEDGERS}),
        (("--tls-secret=$(NAMESPACE)/tallygate-tls", "--threads", "4"), {Feature.CERTIFICATES}),
        (("--cluster=in-cluster", "--events=off", "--audit-interval=1h"), {Feature.CLUSTER, Feature.AUDIT}),
        (("--publish-nodes=on",), {Feature.PUBLICATION}),
        (("--publish-nodes=off",), set()),
        (("--backstop=on", "--publish-usage=off"), {Feature.BACKSTOP}),
        (("--backstop=off", "--publish-usage=on"), {Feature.USAGE}),
        (("--ask-url=https://tallygate-ask.tallygate-system.svc:443",), {Feature.ASK_ADDRESS}),
    ],
)
def test_arguments_of_the_gate_determine_the_features(arguments: tuple[str, ...], expected: set[Feature]) -> None:
    assert parse_features(arguments) == expected


def _parse_arguments(*containers: tuple[str, str]) -> tuple[str, ...]:
    """Return the arguments of the gate in a Deployment whose containers have these names and one argument each."""
    listed = [{"name": name, "args": [argument]} for name, argument in containers]
    made = {"metadata": {"name": "tallygate"}, "spec": {"template": {"spec": {"containers": listed}}}}
    return msgspec.convert(made, GateDeployment).arguments


def test_arguments_of_a_sidecar_do_not_count() -> None:
    gate, proxy = ("tallygate", "--cluster=in-cluster"), ("proxy", "--cluster=none")
    assert {_parse_arguments(gate, proxy), _parse_arguments(proxy, gate)} == {("--cluster=in-cluster",)}
    assert _parse_arguments(("renamed", "--cluster=in-cluster"), proxy) == ("--cluster=in-cluster",)
    assert _parse_arguments() == ()


_WHOLE = """
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: whole}
spec: {hard: {nvidia.com/gpu: 8}, admit: whole}
"""
_GANGS = (REPOSITORY / "policies" / "examples" / "gang-jobs.yaml").read_text()
_LIST, _GET = "list gangjobs.batch.example.com", "get gangjobs.batch.example.com"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(_GANGS, [_LIST], id="audits list a kind that policies define"),
        pytest.param(_GANGS + _WHOLE, [_LIST], id="pods of a kind that does not start together need no owner"),
        pytest.param(
            _GANGS.replace("  resource: gangjobs\n", "  resource: gangjobs\n  startsTogether: true\n") + _WHOLE,
            [_LIST, _GET],
            id="a cap that admits a kind as a whole reads the owners of pods",
        ),
    ],
)
def test_kinds_of_policies_need_further_permissions(text: str, expected: list[str]) -> None:
    needed = list_permissions(parse_policies(text))
    assert needed[: len(PERMISSIONS)] == PERMISSIONS
    assert list(map(str, needed[len(PERMISSIONS) :])) == expected
    assert list_permissions(None) == PERMISSIONS
