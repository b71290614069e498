"""The charges before someone asks: under which caps, how often, and what readiness says of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from unittest.mock import patch

import pytest

from tallygate.answers.answer_json import VisibleNames
from tallygate.cluster.cluster_state import ClusterState
from tallygate.errors import TallygateError
from tallygate.policy.model import PolicySet
from tallygate.server.asking import pod_charger
from tallygate.server.asking.answerer import Answerer, OpenedState
from tallygate.server.asking.ask_error import AskError
from tallygate.server.asking.pod_charger import PodCharger
from tallygate.state.informers.consumer_store import GroupCharges
from tests.answers.asked_clusters import NO_HOURS, NOW, build_state, read_policies
from tests.answers.test_answer_json import CLUSTER, POLICIES
from tests.server.app_harness import Log


class ChargerHarness:
    """A charger of a state that can be unknown, and the log of it."""

    def __init__(self) -> None:
        self.state: ClusterState = build_state(CLUSTER, with_templates=True)
        self.policies: PolicySet = read_policies(POLICIES)
        self.is_known = True
        self.log = Log()
        self.charger = PodCharger(self.open_state, lambda: self.policies, self.log.logger)

    @contextmanager
    def open_state(self, _: float) -> Iterator[OpenedState]:
        """Yield the state."""
        if not self.is_known:
            raise AskError(HTTPStatus.SERVICE_UNAVAILABLE, "the pods of the cluster are not known at present")
        yield OpenedState(self.state, NOW, NO_HOURS)

    def count_charges(self) -> int:
        """Run the task once; return how many charges it has computed."""
        with patch.object(GroupCharges, "_compute_amounts", autospec=True, return_value=None) as compute:
            self.charger.worker.run_once()
        return compute.call_count


def test_it_is_ready_once_pods_are_known_and_charged() -> None:
    harness = ChargerHarness()
    harness.is_known = False
    harness.charger.worker.run_once()
    assert not harness.charger.check().ready
    harness.is_known = True
    harness.charger.worker.run_once()
    assert harness.charger.check().ready
    assert not harness.log.lines


def test_pods_are_charged_once_under_each_set_of_caps() -> None:
    harness = ChargerHarness()
    first = harness.count_charges()
    assert (first > 0, harness.count_charges()) == (True, 0)
    harness.policies = read_policies(POLICIES)
    assert harness.count_charges() == first


def test_an_answer_afterwards_charges_no_stored_pod() -> None:
    harness = ChargerHarness()
    harness.charger.worker.run_once()
    answerer = Answerer(harness.open_state, lambda: harness.policies, lambda: 0.0)
    with patch.object(GroupCharges, "_compute_amounts", autospec=True) as compute:
        answerer.answer_usage("team-a", VisibleNames())
        answerer.answer_caps()
    assert compute.call_count == 0


def test_new_caps_in_between_are_charged_by_the_next_run() -> None:
    harness = ChargerHarness()
    others = iter([harness.policies, *[read_policies(POLICIES)] * 20])
    charger = PodCharger(harness.open_state, lambda: next(others), harness.log.logger)
    charger.worker.run_once()
    assert not charger.check().ready
    charger.worker.run_once()
    assert charger.check().ready


def test_a_failure_is_logged_and_does_not_keep_the_server_from_being_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise TallygateError("a quantity of a pod is invalid")

    harness = ChargerHarness()
    monkeypatch.setattr(pod_charger, "compute_usage_of_caps", fail)
    harness.charger.worker.run_once()
    harness.charger.worker.run_once()
    status = harness.charger.check()
    assert (status.ready, status.detail["failure"]) == (True, "a quantity of a pod is invalid")
    assert [line["event"] for line in harness.log.lines] == ["charges-failed"]
