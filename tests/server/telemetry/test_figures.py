"""What /metrics says of ledgers, and how much of it there can be."""

from prometheus_client import CollectorRegistry

from tests.admission.case import policies
from tests.gate.scene import CAP, GPU
from tests.server.building import Log
from tests.server.test_controller_metrics import shown
from tests.state.attempts import Put
from tests.state.ledger.ledgers import empty, gpus
from webhook.accounting.amounts import Amounts
from webhook.admission.cap_index import CapIndex
from webhook.server.telemetry.ledger_metrics import MAX_FULLEST_EACH, MAX_FULLEST_TOTAL, CapMetrics
from webhook.server.telemetry.metrics import MAX_CAPS
from webhook.state.in_memory import MemoryLedgers
from webhook.state.ledger.ledger import Ledger
from webhook.state.ports import LedgerKey

CPU = CAP.replace("{nvidia.com/gpu: 4}", "{nvidia.com/gpu: 4, requests.cpu: 2500m}")


class Told:
    """Metrics of caps over ledgers in memory; `now` is in seconds."""

    def __init__(self, text: str = CAP, *, alone: bool = False) -> None:
        self.registry = CollectorRegistry()
        self.metrics = CapMetrics(self.registry, Log().logger, lambda: self.now)
        self.now = 0.0
        self.caps = CapIndex(policies(text))
        self.ledgers = MemoryLedgers(observer=self.metrics.memory_observer)
        self.metrics.register(lambda: self.caps, is_standalone=alone)

    def put(self, ledger: Ledger, namespace: str = "team-a", cap: int = 0) -> None:
        """Somebody writes a ledger."""
        self.ledgers.transact(LedgerKey(self.caps.list_caps()[cap].key, namespace), Put(lambda _: ledger), 0.0)

    def lines(self) -> set[str]:
        """What is told of ledgers."""
        return {line for line in shown(self.registry) if line.startswith("tallygate_cap_")}


def many(number: int) -> str:
    """So many caps."""
    return "---".join(CAP.replace("name: gpus", f"name: gpus-{each:04}") for each in range(number))


def test_ledgers_are_told_of_as_they_are_written() -> None:
    told = Told(CPU)
    hard = told.caps.list_caps()[0].hard
    told.put(Ledger(hard, used=Amounts({GPU: 3, "cpu": 1500})))
    told.put(Ledger(hard, used=Amounts({GPU: 4})), "team-b")
    told.now = 30.0
    assert told.lines() >= {
        'tallygate_cap_hard{cap="gpus",resource="nvidia.com/gpu"} 8.0',
        'tallygate_cap_hard{cap="gpus",resource="cpu"} 5.0',
        'tallygate_cap_used{cap="gpus",resource="nvidia.com/gpu"} 7.0',
        'tallygate_cap_used{cap="gpus",resource="cpu"} 1.5',
        'tallygate_cap_ledgers{cap="gpus",state="available"} 1.0',
        'tallygate_cap_ledgers{cap="gpus",state="full"} 1.0',
        'tallygate_cap_ledgers{cap="gpus",state="exceeded"} 0.0',
        'tallygate_cap_reservations{cap="gpus"} 0.0',
        'tallygate_cap_reservations_max{cap="gpus"} 0.0',
        "tallygate_cap_reservations_limit 3000.0",
        'tallygate_cap_sync_age_seconds{cap="gpus"} 30.0',
        'tallygate_cap_utilization_ratio{cap="gpus",cap_namespace="team-b",resource="nvidia.com/gpu"} 1.0',
        'tallygate_cap_utilization_ratio{cap="gpus",cap_namespace="team-a",resource="nvidia.com/gpu"} 0.75',
    }


def test_ledgers_of_caps_that_are_gone_are_not_told_of() -> None:
    told = Told()
    told.put(empty(used=gpus(3)))
    told.caps = CapIndex(policies(CAP.replace("team-*", "squad-*")))
    assert told.lines() == {"tallygate_cap_reservations_limit 3000.0"}
    assert told.metrics.observed_ledgers.list_all() == {}


def test_what_nobody_visits_has_no_age_and_what_nothing_settles_no_limit() -> None:
    told = Told(alone=True)
    told.put(empty())
    assert not any("age" in line for line in told.lines())
    assert "tallygate_cap_reservations_limit +Inf" in told.lines()


def test_five_thousand_namespaces_make_no_more_series_than_five() -> None:
    few, many_ = Told(), Told()
    for told, namespaces in ((few, 5), (many_, 5000)):
        for number in range(namespaces):
            told.put(empty(used=gpus(number % 4 + 1)), f"team-{number}")
    assert len(many_.lines()) == len(few.lines())
    assert sum("tallygate_cap_utilization_ratio{" in line for line in many_.lines()) == MAX_FULLEST_EACH


def test_very_many_caps_share_a_name() -> None:
    told = Told(many(MAX_CAPS + 2))
    for number in range(MAX_CAPS + 2):
        for namespace in range(MAX_FULLEST_EACH):
            told.put(empty(used=gpus(1)), f"team-{namespace}", number)
    lines = told.lines()
    held = {line for line in lines if line.startswith("tallygate_cap_used")}
    assert len(held) == MAX_CAPS + 1
    assert f'tallygate_cap_used{{cap="other",resource="{GPU}"}} 6.0' in held
    assert sum("tallygate_cap_utilization_ratio{" in line for line in lines) == MAX_FULLEST_TOTAL


def test_drift_of_a_cap_in_force_is_told_from_nothing_on() -> None:
    told = Told()
    told.lines()
    assert told.registry.get_sample_value("tallygate_ledger_drift_total", {"cap": "gpus"}) == 0.0
