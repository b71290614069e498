"""Quotas of a cluster: known while they are watched; the log reports once that they are unknown."""

import json
from pathlib import Path
from typing import Any

from tallygate.kube.informer import Informer
from tallygate.objects.core import ResourceQuota
from tallygate.server.controllers.informers import InformerQuotaLister
from tallygate.state.informers.named_stores import ObjectRecord
from tallygate.state.informers.namespaced_stores import QUOTA_CODEC, QuotaStore
from tests.kube.kubeconfig import load_config
from tests.kube.raw_server import HEAD, RawServer, chunk, full_response, raw_server
from tests.kube.test_informer import wait_until
from tests.server.app_harness import Log
from tests.state.informers.test_quota_store import item


def create_lister(
    server: RawServer, folder: Path, log: Log
) -> tuple[Informer[ResourceQuota, ObjectRecord[bytes]], InformerQuotaLister]:
    """Return the watch of the quotas of a scripted server, and a lister of them."""
    store = QuotaStore()
    watch = Informer(QUOTA_CODEC, load_config(server, folder), store.apply, store.__len__)
    return watch, InformerQuotaLister(lambda _: watch.get_status(), log.logger, store)


def _list(*items: dict[str, Any]) -> bytes:
    return full_response(json.dumps({"metadata": {"resourceVersion": "7"}, "items": items}).encode())


def test_quotas_are_known_after_the_watch_starts_and_unknown_before(tmp_path: Path) -> None:
    with raw_server([]) as server:
        changed = json.dumps({"type": "MODIFIED", "object": item("q", 8, 5)}).encode() + b"\n"
        server.responses = [[_list(item("q", 3))], [HEAD, chunk(changed), server.stall]]
        log = Log("info")
        watch, quotas = create_lister(server, tmp_path, log)
        assert quotas.list_quotas("a") is None
        assert quotas.list_quotas("a") is None
        watch.start()
        wait_until(lambda: watch.get_status().revision == 8)
        listed = quotas.list_quotas("a")
        assert listed is not None
        assert [quota.metadata and quota.metadata.name for quota in listed] == ["q"]
        assert quotas.list_quotas("elsewhere") == ()
        watch.stop()
    assert b"GET /api/v1/resourcequotas?" in server.requests[0]
    assert [(line["level"], line["event"]) for line in log.lines] == [
        ("warning", "quotas-not-evaluated"),
        ("info", "quotas-evaluated"),
    ]


def test_a_missing_permission_to_list_quotas_is_logged(tmp_path: Path) -> None:
    forbidden = json.dumps({"code": 403, "message": "resourcequotas is forbidden"}).encode()
    with raw_server([]) as server:
        server.responses = [[full_response(forbidden, "403 Forbidden")]] * 3
        log = Log("info")
        watch, quotas = create_lister(server, tmp_path, log)
        watch.start()
        wait_until(lambda: bool(watch.get_status().restarts))
        assert quotas.list_quotas("a") is None
        watch.stop()
    (line,) = log.lines
    assert "resourcequotas is forbidden" in line["message"]
