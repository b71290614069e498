"""The log lines on devices that no ResourceSlice publishes."""

from types import MappingProxyType

from tallygate.accounting.amounts import Amounts
from tallygate.server.telemetry.ledger_metrics import DeviceLog
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey, LedgerWrite, WriteResult
from tests.server.app_harness import Log

KEY = LedgerKey("gpus-0123456789", "team-a")
COUNTED = frozenset({"gpu-memory", "h100"})
HARD = Amounts({"gpu-memory": 8, "h100": 1})


def list_lines(before: Ledger, after: Ledger) -> list[dict[str, object]]:
    """Return the lines about one write."""
    log = Log()
    DeviceLog(log.logger).record_write(LedgerWrite(KEY, before, after, 1, 0.0, WriteResult.STORED))
    return log.lines


def list_found(before: Ledger, after: Ledger) -> list[tuple[object, object]]:
    """Return the event and the claims or names of each line."""
    return [(line["event"], line.get("claims") or line.get("names")) for line in list_lines(before, after)]


def ledger(*unpublished: str, resources: frozenset[str] = COUNTED) -> Ledger:
    """Return a counted ledger with these claims whose devices are not published."""
    claims = MappingProxyType({uid: Amounts({"h100": 1}) for uid in unpublished})
    return Ledger(HARD, used=Amounts({"h100": len(unpublished)}), resources=resources, unpublished=claims)


def test_claims_whose_devices_are_no_longer_published_are_logged_once() -> None:
    assert list_found(ledger("c1"), ledger("c1", "c2")) == [("devices-unpublished", ["c2"])]
    assert list_found(ledger("c1"), ledger("c1")) == []
    assert list_found(ledger("c1"), ledger()) == []


def test_names_that_cannot_be_counted_are_logged_once() -> None:
    uncounted = ledger(resources=frozenset({"h100"}))
    assert list_found(ledger(), uncounted) == [("devices-unknown", ["gpu-memory"])]
    assert list_found(uncounted, ledger(resources=frozenset({"h100"}))) == []


def test_a_line_has_the_cap_and_the_namespace() -> None:
    (line,) = list_lines(ledger(), ledger("c1"))
    assert line | {"cap": "gpus", "namespace": "team-a"} == line
