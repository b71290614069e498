"""Templates of claims in a cluster: known while they are watched; the log reports once that they are unknown."""

import json
from pathlib import Path
from typing import Any

from tallygate.kube.informer import Informer
from tallygate.objects.devices import ResourceClaimTemplate
from tallygate.server.controllers.informers import InformerClaimTemplateLister
from tallygate.state.informers.named_stores import ObjectRecord
from tallygate.state.informers.namespaced_stores import ClaimTemplateStore
from tallygate.state.informers.pod_records import ChargeGroup
from tests.accounting.claims import exactly
from tests.kube.kubeconfig import load_config
from tests.kube.raw_server import HEAD, RawServer, chunk, full_response, raw_server
from tests.kube.test_informer import wait_until
from tests.server.app_harness import Log
from tests.state.informers.claim_templates import template

_LONG = 30.0  # seconds; a test that waits for them has failed


def create_lister(
    server: RawServer, folder: Path, log: Log, timeout: float = _LONG
) -> tuple[Informer[ResourceClaimTemplate, ObjectRecord[ChargeGroup]], InformerClaimTemplateLister]:
    """Return the watch of the templates of a scripted server, and a lister of them."""
    store = ClaimTemplateStore()
    watch = Informer(store.codec, load_config(server, folder), store.apply, store.__len__)
    return watch, InformerClaimTemplateLister(lambda _: watch.get_status(), log.logger, store, timeout)


def _list(*items: dict[str, Any]) -> bytes:
    return full_response(json.dumps({"metadata": {"resourceVersion": "7"}, "items": items}).encode())


def test_templates_are_unknown_before_the_watch_starts_and_awaited_afterwards(tmp_path: Path) -> None:
    with raw_server([]) as server:
        added = json.dumps({"type": "ADDED", "object": template("late", exactly(), revision=8)}).encode() + b"\n"
        server.responses = [[_list(template("early", exactly()))], [HEAD, chunk(added), server.stall]]
        log = Log("info")
        watch, templates = create_lister(server, tmp_path, log)
        assert templates.find_claim("team-a", "late") is None
        assert templates.find_claim("team-a", "early") is None
        watch.start()
        wait_until(lambda: watch.get_status().revision is not None)
        assert templates.find_claim("team-a", "late") is not None
        assert templates.find_claim("team-a", "early") is not None
        watch.stop()
    assert b"GET /apis/resource.k8s.io/v1/resourceclaimtemplates?" in server.requests[0]
    assert [(line["level"], line["event"]) for line in log.lines] == [
        ("warning", "claim-templates-not-evaluated"),
        ("info", "claim-templates-evaluated"),
    ]


def test_a_missing_template_is_awaited_for_the_timeout_only(tmp_path: Path) -> None:
    with raw_server([]) as server:
        server.responses = [[_list()], [HEAD, server.stall]]
        watch, templates = create_lister(server, tmp_path, Log("info"), 0.001)
        watch.start()
        wait_until(lambda: watch.get_status().revision is not None)
        assert [templates.find_claim("team-a", "never") for _ in range(9)] == [None] * 9
        watch.stop()


def test_a_missing_permission_to_list_templates_is_logged(tmp_path: Path) -> None:
    forbidden = json.dumps({"code": 403, "message": "resourceclaimtemplates is forbidden"}).encode()
    with raw_server([]) as server:
        server.responses = [[full_response(forbidden, "403 Forbidden")]] * 3
        log = Log("info")
        watch, templates = create_lister(server, tmp_path, log)
        watch.start()
        wait_until(lambda: bool(watch.get_status().restarts))
        assert templates.find_claim("team-a", "any") is None
        watch.stop()
    (line,) = log.lines
    assert "resourceclaimtemplates is forbidden" in line["message"]
