"""The rights that doctor asks about are those that deploy/ grants, by what the gate is started with."""

from typing import Any

import msgspec
import pytest
import yaml

from tests.cli.doctor.table import PAGE
from webhook.cli.doctor.api_types import GateDeployment
from webhook.cli.doctor.permissions import PERMISSIONS, Feature, Permission, parse_features

_COMPONENTS = PAGE.parents[1] / "deploy" / "kustomize" / "components"
_GRANTING = {"ClusterRole", "Role"}


def _granted(file: str) -> set[tuple[str, str, str, bool, str]]:
    """Every right of a file: verb, group, resource, whether in the gate's own namespace, and the one name."""
    documents: list[dict[str, Any]] = list(yaml.safe_load_all((PAGE.parents[1] / file).read_text()))
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


def _asked(right: Permission) -> tuple[str, str, str, bool, str]:
    return (right.verb, right.group, right.resource, right.is_namespaced, right.name)


FILES = sorted({feature.manifest_path for feature in Feature})


@pytest.mark.parametrize("file", FILES)
def test_what_a_file_grants_is_what_its_features_need(file: str) -> None:
    assert {_asked(right) for right in PERMISSIONS if right.feature.manifest_path == file} == _granted(file)


def test_no_other_component_grants_the_gate_anything() -> None:
    others = [path for path in _COMPONENTS.rglob("*.yaml") if str(path.relative_to(PAGE.parents[1])) not in FILES]
    found = [
        path
        for path in others
        for document in yaml.safe_load_all(path.read_text())
        if document and document["kind"] in _GRANTING
    ]
    assert found == []


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
    ],
)
def test_what_the_gate_is_started_with_says_what_it_needs(arguments: tuple[str, ...], expected: set[Feature]) -> None:
    assert parse_features(arguments) == expected


def _started(*containers: tuple[str, str]) -> tuple[str, ...]:
    """What the gate of a Deployment is started with whose containers have these names and each one argument."""
    listed = [{"name": name, "args": [argument]} for name, argument in containers]
    made = {"metadata": {"name": "tallygate"}, "spec": {"template": {"spec": {"containers": listed}}}}
    return msgspec.convert(made, GateDeployment).arguments


def test_what_is_beside_the_gate_in_its_pod_says_nothing_of_it() -> None:
    gate, proxy = ("tallygate", "--cluster=in-cluster"), ("proxy", "--cluster=none")
    assert {_started(gate, proxy), _started(proxy, gate)} == {("--cluster=in-cluster",)}
    assert _started(("renamed", "--cluster=in-cluster"), proxy) == ("--cluster=in-cluster",)
    assert _started() == ()
