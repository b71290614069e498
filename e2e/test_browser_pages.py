"""The pages of a server of asks in a real browser: as an admin and as a tenant, with script and without, at each width.

`--record` writes the pictures of docs/operate/page.md.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Route

from e2e.api import Object, api
from e2e.browser import Scheme, Visit, open_visit, run_chromium
from e2e.claims import publish_devices
from e2e.gates.asks import AskServer, create_ask_token, provide_asks_account
from e2e.namespaces import create_named_namespaces
from e2e.pods import DONGLE, make_deployment, pod
from e2e.policy_files import SHIPPED_FILES, put
from e2e.ports import Cluster, Site
from e2e.service_account import as_service_account
from e2e.tenant import Tenant
from e2e.waiting import until
from tallygate.cli.ask.gate_address import GateAddress
from tallygate.cli.ask.gate_client import GateClient
from tallygate.cli.ask.page_proxy import PageServer
from tallygate.kube.config import load_kubeconfig

OWN, OTHER = "vision", "speech"
"""The namespaces of the tenant and of others."""

_WITHIN: Final = 240.0  # seconds
_HIDDEN: Final = "transcriber"
"""What only the other namespace has in its names."""

_PAGES: Final = {
    "namespace": f"/page/namespace?namespace={OWN}",
    "ask": "/page/ask",
    "caps": "/page/caps",
    "nodes": "/page/nodes",
    "gate": "/page/gate",
}
_VISITED: Final = {**_PAGES, "namespaces": "/page/namespaces"}
_OF_ADMINS: Final = frozenset({"caps", "nodes", "gate"})
_WIDTHS: Final = (360, 1440)
_PICTURES: Final = Path(__file__).parents[1] / "docs" / "pictures"
_PICTURE_WIDTH: Final = 960
_POLICIES: Final = f"""\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: dongle-seats}}
spec:
  namespaces: {{include: [{OWN}, {OTHER}]}}
  shared: true
  hard: {{{DONGLE}: 8}}
  soft: {{{DONGLE}: 5}}
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: pods-of-a-team}}
spec:
  namespaces: {{include: [{OWN}, {OTHER}]}}
  hard: {{pods: 20}}
"""


class Setting(NamedTuple):
    """A server with its pages, a browser, and the tokens of its users by name: `admin` and `tenant`."""

    site: Site
    asks: AskServer
    browser: Browser
    tokens: dict[str, str]


@pytest.fixture(scope="module")
def setting(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    """Run a browser, and a server over two namespaces, one of which is the tenant's."""
    folder, cluster = tmp_path_factory.mktemp("pages"), site.cluster
    with ExitStack() as stack:
        browser = stack.enter_context(run_chromium())
        stack.enter_context(create_named_namespaces(cluster, (OWN, OTHER)))
        stack.enter_context(publish_devices(cluster, site.node, 4))
        Tenant(cluster, OWN, folder)
        stack.enter_context(_create_admin(cluster))
        kubeconfig = stack.enter_context(provide_asks_account(cluster, folder))
        asks = AskServer(folder / "asks", kubeconfig, Path("policies"), arguments=["--page=on"])
        policies = folder / "asks" / "policies"  # the page about the gate shows the path as the server has it
        policies.mkdir()
        put({**SHIPPED_FILES, "caps.yaml": _POLICIES}, policies)
        stack.enter_context(asks)
        tokens = {name: create_ask_token(cluster, OWN, name, "tallygate") for name in ("admin", "tenant")}
        setting = Setting(site, asks, browser, tokens)
        _start_workloads(setting)
        yield setting


@contextmanager
def _create_admin(cluster: Cluster) -> Iterator[None]:
    """Create a ServiceAccount that has all rights for as long as the block runs."""
    ours, path = api(cluster.kubeconfig), "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    ours.create(f"/api/v1/namespaces/{OWN}/serviceaccounts", {"metadata": {"name": "admin"}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": "admin", "namespace": OWN}
    ours.create(path, {"metadata": {"name": "pages-admin"}, "roleRef": role, "subjects": [subject]})
    try:
        yield
    finally:
        ours.delete(f"{path}/pages-admin")


def _start_workloads(setting: Setting) -> None:
    """Create what runs, and then what waits; return once the pages show it.

    Raises:
        ClusterError: if it takes too long.
    """
    _create(setting, OWN, "trainer", replicas=1, dongles=1)
    _create(setting, OTHER, _HIDDEN, replicas=2, dongles=1)
    with setting.asks.open_client(setting.tokens["tenant"]) as client:

        def shows(dongles: int, waiting: int) -> bool:
            answer = client.get("/v1/usage", params={"namespace": OWN})
            usage: Object = answer.json()
            return answer.status_code == httpx.codes.OK and (
                {each["used"] for each in usage["items"] if each["resource"] == DONGLE} == {dongles}
                and sum(each["pods"] for each in usage["waiting"]) == waiting
            )

        until("the pods run", lambda: shows(3, 0), _WITHIN)
        _create(setting, OWN, "evaluation", replicas=1, dongles=3)
        until("a pod waits", lambda: shows(6, 1), _WITHIN)


def _create(setting: Setting, namespace: str, name: str, *, replicas: int, dongles: int) -> None:
    ours, deployment = (
        api(setting.site.cluster.kubeconfig),
        make_deployment(name, replicas, _make_spec(setting.site, dongles)),
    )
    ours.create(ours.collection(deployment, namespace), deployment)


def _make_spec(site: Site, dongles: int) -> Object:
    spec: Object = pod(site, "any", str(dongles))["spec"]
    return {key: value for key, value in spec.items() if key != "schedulerName"}


def _visit(setting: Setting, visit: Visit, who: str) -> None:
    """Sign in, and open each page as this user."""
    visit.sign_in(setting.tokens[who])
    for name, path in _VISITED.items():
        response = visit.open(path)
        is_refused = who == "tenant" and name in _OF_ADMINS
        assert response.status == (403 if is_refused else 200), path
        text = visit.page.content()
        if who == "tenant":
            assert _HIDDEN not in text
            assert OTHER not in text
            assert f">{setting.site.node}<" not in text
        elif name in {"caps", "nodes"}:
            assert _HIDDEN in text or OTHER in text
        assert visit.list_faults() == []


@pytest.mark.parametrize("width", _WIDTHS)
@pytest.mark.parametrize("has_script", [False, True], ids=["without script", "with script"])
@pytest.mark.parametrize("who", ["admin", "tenant"])
def test_each_page_opens_for_its_users_and_loads_nothing_of_another_host(
    setting: Setting, who: str, *, has_script: bool, width: int
) -> None:
    with open_visit(setting.browser, setting.asks.url, width=width, has_script=has_script) as visit:
        _visit(setting, visit, who)


@pytest.mark.parametrize("width", [320, 360, 1440, 2000])
def test_no_page_is_wider_than_its_window(setting: Setting, width: int) -> None:
    with open_visit(setting.browser, setting.asks.url, width=width) as visit:
        visit.open("/page/ask")
        assert visit.measure_overflow() <= 0
        visit.sign_in(setting.tokens["admin"])
        for path in _VISITED.values():
            visit.open(path)
            assert visit.measure_overflow() <= 0, path
        _ask(setting, visit, 9)
        assert visit.measure_overflow() <= 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("who", ["admin", "tenant"])
def test_axe_finds_nothing(setting: Setting, who: str, scheme: Scheme) -> None:
    with open_visit(setting.browser, setting.asks.url, scheme=scheme, width=360, bypasses_policy=True) as visit:
        found = {}
        visit.open("/page/ask")
        found["sign in"] = visit.list_findings()
        visit.sign_in(setting.tokens[who])
        for name, path in _VISITED.items():
            visit.open(path)
            found[name] = visit.list_findings()
        for dongles in (1, 9):
            _ask(setting, visit, dongles)
            found[f"an answer about {dongles}"] = visit.list_findings()
    assert found == {name: [] for name in found}


def test_the_gate_is_inspected_with_the_rights_of_the_component(setting: Setting) -> None:
    """Expect no check that lacks a right of this server, and a page with the checks that is as usable as the others."""
    found: list[Object] = []

    def is_inspected() -> bool:
        found[:] = [client.get(_PAGES["gate"], params={"o": "json"}).json()["inspection"]]
        return found[0] is not None

    with setting.asks.open_client(setting.tokens["admin"]) as client:
        until("the gate is inspected", is_inspected, _WITHIN)
    (inspection,) = found
    results = {each["check"]: each["result"] for each in inspection["checks"]}
    assert {"PASS", "NOT RUN"} <= set(results.values())
    assert results["opaque-names"] == "NOT RUN"
    assert [each for each in inspection["checks"] if "403" in each["reason"] or "forbidden" in each["reason"]] == []
    own = inspection["certificates"][1]
    assert own["daysLeft"] >= 0
    with open_visit(setting.browser, setting.asks.url, width=360, bypasses_policy=True) as visit:
        visit.sign_in(setting.tokens["admin"])
        visit.open(_PAGES["gate"])
        assert visit.page.get_by_role("heading", name="Checks of the gate").is_visible()
        assert visit.measure_overflow() <= 0
        assert visit.list_findings() == []


def _ask(setting: Setting, visit: Visit, dongles: int) -> None:
    """Ask about a Deployment as text."""
    visit.open(f"/page/ask?namespace={OWN}")
    deployment = make_deployment("asked", 2, _make_spec(setting.site, dongles))
    visit.page.get_by_label("Objects, as YAML or JSON").fill(json.dumps(deployment, indent=2))
    visit.page.get_by_role("button", name="Ask", exact=True).click()
    visit.page.get_by_role("heading", name="The answer").wait_for()


@pytest.mark.parametrize("has_script", [False, True], ids=["without script", "with script"])
def test_a_pasted_manifest_and_a_file_get_the_answer_of_the_api(
    setting: Setting, tmp_path: Path, *, has_script: bool
) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps(make_deployment("from-file", 2, _make_spec(setting.site, 1))))
    with open_visit(setting.browser, setting.asks.url, has_script=has_script) as visit:
        visit.sign_in(setting.tokens["tenant"])
        _ask(setting, visit, 1)
        assert "Deployment vision/asked" in visit.page.inner_text("main")
        visit.page.get_by_label("Or a file").set_input_files(file)
        visit.page.get_by_role("button", name="Ask", exact=True).click()
        shown = visit.page.get_by_role("heading", name="Deployment vision/from-file")
        shown.wait_for()
        text = visit.page.inner_text("main")
        assert visit.list_faults() == []
    with setting.asks.open_client(setting.tokens["tenant"]) as client:
        answer = client.post("/v1/ask", params={"namespace": OWN}, content=file.read_bytes()).json()
    for prediction in answer["objects"][0]["predictions"]:
        assert prediction["verdict"] in text
        assert (prediction["message"] or "") in text


def test_markup_in_a_manifest_is_text(setting: Setting) -> None:
    bad = (
        "<img src=https://evil.example/x onerror=alert(1)><script>alert(2)</script></textarea><script>alert(3)</script>"
    )
    made = pod(setting.site, bad)
    made["metadata"]["annotations"] = {bad: bad}
    with open_visit(setting.browser, setting.asks.url) as visit:
        visit.sign_in(setting.tokens["tenant"])
        visit.open(f"/page/ask?namespace={OWN}")
        visit.page.get_by_label("Objects, as YAML or JSON").fill(json.dumps(made))
        visit.page.get_by_role("button", name="Ask", exact=True).click()
        visit.page.get_by_role("heading", name="The answer").wait_for()
        assert visit.page.locator("main img, main script").count() == 0
        assert visit.list_faults() == []


def test_the_keyboard_is_enough(setting: Setting) -> None:
    with open_visit(setting.browser, setting.asks.url) as visit:
        visit.open("/page/ask")
        page = visit.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "content"
        page.keyboard.press("Tab")
        page.keyboard.insert_text(setting.tokens["tenant"])
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Ask").wait_for()
        reached = set()
        for _ in range(20):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.name || document.activeElement.textContent.trim()"))
        assert {"My namespace", "The gate", "Sign out", "namespace", "manifest", "file", "Ask"} <= reached
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none"


def test_a_printed_page_has_the_content_alone(setting: Setting) -> None:
    with open_visit(setting.browser, setting.asks.url) as visit:
        visit.sign_in(setting.tokens["tenant"])
        visit.open(_PAGES["namespace"])
        visit.page.emulate_media(media="print")
        assert not visit.page.get_by_role("navigation").is_visible()
        assert visit.page.get_by_role("heading", name="What it may use").is_visible()


def test_a_form_and_a_link_of_another_site_do_nothing(setting: Setting) -> None:
    def serve(route: Route) -> None:
        address = setting.asks.url
        route.fulfill(
            content_type="text/html",
            body=f"<form method=post action={address}/page/sign-out><button>win</button></form>"
            f"<a href={address}/page/ask>see</a>",
        )

    with open_visit(setting.browser, setting.asks.url) as visit:
        visit.sign_in(setting.tokens["tenant"])
        page = visit.page
        page.context.route("https://evil.example/**", serve)
        page.goto("https://evil.example/")
        page.get_by_role("button", name="win").click()
        page.get_by_text("was not sent by a page of this server").wait_for()
        page.goto("https://evil.example/")
        page.get_by_role("link", name="see").click()
        page.get_by_role("heading", name="Sign in").wait_for()
        page.get_by_role("link", name="Open the page").click()
        page.get_by_label("Objects, as YAML or JSON").wait_for()


def test_who_signs_out_opens_no_page(setting: Setting) -> None:
    with open_visit(setting.browser, setting.asks.url) as visit:
        visit.sign_in(setting.tokens["tenant"])
        (cookie,) = visit.page.context.cookies()
        assert setting.tokens["tenant"] not in cookie["value"]
        assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"]) == (True, True, "Strict")
        visit.page.get_by_role("button", name="Sign out").click()
        visit.page.get_by_role("heading", name="Sign in").wait_for()
        assert visit.page.context.cookies() == []
        assert visit.open("/page/ask").status == 401
        assert visit.list_faults() == []


@pytest.mark.parametrize("has_token", [True, False], ids=["a token", "a client certificate"])
def test_the_command_page_gives_a_browser_a_cookie_for_a_code_that_counts_once(
    setting: Setting, tmp_path: Path, *, has_token: bool
) -> None:
    cluster, own, denied = setting.site.cluster, "Sign out", 403 if has_token else 200
    of_tenant = as_service_account(cluster, OWN, "tenant", tmp_path / "kubeconfig") if has_token else None
    config = load_kubeconfig(of_tenant or cluster.kubeconfig)
    assert has_token or config.certificate is not None
    address = GateAddress(setting.asks.url, setting.asks.authority)
    gate = GateClient(address, config, lambda: pytest.fail("no port is forwarded"))
    with PageServer(0, gate.forward) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        start = urlsplit(server.proxy.start_url)
        begin, origin = f"{start.path}?{start.query}", f"{start.scheme}://{start.netloc}"
        try:
            with open_visit(setting.browser, origin) as visit:
                visit.open(begin)
                visit.page.get_by_role("link", name="My namespace").wait_for()
                assert visit.page.get_by_role("button", name=own).count() == 0
                _ask(setting, visit, 1)
                assert visit.open("/page/nodes").status == denied
                (cookie,) = visit.page.context.cookies()
                assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
                assert visit.list_faults() == []
            with open_visit(setting.browser, origin) as other:
                assert other.open(begin).status == 403
                assert other.open("/page/ask").status == 403
        finally:
            server.shutdown()
            thread.join()


def test_pictures_of_the_pages(setting: Setting, pytestconfig: pytest.Config) -> None:
    is_recorded = pytestconfig.getoption("--record")
    with open_visit(setting.browser, setting.asks.url, width=_PICTURE_WIDTH) as visit:
        visit.sign_in(setting.tokens["admin"])
        for name, path in _PAGES.items():
            if name == "ask":
                _ask(setting, visit, 1)
            else:
                visit.open(path)
            file = _PICTURES / f"page-{name}.png"
            if is_recorded:
                visit.page.screenshot(path=file)
            assert file.exists()
