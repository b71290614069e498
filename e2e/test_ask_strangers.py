"""Strangers and tenants before a server of asks: no answer names what its asker may not list, and nothing stalls.

Another namespace has pods and a claim on the node that the tenant asks about, under a cap that both share. All bodies
and headers that the server sends are searched for the names of that namespace, its objects and the node.
"""

import base64
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import httpx
import pytest
import yaml

from e2e.api import Object, api
from e2e.claims import GPU, claim, exactly, publish_devices, requesting_pod
from e2e.gates.asks import AskServer, create_ask_token, provide_asks_account
from e2e.installation.rights import read_requests
from e2e.local.cluster import LocalCluster
from e2e.local.launches import audit_log
from e2e.namespaces import label, new_namespace
from e2e.pods import DONGLE, pod
from e2e.policy_files import SHIPPED_FILES, put
from e2e.ports import Site
from e2e.tenant import Tenant, tenant
from e2e.waiting import until
from tallygate.state.kubernetes.ask_address_store import ASK_NAME
from tallygate_certs.certificate_names import parse_names
from tallygate_certs.renewal import issue
from tests.server.client_certificates import issue_client_certificate

_HEADROOM: Final = "/v1/headroom"
_WITHIN: Final = 240.0  # seconds
_FLOOD_SECONDS: Final = 8.0
_FLOODING: Final = 8
_ANSWER_SECONDS: Final = 20.0
"""The longest that a tenant waits, on a machine that others use too; alone it takes some hundredths of a second."""

_SCRIPT: Final = "<script>alert(1)</script>"
_POLICIES: Final = f"""\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: shared}}
spec:
  namespaces: {{selector: {{matchLabels: {{strangers: "yes"}}}}}}
  shared: true
  hard: {{{DONGLE}: 3, {GPU}: 2}}
"""


@dataclass
class Setting:
    """A server of asks, a tenant, and another namespace; `seen` is everything that the server has sent to strangers.

    The folder `front_proxies` has the CA of front proxies.
    """

    site: Site
    asks: AskServer
    someone: Tenant
    other: str
    secrets: tuple[str, ...]
    front_proxies: Path
    seen: list[str] = field(default_factory=list)

    def watch(self, *secrets: str) -> "Setting":
        """Return the same setting without what was sent until now, whose answers are searched for these names."""
        return replace(self, secrets=secrets, seen=[])

    def create_token(self, *audiences: str) -> str:
        """Return a token of the tenant."""
        return create_ask_token(self.site.cluster, self.someone.namespace, "tenant", *audiences)

    def send(  # noqa: PLR0913 -- what a request has
        self,
        token: str,
        content: bytes | None,
        namespace: str = "",
        headers: dict[str, str] | None = None,
        *,
        pair: Path | None = None,
        path: str = "/v1/ask",
    ) -> httpx.Response:
        """Ask about a content, or without one for the usage, again while the server is busy; note each answer."""
        answers: list[httpx.Response] = []
        method, path = ("GET", "/v1/usage") if content is None else ("POST", path)
        query = {"namespace": namespace or self.someone.namespace}
        with self.asks.open_client(token, headers, pair) as client:

            def is_answered() -> bool:
                answers.append(client.request(method, path, params=query, content=content))
                self.seen.append(f"{answers[-1].headers} {answers[-1].text}")
                return answers[-1].status_code not in {429, 503}

            until("it is answered", is_answered, _WITHIN, self.asks.log)
        return answers[-1]

    def find_leaks(self) -> list[str]:
        """Return the names of others that the server has sent."""
        return sorted({secret for secret in self.secrets for text in self.seen if secret in text})


@pytest.fixture(scope="module")
def setting(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    """Run a server of asks before a cluster in which another namespace uses a shared cap and the node."""
    folder = tmp_path_factory.mktemp("strangers")
    policies = folder / "policies"
    policies.mkdir()
    put({**SHIPPED_FILES, "shared.yaml": _POLICIES}, policies)
    with ExitStack() as stack:
        other = stack.enter_context(new_namespace(site.cluster, "secretive-"))
        label(site.cluster, other, {"strangers": "yes"})
        stack.enter_context(publish_devices(site.cluster, site.node, 2))
        someone = stack.enter_context(tenant(site.cluster, folder, strangers="yes"))
        _use_node(site, other)
        kubeconfig = stack.enter_context(provide_asks_account(site.cluster, folder))
        issue(folder / "front-proxies", parse_names(["localhost"]), datetime.now(UTC))
        arguments = (f"--proxy-ca-file={folder / 'front-proxies' / 'ca.crt'}", "--proxy-names=front")
        asks = stack.enter_context(AskServer(folder / "asks", kubeconfig, policies, arguments=arguments))
        secrets = (other, "hoarder-of-dongles", "hoarded-devices", "owner-of-devices", site.node)
        yield Setting(site, asks, someone, other, secrets, folder / "front-proxies")


def _use_node(site: Site, namespace: str) -> None:
    """Create pods of the namespace on the node, and a claim that its scheduler allocates."""
    client = api(site.cluster.kubeconfig)
    hoarder = pod(site, "hoarder-of-dongles", "2")
    hoarder["spec"]["nodeName"] = site.node
    owner = requesting_pod(site.image, "owner-of-devices", {})
    owner["spec"]["resourceClaims"] = [{"name": "g", "resourceClaimName": "hoarded-devices"}]
    owner["spec"]["containers"][0]["resources"] = {"claims": [{"name": "g"}]}
    for made in (hoarder, claim("hoarded-devices", exactly(2)), owner):
        client.create(client.collection(made, namespace), made)
    path = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/hoarded-devices"
    until("the claim has its devices", lambda: "allocation" in client.get(path).get("status", {}), _WITHIN)


def _encode(*objects: Object) -> bytes:
    return b"\n---\n".join(json.dumps(each).encode() for each in objects)


def _draw_asked(setting: Setting) -> list[Object]:
    """Return objects whose answers are about the shared cap, the full node, its devices and its pods."""
    large = pod(setting.site, "large", "4")
    pinned = pod(setting.site, "pinned", "3")
    pinned["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "elsewhere"}
    urgent = pod(setting.site, "urgent", "3")
    urgent["spec"]["priorityClassName"] = "system-cluster-critical"
    apart = pod(setting.site, "apart", "1")
    term = {"topologyKey": "kubernetes.io/hostname", "namespaceSelector": {}, "labelSelector": {}}
    apart["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    claiming = requesting_pod(setting.site.image, "claiming", {})
    claiming["spec"]["resourceClaims"] = [{"name": "g", "resourceClaimName": "wanted"}]
    scheduled = [large, pinned, urgent, apart, claiming]
    for each in scheduled:
        each["spec"].pop("schedulerName", None)
    return [claim("wanted", exactly(1)), *scheduled]


@pytest.mark.parametrize("audiences", [("tallygate",), ()])
def test_a_tenant_gets_numbers_and_no_names_of_others(setting: Setting, audiences: tuple[str, ...]) -> None:
    token = setting.create_token(*audiences)
    answer = setting.send(token, _encode(*_draw_asked(setting)))
    assert answer.status_code == httpx.codes.OK, answer.text
    assert "cap shared" in answer.text
    verdicts = [each["verdict"] for item in answer.json()["objects"] for each in item["predictions"]]
    assert len(verdicts) == 5
    usage = setting.send(token, None)
    assert usage.status_code == httpx.codes.OK, usage.text
    copies = setting.send(token, _encode(*_draw_asked(setting)), path=_HEADROOM)
    assert copies.status_code == httpx.codes.OK, copies.text
    assert len(copies.json()["items"]) == 5
    assert setting.find_leaks() == []


def test_an_administrator_sees_the_names_which_the_server_knows(setting: Setting) -> None:
    """Show that the names are known to the server: the case before would pass without any."""
    cluster = setting.site.cluster
    client = api(cluster.kubeconfig)
    client.create(f"/api/v1/namespaces/{setting.other}/serviceaccounts", {"metadata": {"name": "root"}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": "root", "namespace": setting.other}
    bindings, name = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", f"root-{setting.other}"
    client.create(bindings, {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]})
    try:
        token = create_ask_token(cluster, setting.other, "root")
        own = setting.watch(*setting.secrets)
        asked = _encode(*_draw_asked(setting))

        def sees_all() -> bool:
            own.send(token, asked)
            return {setting.site.node, "hoarder-of-dongles"} <= set(own.find_leaks())

        until("his rights are known", sees_all, _WITHIN)
    finally:
        client.delete(f"{bindings}/{name}")


def test_without_a_token_of_this_cluster_for_this_server_there_is_401(setting: Setting) -> None:
    content = _encode(*_draw_asked(setting))
    own = setting.create_token("tallygate")
    head, body, signature = own.split(".")
    for token in ("", "wrong", setting.create_token("vault"), f"{head}.{body}.{signature[::-1]}", f"{head}.{body}."):
        for sent, path in ((content, "/v1/ask"), (content, _HEADROOM), (None, "")):
            answer = setting.send(token, sent, path=path)
            assert answer.status_code == httpx.codes.UNAUTHORIZED, answer.text
    assert setting.find_leaks() == []


def test_an_administrator_is_known_by_the_certificate_of_his_kubeconfig_and_a_stranger_by_none(
    setting: Setting, tmp_path: Path
) -> None:
    """Ask with the certificate of the kubeconfig: the API server publishes the CA that signed it."""
    user = yaml.safe_load(setting.site.cluster.kubeconfig.read_text())["users"][0]["user"]
    if "client-certificate-data" not in user:
        pytest.skip("the kubeconfig has no client certificate")
    pair = tmp_path / "pair.pem"
    pair.write_bytes(b"".join(base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key")))
    own, asked = setting.watch(*setting.secrets), _encode(pod(setting.site, "mine"))
    answer = own.send("", asked, setting.other, pair=pair)
    assert answer.status_code == httpx.codes.OK, answer.text
    issue(tmp_path / "strange", parse_names(["localhost"]), datetime.now(UTC))
    strange = tmp_path / "strange.pem"
    strange.write_bytes(b"".join((tmp_path / "strange" / name).read_bytes() for name in ("tls.crt", "tls.key")))
    with pytest.raises(httpx.TransportError):
        own.send(setting.create_token("tallygate"), asked, pair=strange)


def test_a_front_proxy_states_the_tenant_and_a_stranger_states_none(setting: Setting) -> None:
    """State the tenant's ServiceAccount by headers: the API server's authorizers answer for it as for its token."""
    user = f"system:serviceaccount:{setting.someone.namespace}:tenant"
    stated = {"X-Remote-User": user, "X-Remote-Group": "system:serviceaccounts"}
    front, other, token = (
        issue_client_certificate(setting.front_proxies, "front"),
        issue_client_certificate(setting.front_proxies, "other"),
        setting.create_token("tallygate"),
    )
    asked = _encode(*_draw_asked(setting))
    answer, own = setting.send("", asked, headers=stated, pair=front), setting.send(token, asked)
    assert answer.status_code == httpx.codes.OK, answer.text
    assert answer.json()["objects"] == own.json()["objects"]
    assert setting.send("", None, headers=stated, pair=front).status_code == httpx.codes.OK
    assert setting.find_leaks() == []
    watched = setting.watch()  # the refusal repeats the name that was asked for
    assert watched.send("", asked, setting.other, stated, pair=front).status_code == httpx.codes.FORBIDDEN
    masters = stated | {"X-Remote-User": "someone", "X-Remote-Group": "system:masters"}
    assert watched.send("", asked, setting.other, masters, pair=front).status_code == httpx.codes.OK
    for pair, headers in ((other, masters), (front, {"X-Remote-Group": "system:masters"}), (None, masters)):
        assert watched.send("", asked, setting.other, headers, pair=pair).status_code == httpx.codes.UNAUTHORIZED


def test_forged_headers_change_nothing(setting: Setting) -> None:
    forged = {
        "X-Remote-User": "system:admin",
        "X-Remote-Group": "system:masters",
        "X-Forwarded-For": "127.0.0.1",
        "X-Forwarded-User": "system:admin",
        "X-Forwarded-Client-Cert": "By=a;Subject=O=system:masters",
        "X-SSL-Client-S-DN": "/O=system:masters/CN=admin",
        "Ssl-Client-Verify": "SUCCESS",
        "Impersonate-User": "system:admin",
        "Impersonate-Group": "system:masters",
        "X-HTTP-Method-Override": "GET",
    }
    content, token = _encode(*_draw_asked(setting)), setting.create_token("tallygate")
    assert setting.send("", content, headers=forged).status_code == httpx.codes.UNAUTHORIZED
    plain, with_headers = (setting.send(token, content, headers=each) for each in ({}, forged))
    assert plain.json()["objects"] == with_headers.json()["objects"]
    own = setting.watch()  # the refusal repeats the name that was asked for
    assert own.send(token, content, setting.other, forged).status_code == httpx.codes.FORBIDDEN


def test_a_tenant_gets_nothing_of_another_namespace(setting: Setting) -> None:
    """Let the tenant name the other namespace: answers repeat that name alone, and no other."""
    token, own = setting.create_token("tallygate"), setting.watch(*setting.secrets[1:])
    inside = pod(setting.site, "mine")
    inside["metadata"]["namespace"] = setting.other
    for content, namespace in (
        (_encode(pod(setting.site, "mine")), setting.other),
        (_encode(inside), ""),
        (_encode(pod(setting.site, "mine"), inside), ""),
    ):
        for path in ("/v1/ask", _HEADROOM):
            assert own.send(token, content, namespace, path=path).status_code == httpx.codes.FORBIDDEN
    assert own.send(token, None, setting.other).status_code == httpx.codes.FORBIDDEN
    unknown = own.send(token, _encode(pod(setting.site, "mine")), "no-such-namespace")
    assert unknown.status_code == httpx.codes.FORBIDDEN  # as for one that exists
    assert own.find_leaks() == []


def test_scripts_in_names_and_annotations_stay_data(setting: Setting) -> None:
    scripted = pod(setting.site, _SCRIPT)
    scripted["metadata"] |= {"annotations": {_SCRIPT: _SCRIPT}, "labels": {"a": _SCRIPT}}
    scripted["spec"]["containers"][0]["resources"]["limits"][_SCRIPT] = _SCRIPT
    token, own = setting.create_token("tallygate"), setting.watch()
    for namespace in ("", _SCRIPT, f"{setting.other}%0d%0aSet-Cookie: a=b"):
        answer = own.send(token, _encode(scripted), namespace)
        assert answer.headers["Content-Type"] == "application/json"
        assert "set-cookie" not in answer.headers
        assert isinstance(answer.json(), dict)


def _create_aliases() -> bytes:
    """Return a document of 1 KiB that aliases expand to nine to the power of twelve values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 12)]
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"a" * (10 << 20), 413),
        (b"x: " + b"[" * 100_000, 400),
        (_create_aliases(), 400),
        (b"{}\n---\n" * 1500, 400),
        (b"\xff\xfe\x00", 400),
        (b"kind: Pod\napiVersion: v1\nmetadata: {name: &a [*a]}", 400),
    ],
    ids=["10 MiB", "depth", "aliases", "documents", "bytes", "cycle"],
)
def test_a_hostile_body_is_refused_at_once(setting: Setting, content: bytes, status: int) -> None:
    token, began_at = setting.create_token("tallygate"), time.monotonic()
    assert setting.send(token, content).status_code == status
    assert time.monotonic() - began_at < _ANSWER_SECONDS
    assert setting.send(token, _encode(pod(setting.site, "mine"))).status_code == httpx.codes.OK


def test_beside_many_asks_of_strangers_a_tenant_is_answered(setting: Setting) -> None:
    """Flood the server by clients without a token and with wrong ones: the tenant is answered in time, it lives."""
    statuses, over = Counter[int](), threading.Event()

    def flood(number: int) -> None:
        with setting.asks.open_client("" if number % 2 else f"wrong-{number}") as client:
            while not over.is_set():
                answer = client.post("/v1/ask", content=b"{}")
                statuses[answer.status_code] += 1
                setting.seen.append(answer.text)

    threads = [threading.Thread(target=flood, args=(number,)) for number in range(_FLOODING)]
    token, waits = setting.create_token("tallygate"), []
    content = _encode(*_draw_asked(setting))
    for thread in threads:
        thread.start()
    try:
        ends_at = time.monotonic() + _FLOOD_SECONDS
        while time.monotonic() < ends_at:
            began_at = time.monotonic()
            assert setting.send(token, content).status_code == httpx.codes.OK
            waits.append(time.monotonic() - began_at)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert set(statuses) <= {401, 429}, statuses
    assert statuses.total() > _FLOODING
    assert max(waits) < _ANSWER_SECONDS
    setting.asks.check()
    assert setting.find_leaks() == []


def test_the_log_has_no_token(setting: Setting) -> None:
    token = setting.create_token("tallygate")
    assert setting.send(token, b"[").status_code == httpx.codes.BAD_REQUEST
    log = setting.asks.log()
    assert token not in log
    assert token.rpartition(".")[2] not in log


def test_the_api_server_sees_reads_and_reviews_of_the_account_and_no_write(setting: Setting) -> None:
    if not isinstance(setting.site.cluster, LocalCluster):
        pytest.skip("the audit log of the API server is out of reach")
    setting.send(setting.create_token("tallygate"), _encode(pod(setting.site, "mine")))
    requests = list(read_requests(audit_log(setting.site.cluster.folder), account=ASK_NAME))
    rights = {each.right for each in requests}
    writes = {tuple(each) for each in rights if each.verb not in {"get", "list", "watch"}}
    assert writes == {
        ("create", "authentication.k8s.io", "tokenreviews"),
        ("create", "authorization.k8s.io", "subjectaccessreviews"),
    }
