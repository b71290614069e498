"""The address and credentials of the API server: kubeconfigs, pods, proxies, tokens."""

import datetime as dt
import json
from pathlib import Path
from typing import Self

import pytest
import urllib3
from kubernetes.config import incluster_config

from tallygate.kube import config
from tallygate.kube.api_errors import ApiError
from tallygate.kube.client import ApiClient
from tallygate.kube.config import ClientConfigError, load_in_cluster_config, load_kubeconfig
from tests.kube.kubeconfig import load_config, write_kubeconfig
from tests.kube.raw_server import full_response, raw_server


def test_a_named_context_is_used(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, "https://one.example:6443/")
    content = json.loads(path.read_text())
    content["clusters"].append({"name": "d", "cluster": {"server": "https://two.example/prefix"}})
    content["contexts"].append({"name": "there", "context": {"cluster": "d", "user": "u"}})
    path.write_text(json.dumps(content))
    assert load_kubeconfig(path).server == "https://one.example:6443"
    assert load_kubeconfig(path, "there").server == "https://two.example/prefix"


def test_the_file_of_the_environment_is_used_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path, "https://one.example")))
    assert load_kubeconfig().server == "https://one.example"


def test_the_file_in_the_home_directory_is_used_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".kube").mkdir()
    write_kubeconfig(tmp_path, "https://home.example").rename(tmp_path / ".kube" / "config")
    assert load_kubeconfig().server == "https://home.example"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        "a: [",
        "current-context: x",
        "\x00",
        '{"clusters": 1}',
        "- - -",
        "{current-context: x, contexts: [], clusters: [], users: []}",
        "{current-context: x, contexts: {}, clusters: 1, users: []}",
    ],
)
def test_an_error_names_the_file_that_is_not_a_kubeconfig(tmp_path: Path, content: str) -> None:
    path = tmp_path / "broken"
    path.write_text(content)
    with pytest.raises(ClientConfigError, match=r"broken does not say where .*--kubeconfig"):
        load_kubeconfig(path)


@pytest.mark.parametrize("server", ["https://[::1", "", "nonsense", "https://", "ftp://x"])
def test_a_server_without_an_address_is_an_error(tmp_path: Path, server: str) -> None:
    with pytest.raises(ClientConfigError, match="does not say where"):
        load_kubeconfig(write_kubeconfig(tmp_path, server))


def test_an_error_names_the_missing_file_or_context(tmp_path: Path) -> None:
    with pytest.raises(ClientConfigError, match=r"there is no kubeconfig: .*nowhere does not exist"):
        load_kubeconfig(tmp_path / "nowhere")
    with pytest.raises(ClientConfigError, match="has no context elsewhere; did you mean here"):
        load_kubeconfig(write_kubeconfig(tmp_path, "https://one.example"), "elsewhere")


def test_outside_a_pod_there_is_no_in_cluster_config(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ClientConfigError, match="this is not a pod"):
        load_in_cluster_config()


def test_in_a_pod_the_service_account_is_used_and_its_token_is_reloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, authority = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("one")
    authority.write_text("none")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(authority))
    connection = load_in_cluster_config()
    assert connection.server == "https://[fd00::1]:443"
    assert connection.create_headers({}) == {"Authorization": "bearer one"}
    token.write_text("two")
    assert connection.create_headers({}) == {"Authorization": "bearer one"}
    _expire(monkeypatch)
    assert connection.create_headers({}) == {"Authorization": "bearer two"}
    token.unlink()
    _expire(monkeypatch)
    with pytest.raises(ApiError, match="token cannot be renewed"):
        connection.create_headers({})


def _expire(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the clock to a time when every token has expired."""

    class Later(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Self:
            return super().now(tz) + dt.timedelta(hours=1)

    monkeypatch.setattr(dt, "datetime", Later)
    monkeypatch.setattr(config, "_TOKEN_CACHE_SECONDS", -1.0)


@pytest.mark.parametrize("token", ["a\nb", "ä", "a\x00"])
def test_an_error_does_not_show_a_token_that_is_invalid_in_a_header(tmp_path: Path, token: str) -> None:
    with raw_server() as server:
        config = load_kubeconfig(write_kubeconfig(tmp_path, f"http://127.0.0.1:{server.port}", token=token))
    with pytest.raises(ApiError) as caught:
        ApiClient(config).get("/api", {})
    assert str(caught.value) == "the token has characters that no header may have"
    assert not caught.value.may_be_applied


PROXY = "http://127.0.0.1:1"


@pytest.mark.parametrize("name", ["http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "HTTP_PROXY"])
def test_a_proxy_of_the_environment_is_not_used_for_localhost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, PROXY)
    with raw_server([full_response(b"{}")]) as server:
        response = ApiClient(load_config(server, tmp_path)).get("/api", {})
    assert (response.status, response.body) == (200, b"{}")


@pytest.mark.parametrize(
    ("server", "uses_proxy"),
    [
        ("https://one.example", True),
        ("https://localhost:6443", False),
        ("https://[::1]:6443", False),
        ("https://127.9.9.9", False),
    ],
)
def test_a_proxy_of_the_environment_is_used_for_other_hosts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    server: str,
    uses_proxy: bool,  # noqa: FBT001  # a row of the table
) -> None:
    monkeypatch.setenv("https_proxy", PROXY)
    pool = load_kubeconfig(write_kubeconfig(tmp_path, server)).pool
    assert isinstance(pool, urllib3.ProxyManager) is uses_proxy


def test_a_proxy_of_the_kubeconfig_is_always_used(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, "https://localhost:6443")
    path.write_text(path.read_text().replace('"server":', '"proxy-url": "http://127.0.0.1:1", "server":'))
    connection = load_kubeconfig(path)
    assert isinstance(connection.pool, urllib3.ProxyManager)
    with pytest.raises(ApiError, match="the proxy in front of the API server cannot be reached"):
        ApiClient(connection).get("/api", {})
