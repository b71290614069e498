"""The pages My namespace, Caps, Nodes and The gate: who opens them, what they show, and which names they leave out."""

import json
import re
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from tallygate.cluster.refusal_events import Refusal, ReportedRefusals
from tallygate.cluster.rejected_pods import RejectedPods
from tallygate.errors import TallygateError
from tallygate.server.asking.gate_inspection import CertificateRecord, GateCheckRecord, Inspection
from tests.answers.asked_clusters import NOW
from tests.answers.test_answer_json import FIRST, MARK, NODE_MARK, SECOND, other
from tests.server.pages.browser import Browser, Outline
from tests.server.test_ask_app import RIGHTS

_ALL: dict[str, set[str]] = {f"list {resource}": {""} for resource in ("pods", "nodes", "namespaces")}
_PAGES = ("namespace?namespace=team-a", "caps", "nodes", "gate")


@pytest.fixture
def tenant(browser: Browser) -> Browser:
    """Return a browser of a tenant: Ann may list the pods of team-a."""
    browser.sign_in()
    return browser


@pytest.fixture
def admin(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> Browser:
    """Return a browser of an admin, who may list everything."""
    for right, namespaces in _ALL.items():
        monkeypatch.setitem(RIGHTS, right, namespaces)
    browser.sign_in()
    return browser


def read_json(browser: Browser, page: str) -> dict[str, Any]:
    """Return the JSON of a page."""
    response = browser.get(f"/page/{page}{'&' if '?' in page else '?'}o=json")
    assert (response.status_code, response.mimetype) == (200, "application/json"), response.text
    content: dict[str, Any] = json.loads(response.data)
    return content


def show(browser: Browser, page: str) -> Outline:
    """Return a page."""
    response = browser.get(f"/page/{page}")
    assert response.status_code == 200, response.text
    return Outline(response)


def list_texts(value: Any) -> list[str]:
    """Return the texts of plain data that are no keys."""
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in items for text in list_texts(item)]


@pytest.mark.parametrize("page", _PAGES)
def test_a_page_shows_the_texts_of_its_json(admin: Browser, page: str) -> None:
    content = read_json(admin, page)
    left_out = {"apiVersion", "kind", "unit", "prediction", "watches"}
    texts = [text for key, value in content.items() if key not in left_out for text in list_texts(value)]
    shown = " ".join(show(admin, page).text.split())
    plain = {"whole", "milli", "cap"}
    missing = {text for text in texts if text not in plain and " ".join(text.split()) not in shown}
    assert missing == set()


def test_the_usage_is_that_of_the_api(tenant: Browser) -> None:
    response = tenant.get("/page/namespace?namespace=team-a&o=json")
    assert response.data == tenant.harness.show_usage().data
    outline = show(tenant, "namespace?namespace=team-a")
    labels = [each["aria-label"] for each in outline.find("svg") if each.get("role") == "img"]
    assert labels == ["nvidia.com/gpu: 6 used (1 here, 5 by other namespaces), 10 free of 16"]


def test_what_was_refused_is_shown_with_the_request_that_would_pass(
    tenant: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = "cap gpus exceeded. Request 2 or less <b>"
    refusal = Refusal("Job", "train", 3, NOW, message)
    reported = ReportedRefusals(
        (RejectedPods("ReplicaSet", "team-a", "serve", 2, "no room"),), (refusal,), ("cronjobs are not read",)
    )
    monkeypatch.setattr(tenant.harness.parts.answerer, "_read_reported", lambda _: reported)
    text = " ".join(show(tenant, "namespace?namespace=team-a").text.split())
    assert "ReplicaSet serve 2 no room" in text
    assert "who may list the Events" not in text
    assert message not in text
    monkeypatch.setitem(RIGHTS, "list events", {"team-a"})
    tenant.review_clock.sleep(11)
    text = " ".join(show(tenant, "namespace?namespace=team-a").text.split())
    assert f"Job train 3 2026-01-01T10:00:00Z {message}" in text
    assert "Not known: cronjobs are not read." in text


def test_the_first_page_is_that_of_the_own_namespace(tenant: Browser) -> None:
    assert tenant.get("/").headers["Location"] == "/page/namespace"
    assert show(tenant, "namespace").find("input")[0]["name"] == "namespace"


def test_the_namespaces_of_the_user_are_offered(tenant: Browser) -> None:
    offered = read_json(tenant, "namespaces")
    mine = [(each["namespace"], each["right"], each["capped"]) for each in offered["namespaces"]]
    assert mine == [("team-a", "list", True), (other("team-b"), "create", True)]
    for page in ("namespace", "namespaces"):
        outline = show(tenant, page)
        links = [each["href"] for each in outline.find("a") if "?namespace=" in (each["href"] or "")]
        assert links == [f"/page/namespace?namespace={name}" for name, _, _ in mine]
        assert [each["value"] for each in outline.find("option")] == [name for name, _, _ in mine]
        assert outline.text.replace(other("team-b"), "").count(MARK) == 0
        assert [each["href"] for each in outline.find("a") if each.get("aria-current")] == ["/page/namespace"]


def test_who_has_no_right_is_offered_no_namespace(tenant: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    for right in ("list pods", "create pods"):
        monkeypatch.setitem(RIGHTS, right, set())
    tenant.review_clock.sleep(11)
    assert read_json(tenant, "namespaces")["namespaces"] == []
    text = show(tenant, "namespace").text
    assert not re.search(rf"team-|{MARK}", text)


def test_without_the_state_a_namespace_can_still_be_named(tenant: Browser) -> None:
    def fail() -> None:
        raise TallygateError(f"{MARK} is not as an API server stores it")

    tenant.harness.opened = fail
    outline = show(tenant, "namespace")
    assert outline.find("input")[0]["name"] == "namespace"
    assert MARK not in outline.text


def test_a_tenant_opens_his_own_pages_and_sees_no_name_of_others(tenant: Browser) -> None:
    codes = {}
    created, denied = (f"namespace?namespace={other(name)}" for name in ("team-b", "team-d"))
    for page in ("", *_PAGES, created, denied, "namespace?namespace=none"):
        for end in ("", "&o=json" if "?" in page else "?o=json"):
            response = tenant.get(f"/page/{page}{end}")
            codes[page] = response.status_code
            text = (
                response.text.replace(page.partition("=")[2] or MARK, "")
                if page in {created, denied}
                else response.text
            )
            assert MARK not in text, page
            assert NODE_MARK not in response.text, page
    assert codes == {
        "": 303,
        "namespace?namespace=team-a": 200,
        "caps": 403,
        "nodes": 403,
        "gate": 403,
        created: 200,  # with numbers alone
        denied: 403,
        "namespace?namespace=none": 403,
    }


def test_a_refusal_names_the_missing_rights(tenant: Browser) -> None:
    assert "ann may not list namespaces, list pods, list nodes" in Outline(tenant.get("/page/caps")).text
    assert "ann may not list nodes" in Outline(tenant.get("/page/nodes")).text
    assert tenant.get("/page/gate?o=json").get_json()["reason"] == "Forbidden"


@pytest.mark.parametrize("right", _ALL)
@pytest.mark.parametrize("page", ["caps", "gate"])
def test_a_page_about_all_needs_all_rights(
    admin: Browser, monkeypatch: pytest.MonkeyPatch, page: str, right: str
) -> None:
    monkeypatch.setitem(RIGHTS, right, set())
    admin.review_clock.sleep(11)
    assert admin.get(f"/page/{page}").status_code == 403


def test_nodes_without_the_right_to_list_pods_have_no_name_of_a_pod_or_claim(
    admin: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RIGHTS, "list pods", {"team-a"})
    admin.review_clock.sleep(11)
    outline, content = show(admin, "nodes"), read_json(admin, "nodes")
    assert MARK not in outline.text
    assert MARK not in json.dumps(content)
    assert {FIRST, SECOND} == {node["node"] for node in content["nodes"]}
    gpus = [amount for node in content["nodes"] for amount in node["amounts"] if amount["resource"] == "nvidia.com/gpu"]
    assert [(amount["used"], amount["pods"], amount["hiddenPods"]) for amount in gpus] == [(3, [], 2), (3, [], 1)]
    claims = [device["hiddenClaims"] for pool in content["pools"] for device in pool["devices"]]
    assert claims == [1, 0, 1, 1, 0]


def test_an_admin_sees_who_uses_what_and_what_is_overcommitted(admin: Browser) -> None:
    content = read_json(admin, "caps")
    (item,) = content["items"]
    consumers = [(each["name"], each["amount"]) for each in item["consumers"]]
    assert consumers == [(f"namespace {other('team-b')}", 5), ("namespace team-a", 1)]
    assert [(total["hard"], total["capacity"]) for total in content["totals"]] == [(16, 8)]
    assert content["idleClaims"] == [{"claim": f"{other('team-b')}/{other('idle')}", "devices": 1}]
    labels = {each.get("aria-label") for each in show(admin, "caps").find("svg")}
    assert "nvidia.com/gpu: limits of 16 over 8 on all nodes" in labels


def test_nodes_show_devices_taints_and_how_what_is_free_is_scattered(admin: Browser) -> None:
    content, text = read_json(admin, "nodes"), show(admin, "nodes").text
    assert "2 of 8 nvidia.com/gpu free on 2 nodes, at most 1 on one; 0 with nothing used" in text
    devices = {device["device"]: device for pool in content["pools"] for device in pool["devices"]}
    assert devices["d0"]["claims"] == [
        {"claim": f"{other('team-b')}/{other('busy')}", "pods": [f"{other('team-b')}/{other('one')}"]}
    ]
    assert devices["d1"]["taints"] == ["k:NoSchedule of DeviceTaintRule worn"]
    assert re.search(r"e2\s+✓ free", text)


def test_the_gate_shows_policies_with_their_place_and_stale_watches(admin: Browser) -> None:
    content, text = read_json(admin, "gate"), show(admin, "gate").text
    assert [(each["name"], each["file"], each["line"]) for each in content["policies"]] == [
        ("runs-now", "policies/caps.yaml", 7),
        ("shared-gpus", "policies/caps.yaml", 2),
    ]
    assert "nothing arrives for 60 s" in text
    assert re.search(r"gate-1\s+yes\s+2", text)
    assert re.search(r"gate-2\s+no\s", text)
    assert [(each["identity"], each["leader"]) for each in content["replicas"]] == [("gate-1", True), ("gate-2", False)]
    assert "kubectl get leases" not in text
    assert "watches" in text


INSPECTION = Inspection(
    NOW - timedelta(seconds=42),
    (
        CertificateRecord(
            "the gate, g.svc", ("g.svc",), "CN=ca", "2026-01-05T10:00:00Z", 4, trusted=True, problem=None
        ),
        CertificateRecord("serve-ask, a.svc", (), None, None, None, trusted=None, problem="no file <b>"),
        CertificateRecord(
            "another", ("n",), "CN=x", "2025-12-31T10:00:00Z", -1, trusted=False, problem="it has expired"
        ),
    ),
    (
        GateCheckRecord("registered", "Both are there", "PASS", "both are there", ()),
        GateCheckRecord("quotas", "No quota", "WARN", f"{MARK} limits the same", ("kubectl get <x>",)),
        GateCheckRecord("opaque-names", "No name", "NOT RUN", "needs a pass over all pods", ()),
    ),
)
_INSPECTED = (
    "list mutatingwebhookconfigurations",
    "list validatingwebhookconfigurations",
    "list resourcequotas",
)


@pytest.fixture
def inspector(admin: Browser, monkeypatch: pytest.MonkeyPatch) -> Browser:
    """Return a browser of an admin who may read what the checks of the gate are about, which were run."""
    for right in _INSPECTED:
        monkeypatch.setitem(RIGHTS, right, {""})
    admin.inspection = INSPECTION
    return admin


def test_certificates_and_checks_of_the_gate_have_their_age_and_what_was_not_run(inspector: Browser) -> None:
    content, text = read_json(inspector, "gate"), " ".join(show(inspector, "gate").text.split())
    assert content["inspection"]["age"] == 42.0
    assert [each["trusted"] for each in content["inspection"]["certificates"]] == [True, None, False]
    assert [each["result"] for each in content["inspection"]["checks"]] == ["PASS", "WARN", "NOT RUN"]
    assert "the gate, g.svc ✓ by the published CAs g.svc CN=ca 2026-01-05T10:00:00Z, 4 days left" in text
    assert "serve-ask, a.svc … not known: no file <b>" in text
    assert "another ✕ not trusted: it has expired n CN=x 2025-12-31T10:00:00Z, has ended" in text
    assert "42 s ago" in text
    assert f"! WARN {MARK} limits the samekubectl get <x>" in text
    assert "not run here needs a pass over all pods" in text
    assert "`tallygate doctor` makes them with your own rights" in text


@pytest.mark.parametrize("right", _INSPECTED)
def test_checks_of_the_gate_are_shown_to_those_who_may_read_what_they_quote(
    inspector: Browser, monkeypatch: pytest.MonkeyPatch, right: str
) -> None:
    monkeypatch.setitem(RIGHTS, right, set())
    content = read_json(inspector, "gate")
    assert content["inspection"] is None
    assert "who may list the configurations of webhooks" in "".join(content["notKnown"])
    assert MARK not in show(inspector, "gate").text


def test_a_page_before_the_first_inspection_says_that_it_is_made(inspector: Browser) -> None:
    inspector.inspection = None
    assert read_json(inspector, "gate")["inspection"] is None
    text = show(inspector, "gate").text
    assert "they are being read" in text
    assert "PASS" not in text


def test_an_error_of_a_stored_object_is_logged_and_not_shown(tenant: Browser) -> None:
    def fail() -> None:
        raise TallygateError(f"{MARK} is not as an API server stores it")

    tenant.harness.opened = fail
    response = tenant.get("/page/namespace?namespace=team-a")
    assert response.status_code == 503
    assert MARK not in response.text
    assert MARK in tenant.harness.log.text


@pytest.mark.parametrize("page", _PAGES)
def test_a_page_has_headings_in_order_and_names_for_what_is_drawn(admin: Browser, page: str) -> None:
    outline = show(admin, page)
    levels = [int(tag[1]) for tag, _ in outline.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    for each in outline.find("svg"):
        assert each.get("aria-label") or each.get("aria-hidden") == "true"
    regions = [attributes["aria-label"] for _, attributes in outline.elements if attributes.get("role") == "region"]
    assert all(label and label.startswith("Table: ") for label in regions), "a section has the name without it"
    assert len(regions) == len(set(regions))
    identities = [attributes["id"] for _, attributes in outline.elements if "id" in attributes]
    assert len(identities) == len(set(identities))
