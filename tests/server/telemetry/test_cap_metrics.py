"""The metrics of caps and their ledgers, and the number of their series."""

from functools import partial

from prometheus_client import CollectorRegistry

from tallygate.accounting.amounts import Amounts
from tallygate.admission.cap_index import CapIndex
from tallygate.admission.cap_sources import CapSources
from tallygate.admission.capacity_limits import Capacity
from tallygate.server.telemetry.ledger_metrics import MAX_FULLEST_EACH, MAX_FULLEST_TOTAL, CapMetrics
from tallygate.server.telemetry.metrics import MAX_CAPS
from tallygate.state.in_memory import MemoryLedgers
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey
from tests.admission.case import parse_policies
from tests.gate.gate_fixture import CAP, GPU
from tests.server.app_harness import Log
from tests.server.test_controller_metrics import list_metric_lines
from tests.state.ledger.ledger_builders import empty_ledger, gpus
from tests.state.transitions import Put

CPU = CAP.replace("{nvidia.com/gpu: 4}", "{nvidia.com/gpu: 4, requests.cpu: 2500m}")


class Harness:
    """Metrics of caps over ledgers in memory; `now` is in seconds."""

    def __init__(self, text: str = CAP, *, is_standalone: bool = False) -> None:
        self.registry = CollectorRegistry()
        self.metrics = CapMetrics(self.registry, Log().logger, lambda: self.now)
        self.now = 0.0
        self.policies = parse_policies(text)
        self.caps = CapIndex(self.policies, None)
        self.ledgers = MemoryLedgers(observer=self.metrics.memory_observer)
        self.metrics.register(lambda: self.caps, is_standalone=is_standalone)

    def put(self, ledger: Ledger, namespace: str = "team-a", cap: int = 0) -> None:
        """Write a ledger."""
        self.ledgers.transact(LedgerKey(self.caps.list_caps()[cap].key, namespace), Put(lambda _: ledger), 0.0)

    def list_lines(self) -> set[str]:
        """Return the lines of /metrics about caps."""
        return {line for line in list_metric_lines(self.registry) if line.startswith("tallygate_cap_")}


def test_the_hard_limit_follows_the_capacity_as_it_is_settled() -> None:
    harness = Harness(CPU.replace("2500m", "50%").replace("gpu: 4", "gpu: 25%"))
    capacities = {"gpus": {"cpu": Capacity(4500)}}
    harness.caps = CapIndex(harness.policies, None, CapSources(capacities=capacities))
    harness.put(Ledger(harness.caps.list_caps()[0].hard))
    assert 'tallygate_cap_hard{cap="gpus",resource="cpu"} 2.25' in harness.list_lines()


def create_caps(number: int) -> str:
    """Return the text of this number of caps."""
    return "---".join(CAP.replace("name: gpus", f"name: gpus-{each:04}") for each in range(number))


def test_ledgers_are_reported_as_they_are_written() -> None:
    harness = Harness(CPU)
    hard = harness.caps.list_caps()[0].hard
    harness.put(Ledger(hard, used=Amounts({GPU: 3, "cpu": 1500})))
    harness.put(Ledger(hard, used=Amounts({GPU: 4})), "team-b")
    harness.now = 30.0
    assert harness.list_lines() >= {
        'tallygate_cap_hard{cap="gpus",resource="nvidia.com/gpu"} 8.0',
        'tallygate_cap_hard{cap="gpus",resource="cpu"} 5.0',
        'tallygate_cap_used{cap="gpus",resource="nvidia.com/gpu"} 7.0',
        'tallygate_cap_used{cap="gpus",resource="cpu"} 1.5',
        'tallygate_cap_ledgers{cap="gpus",state="available"} 1.0',
        'tallygate_cap_ledgers{cap="gpus",state="full"} 1.0',
        'tallygate_cap_ledgers{cap="gpus",state="exceeded"} 0.0',
        'tallygate_cap_reservations_max{cap="gpus"} 0.0',
        "tallygate_cap_reservations_limit 3000.0",
        'tallygate_cap_sync_age_seconds{cap="gpus"} 30.0',
        'tallygate_cap_utilization_ratio{cap="gpus",cap_group="",cap_namespace="team-b",resource="nvidia.com/gpu"} 1.0',
        (
            'tallygate_cap_utilization_ratio{cap="gpus",cap_group="",cap_namespace="team-a",'
            'resource="nvidia.com/gpu"} 0.75'
        ),
    }


def _replace(ledger: Ledger, _: Ledger | None) -> Ledger:
    return ledger


def test_groups_of_a_cap_are_added_up_and_the_fullest_have_their_value_as_a_label() -> None:
    harness = Harness(CAP.replace("hard:", "groupBy: {label: team}\n  hard:"))
    (template,) = harness.caps.list_caps()
    for value, used in (("vision", 4), ("audio", 2)):
        key = LedgerKey(f"{template.key}={value}", "")
        harness.ledgers.transact(key, Put(partial(_replace, Ledger(template.hard, used=Amounts({GPU: used})))), 0.0)
    full = f"{4 / template.hard[GPU]}"
    assert harness.list_lines() >= {
        'tallygate_cap_used{cap="gpus",resource="nvidia.com/gpu"} 6.0',
        f'tallygate_cap_utilization_ratio{{cap="gpus",cap_group="vision",cap_namespace="",resource="{GPU}"}} {full}',
    }


def test_ledgers_of_deleted_caps_are_not_reported() -> None:
    harness = Harness()
    harness.put(empty_ledger(used=gpus(3)))
    harness.caps = CapIndex(parse_policies(CAP.replace("team-*", "squad-*")), None)
    assert harness.list_lines() == {"tallygate_cap_reservations_limit 3000.0"}
    assert harness.metrics.observed_ledgers.list_all() == {}


def test_a_standalone_gate_reports_no_age_and_no_limit_of_reservations() -> None:
    harness = Harness(is_standalone=True)
    harness.put(empty_ledger())
    assert not any("age" in line for line in harness.list_lines())
    assert "tallygate_cap_reservations_limit +Inf" in harness.list_lines()


def test_five_thousand_namespaces_make_no_more_series_than_five() -> None:
    few, many = Harness(), Harness()
    for harness, namespaces in ((few, 5), (many, 5000)):
        for number in range(namespaces):
            harness.put(empty_ledger(used=gpus(number % 4 + 1)), f"team-{number}")
    assert len(many.list_lines()) == len(few.list_lines())
    assert sum("tallygate_cap_utilization_ratio{" in line for line in many.list_lines()) == MAX_FULLEST_EACH


def test_very_many_caps_share_a_name() -> None:
    harness = Harness(create_caps(MAX_CAPS + 2))
    for number in range(MAX_CAPS + 2):
        for namespace in range(MAX_FULLEST_EACH):
            harness.put(empty_ledger(used=gpus(1)), f"team-{namespace}", number)
    lines = harness.list_lines()
    used_lines = {line for line in lines if line.startswith("tallygate_cap_used")}
    assert len(used_lines) == MAX_CAPS + 1
    assert f'tallygate_cap_used{{cap="other",resource="{GPU}"}} 6.0' in used_lines
    assert sum("tallygate_cap_utilization_ratio{" in line for line in lines) == MAX_FULLEST_TOTAL


def test_drift_of_an_active_cap_is_reported_from_zero() -> None:
    harness = Harness()
    harness.list_lines()
    assert harness.registry.get_sample_value("tallygate_ledger_drift_total", {"cap": "gpus"}) == 0.0
