"""A command has the rights that kubectl has with the same options, or the same kubeconfig."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.api import api
from e2e.command_output import run_tallygate
from e2e.namespaces import new_namespace
from e2e.ports import Cluster
from e2e.service_account import as_service_account
from e2e.waiting import until

_WITHIN = 240.0  # seconds, until the rights are known to the API server
_ROLES = "/apis/rbac.authorization.k8s.io/v1"
_STRANGER = 'User "stranger" cannot list resource'
_USES = {
    "--as": (["--as=stranger"], _STRANGER),
    "--as with a group that may do everything": (["--as=stranger", "--as-group=system:masters"], ""),
    "--as with one of two groups that may": (
        ["--as=stranger", "--as-group=team-a", "--as-group=system:masters"],
        "",
    ),
    "--as-uid": (["--as=stranger", "--as-group=system:masters", "--as-uid=7"], ""),
    "--as-user-extra": (["--as=stranger", "--as-group=system:masters", "--as-user-extra=scopes=a"], ""),
}
_KUBECONFIGS = {
    "as": ({"as": "stranger"}, _STRANGER),
    "as-groups": ({"as": "stranger", "as-groups": ["system:masters"]}, ""),
    "as-uid and as-user-extra": (
        {"as": "stranger", "as-groups": ["system:masters"], "as-uid": "7", "as-user-extra": {"scopes": ["a"]}},
        "",
    ),
}
_UNGRANTED = {
    "--as-uid": (["--as=stranger", "--as-uid=7"], 'cannot impersonate resource "uids"'),
    "--as-group": (["--as=stranger", "--as-group=team-a"], 'cannot impersonate resource "groups"'),
    "--as-user-extra": (
        ["--as=stranger", "--as-user-extra=scopes=a"],
        'cannot impersonate resource "userextras/scopes"',
    ),
}


@pytest.fixture(scope="module")
def impersonator(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the kubeconfig of an account that may impersonate users, and neither groups, UIDs nor extra fields."""
    client = api(cluster.kubeconfig)
    with new_namespace(cluster, "tester-") as namespace:
        client.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "tester"}})
        rule = {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}
        client.create(f"{_ROLES}/clusterroles", {"metadata": {"name": namespace}, "rules": [rule]})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": namespace}
        subject = {"kind": "ServiceAccount", "name": "tester", "namespace": namespace}
        binding = {"metadata": {"name": namespace}, "roleRef": role, "subjects": [subject]}
        client.create(f"{_ROLES}/clusterrolebindings", binding)
        folder = tmp_path_factory.mktemp("limited")
        kubeconfig = as_service_account(cluster, namespace, "tester", folder / "kubeconfig")
        until(
            "the account may impersonate users",
            lambda: _STRANGER in _ask(cluster, kubeconfig, ["--as=stranger"]),
            _WITHIN,
        )
        yield kubeconfig
        for kind in ("clusterroles", "clusterrolebindings"):
            client.ask("DELETE", f"{_ROLES}/{kind}/{namespace}")


def _ask(cluster: Cluster, kubeconfig: Path, options: list[str]) -> str:
    """Return what kubectl reports when it lists the namespaces of the cluster with these options; empty if it may."""
    return cluster.kubectl("get", "namespaces", f"--kubeconfig={kubeconfig}", *options).stderr


def _show_rights(cluster: Cluster, kubeconfig: Path, options: list[str], refusal: str) -> None:
    """Show that kubectl and two commands are refused with this text, or that none is if it is empty."""
    assert refusal in _ask(cluster, kubeconfig, options)
    for command in ("snapshot", "doctor"):
        done = run_tallygate(cluster, command, f"--kubeconfig={kubeconfig}", *options)
        if refusal:
            assert (done.returncode == 0, refusal in done.stderr + done.stdout) == (False, True), done
        else:
            assert "forbidden" not in done.stderr + done.stdout, done


@pytest.mark.parametrize("use", _USES)
def test_options_act_as_they_do_in_kubectl(use: str, cluster: Cluster) -> None:
    options, refusal = _USES[use]
    _show_rights(cluster, cluster.kubeconfig, options, refusal)


@pytest.mark.parametrize("use", _KUBECONFIGS)
def test_fields_of_a_kubeconfig_act_as_they_do_in_kubectl(use: str, cluster: Cluster, tmp_path: Path) -> None:
    fields, refusal = _KUBECONFIGS[use]
    config = yaml.safe_load(cluster.kubeconfig.read_text("utf-8"))
    for user in config["users"]:
        user["user"] |= fields
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config), "utf-8")
    _show_rights(cluster, kubeconfig, [], refusal)


@pytest.mark.parametrize("use", _UNGRANTED)
def test_each_part_of_an_identity_reaches_the_api_server(use: str, cluster: Cluster, impersonator: Path) -> None:
    """Show it by what the API server refuses: an account that may impersonate users alone."""
    options, refusal = _UNGRANTED[use]
    _show_rights(cluster, impersonator, options, refusal)
