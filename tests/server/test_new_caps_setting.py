"""The setting `new_caps`: whether requests under a cap that was never active wait for its first count."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tallygate.admission.cap_index import CapIndex
from tallygate.gate.asked_policies import PROPAGATION_SECONDS, AskedPolicies
from tallygate.gate.cap_activation import CapActivation
from tallygate.policy.model import PolicySet
from tallygate.server.serve_with_cluster import _create_activation
from tallygate.server.settings.table import Settings
from tests.admission.case import parse_policies
from tests.gate.gate_fixture import CAP


@pytest.mark.parametrize(("value", "is_new"), [("admit", True), ("wait", False)])
def test_a_cap_that_was_never_active_is_new_unless_requests_shall_wait(*, value: str, is_new: bool) -> None:
    activation = _create(PolicySet(), value)
    assert activation.is_new("gpus-0123456789") is is_new


def test_the_time_of_a_new_cap_has_the_wait_until_every_api_server_asks_about_it() -> None:
    policies = parse_policies(CAP)
    (cap,) = CapIndex(policies, None).list_caps()
    asked = AskedPolicies(lambda: policies, lambda: 100.0)
    waiting = _create(policies, "admit", asked).estimate_time(cap.policy_key)
    asked.update(None)
    assert abs(waiting - _create(policies, "admit", asked).estimate_time(cap.policy_key) - PROPAGATION_SECONDS) < 5


def _create(policies: PolicySet, value: str, asked: AskedPolicies | None = None) -> CapActivation:
    reloader = SimpleNamespace(store=SimpleNamespace(get_policies=lambda: policies))
    settings = Settings(ledgers="memory", new_caps=value)
    known = asked or AskedPolicies(lambda: policies, lambda: 100.0)
    return _create_activation(cast("Any", None), settings, cast("Any", reloader), 40.0, known)
