"""Quotas beside the server: known while they are followed, and said to be unknown once when they are not."""

import io
import json
from pathlib import Path
from typing import Any

from tests.kube.kubeconfig import connected
from tests.kube.raw_server import HEAD, RawServer, chunk, raw_server, whole
from tests.kube.test_informer import until
from tests.state.informers.test_quota_store import item
from webhook.server.controllers.informers import InformerQuotaLister
from webhook.server.telemetry.json_log import LineWriter, create_logger


class Followed:
    """Quotas of a server that plays what it is told, and their log."""

    def __init__(self, server: RawServer, folder: Path) -> None:
        self._written = io.BytesIO()
        self._lines = LineWriter(self._written)
        self.quotas = InformerQuotaLister(connected(server, folder), create_logger("info", line_writer=self._lines))

    def log(self) -> list[dict[str, Any]]:
        """What was logged so far."""
        self._lines.flush()
        return [json.loads(line) for line in self._written.getvalue().splitlines()]


def _list(*items: dict[str, Any]) -> bytes:
    return whole(json.dumps({"metadata": {"resourceVersion": "7"}, "items": items}).encode())


def test_quotas_are_known_as_the_watch_tells_and_unknown_before(tmp_path: Path) -> None:
    with raw_server([]) as server:
        changed = json.dumps({"type": "MODIFIED", "object": item("q", 8, 5)}).encode() + b"\n"
        server.plays = [[_list(item("q", 3))], [HEAD, chunk(changed), server.stall]]
        followed = Followed(server, tmp_path)
        quotas = followed.quotas
        assert quotas.list_quotas("a") is None
        assert quotas.list_quotas("a") is None
        quotas.start()
        until(lambda: quotas.get_status().revision == 8)
        within = quotas.list_quotas("a")
        assert within is not None
        assert [quota.metadata and quota.metadata.name for quota in within] == ["q"]
        assert quotas.list_quotas("elsewhere") == ()
        quotas.stop()
    assert b"GET /api/v1/resourcequotas?" in server.requests[0]
    assert [(line["level"], line["event"]) for line in followed.log()] == [
        ("warning", "quotas-not-evaluated"),
        ("info", "quotas-evaluated"),
    ]


def test_who_may_not_list_quotas_says_so_in_the_log_and_nothing_else_happens(tmp_path: Path) -> None:
    refused = json.dumps({"code": 403, "message": "resourcequotas is forbidden"}).encode()
    with raw_server([]) as server:
        server.plays = [[whole(refused, "403 Forbidden")]] * 3
        followed = Followed(server, tmp_path)
        followed.quotas.start()
        until(lambda: bool(followed.quotas.get_status().restarts))
        assert followed.quotas.list_quotas("a") is None
        followed.quotas.stop()
    (line,) = followed.log()
    assert "resourcequotas is forbidden" in line["message"]
