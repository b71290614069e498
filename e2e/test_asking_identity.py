"""Who asks and what he may, by reviews of a real API server: tokens of ServiceAccounts, and a tenant with `edit`."""

import time
from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from typing import NamedTuple

import pytest

from e2e.api import Object, api
from e2e.namespaces import new_namespace
from e2e.ports import Cluster
from e2e.service_account import as_service_account
from e2e.tenant import Tenant, tenant
from e2e.waiting import until
from tallygate.kube.client import ClientConfig
from tallygate.kube.config import load_kubeconfig
from tallygate.server.asking.access import AccessReviewer, ResourceAccess
from tallygate.server.asking.ask_error import AskError
from tallygate.server.asking.identity import AcceptedAudiences, Asker, TokenAuthenticator

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_ADDRESS = "127.0.0.1"
_WITHIN = 240.0  # seconds, until the rights are known to the API server
_RULES = [
    {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
    {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
]
"""All rights that the reviews need."""


class Reviewers(NamedTuple):
    """The two reviewers of a ServiceAccount with the rights of `_RULES` alone, and its configuration."""

    tokens: TokenAuthenticator
    rights: AccessReviewer
    config: ClientConfig


@pytest.fixture(scope="module")
def someone(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenant]:
    """Run the module with one tenant."""
    with tenant(cluster, tmp_path_factory.mktemp("asking")) as made:
        yield made


@pytest.fixture(scope="module")
def reviewers(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reviewers]:
    """Return the reviewers, once their rights are known to the API server."""
    client = api(cluster.kubeconfig)
    with new_namespace(cluster, "asking-") as namespace:
        client.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "asking"}})
        kubeconfig = as_service_account(cluster, namespace, "asking", tmp_path_factory.mktemp("own") / "kubeconfig")
        config = load_kubeconfig(kubeconfig)
        made = Reviewers(TokenAuthenticator(config, time.monotonic), AccessReviewer(config, time.monotonic), config)
        _show_missing_rights(made)
        client.create(f"{_RBAC}/clusterroles", {"metadata": {"name": namespace}, "rules": _RULES})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": namespace}
        subject = {"kind": "ServiceAccount", "name": "asking", "namespace": namespace}
        binding = {"metadata": {"name": namespace}, "roleRef": role, "subjects": [subject]}
        client.create(f"{_RBAC}/clusterrolebindings", binding)
        try:
            until(
                "it may review tokens", lambda: _find_status(made.tokens, "wrong") == HTTPStatus.UNAUTHORIZED, _WITHIN
            )
            yield made
        finally:
            for kind in ("clusterrolebindings", "clusterroles"):
                client.ask("DELETE", f"{_RBAC}/{kind}/{namespace}")


def _show_missing_rights(reviewers: Reviewers) -> None:
    """Show that an account without the rights is no reason to turn an asker away for good."""
    with pytest.raises(AskError, match="no right to create tokenreviews") as caught:
        reviewers.tokens.authenticate("Bearer wrong", _ADDRESS)
    assert caught.value.status == HTTPStatus.SERVICE_UNAVAILABLE
    with pytest.raises(AskError, match="no right to create subjectaccessreviews"):
        reviewers.rights.may(Asker("ann"), ResourceAccess("list", "", "pods"))


def _find_status(tokens: TokenAuthenticator, token: str) -> HTTPStatus:
    """Return the status with which a token is refused; 200 for one that is accepted."""
    try:
        tokens.authenticate(f"Bearer {token}", _ADDRESS)
    except AskError as error:
        return error.status
    return HTTPStatus.OK


def _create_token(cluster: Cluster, someone: Tenant, *audiences: str) -> str:
    """Create a token of the tenant's ServiceAccount; without audiences, it is for the API server's own."""
    path = f"/api/v1/namespaces/{someone.namespace}/serviceaccounts/tenant/token"
    made: Object = api(cluster.kubeconfig).create(path, {"spec": {"audiences": audiences} if audiences else {}})
    token: str = made["status"]["token"]
    return token


@pytest.mark.parametrize("audiences", [(), ("tallygate",), ("vault", "tallygate")])
def test_a_token_for_the_api_server_or_for_the_gate_names_its_service_account(
    audiences: tuple[str, ...], cluster: Cluster, someone: Tenant, reviewers: Reviewers
) -> None:
    token = _create_token(cluster, someone, *audiences)
    asker = reviewers.tokens.authenticate(f"Bearer {token}", _ADDRESS)
    account = api(cluster.kubeconfig).get(f"/api/v1/namespaces/{someone.namespace}/serviceaccounts/tenant")
    assert asker.username == f"system:serviceaccount:{someone.namespace}:tenant"
    assert asker.uid == account["metadata"]["uid"]
    assert set(asker.groups) == {
        "system:serviceaccounts",
        f"system:serviceaccounts:{someone.namespace}",
        "system:authenticated",
    }
    assert "authentication.kubernetes.io/credential-id" in dict(asker.extra)


def test_a_token_for_another_audience_or_with_a_wrong_signature_or_of_no_user_is_refused(
    cluster: Cluster, someone: Tenant, reviewers: Reviewers
) -> None:
    own = _create_token(cluster, someone)
    head, body, signature = own.split(".")
    swapped = f"{head}.{body}.{signature[::-1]}"
    for token in (_create_token(cluster, someone, "vault"), swapped, f"{head}.{body}.", "wrong", "x" * 16_384):
        assert _find_status(reviewers.tokens, token) == HTTPStatus.UNAUTHORIZED
    assert _find_status(reviewers.tokens, own) == HTTPStatus.OK


def test_each_audience_passes_alone_where_the_other_is_not_accepted(
    cluster: Cluster, someone: Tenant, reviewers: Reviewers
) -> None:
    own, ours = _create_token(cluster, someone), _create_token(cluster, someone, "tallygate")
    for accepted, token, refused in (
        (AcceptedAudiences(("tallygate",), of_api_server=False), ours, own),
        (AcceptedAudiences((), of_api_server=True), own, ours),
    ):
        tokens = TokenAuthenticator(reviewers.config, time.monotonic, accepted)
        assert _find_status(tokens, token) == HTTPStatus.OK
        assert _find_status(tokens, refused) == HTTPStatus.UNAUTHORIZED


def test_the_token_of_a_deleted_service_account_is_refused(
    cluster: Cluster, someone: Tenant, reviewers: Reviewers
) -> None:
    accounts = f"/api/v1/namespaces/{someone.namespace}/serviceaccounts"
    client = api(cluster.kubeconfig)
    client.create(accounts, {"metadata": {"name": "leaver"}})
    token = client.create(f"{accounts}/leaver/token", {"spec": {}})["status"]["token"]
    assert _find_status(reviewers.tokens, token) == HTTPStatus.OK
    client.delete(f"{accounts}/leaver")
    until("it is refused", lambda: _find_status(reviewers.tokens, token) == HTTPStatus.UNAUTHORIZED, _WITHIN)


def test_a_tenant_may_ask_in_his_namespace_and_sees_neither_others_nor_nodes(
    cluster: Cluster, someone: Tenant, reviewers: Reviewers, namespace: str
) -> None:
    token = _create_token(cluster, someone, "tallygate")
    asker = reviewers.tokens.authenticate(f"Bearer {token}", _ADDRESS)
    may = partial(reviewers.rights.may, asker)
    assert may(ResourceAccess("create", "", "pods", someone.namespace))
    assert may(ResourceAccess("create", "batch", "jobs", someone.namespace))
    assert may(ResourceAccess("list", "", "pods", someone.namespace))
    for other in (namespace, "kube-system", "", "*", "no-such-namespace"):
        assert not may(ResourceAccess("create", "batch", "jobs", other))
        assert not may(ResourceAccess("list", "", "pods", other))
    for resource in ("nodes", "namespaces"):
        assert not may(ResourceAccess("list", "", resource))
    assert not may(ResourceAccess("create", "rbac.authorization.k8s.io", "roles", someone.namespace))
    assert not may(ResourceAccess("*", "*", "*", someone.namespace))


def test_an_administrator_may_list_nodes_and_namespaces(reviewers: Reviewers) -> None:
    administrator = Asker("root", groups=("system:masters",))
    for resource in ("nodes", "namespaces", "pods"):
        assert reviewers.rights.may(administrator, ResourceAccess("list", "", resource))
