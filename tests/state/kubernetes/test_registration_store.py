"""The installation of the gate, read from a server: an object is absent, or it only may not be read."""

from pathlib import Path

import pytest

from tallygate.kube.api_errors import ApiError
from tallygate.kube.config import load_kubeconfig
from tallygate.state.kubernetes.registration_store import Installation, KubernetesRegistrationStore
from tests.kube.kubeconfig import write_kubeconfig
from tests.server.small_cluster import run_small_cluster

_DEPLOYMENT = "/apis/apps/v1/namespaces/tallygate-system/deployments/tallygate"
_NAMESPACE = "/api/v1/namespaces/tallygate-system"


def _read(folder: Path, statuses: dict[str, int]) -> Installation:
    """Return the installation as read from a cluster that answers these paths with these statuses."""
    with run_small_cluster() as cluster:
        cluster.error_statuses |= statuses
        config = load_kubeconfig(write_kubeconfig(folder, cluster.server, token="t"))  # noqa: S106  # a made-up token
        return KubernetesRegistrationStore(config, "tallygate-system", "tallygate").read_installation(5.0)


def test_a_deployment_that_does_not_exist_is_absent(tmp_path: Path) -> None:
    assert _read(tmp_path, {_DEPLOYMENT: 404, _NAMESPACE: 404}) == Installation(is_deployment_absent=True)


def test_a_deployment_that_may_not_be_read_is_not_absent(tmp_path: Path) -> None:
    assert _read(tmp_path, {_DEPLOYMENT: 403, _NAMESPACE: 403}) == Installation()


def test_another_error_is_no_installation(tmp_path: Path) -> None:
    with pytest.raises(ApiError):
        _read(tmp_path, {_DEPLOYMENT: 500})
