"""Every check by itself: one thing is different, and exactly that is found; what is well stays PASS."""

from typing import Any

import pytest

from tests.cli.doctor import (
    certificate_cases,
    cluster_cases,
    ledger_cases,
    locking_cases,
    registration_cases,
    replica_cases,
)
from tests.cli.doctor.changes import FAIL, WARN, Cases, capped, later, quota, without
from tests.cli.doctor.world import ARGUMENTS, deployment, said, well, wrong
from webhook.cli.doctor.api_types import LabelledNamespace
from webhook.cli.doctor.check_result import CheckStatus
from webhook.cli.doctor.command import CHECKS

TABLES: tuple[Cases, ...] = (
    registration_cases.CASES,
    certificate_cases.CASES,
    locking_cases.CASES,
    replica_cases.CASES,
    ledger_cases.CASES,
    cluster_cases.CASES,
)
CASES = [pytest.param(*case, id=name) for table in TABLES for name, case in table.items()]


def test_of_a_gate_that_is_well_nothing_is_wrong() -> None:
    assert wrong(well()) == {}


@pytest.mark.parametrize(("changes", "expected"), CASES)
def test_what_is_different_is_found_and_nothing_else(changes: dict[str, Any], expected: dict[str, CheckStatus]) -> None:
    assert wrong(well(**changes)) == expected


def test_every_check_can_be_worse_than_pass_for_a_reason_that_is_not_blindness() -> None:
    found = {
        name
        for table in TABLES
        for _, levels in table.values()
        for name, level in levels.items()
        if level in {FAIL, WARN}
    }
    assert found == {check.name for check in CHECKS}


@pytest.mark.parametrize(("changes", "expected"), CASES)
def test_what_is_wrong_says_why_in_one_line(changes: dict[str, Any], expected: dict[str, CheckStatus]) -> None:
    for name in expected:
        found = said(name, well(**changes))
        assert found.reason
        assert "\n" not in found.reason
        assert all(command.startswith(("kubectl ", "tallygate ", "timedatectl ")) for command in found.fix_commands)


@pytest.mark.parametrize(
    "changes",
    [
        {"quotas": (quota({"requests.nvidia.com/gpu": "4"}),), "cap_limits": capped()},
        {"quotas": (quota({"requests.nvidia.com/gpu": "2"}, scopes=["BestEffort"]),), "cap_limits": capped()},
        {"quotas": (quota({"requests.nvidia.com/gpu": "9"}),), "cap_limits": capped(whole=False)},
        {"quotas": (quota({"limits.cpu": "2000m", "pods": "5"}),), "cap_limits": capped()},
        {"other_configurations": (later("aa"), later("zz"))},
        {"namespaces": (LabelledNamespace("default", {}), LabelledNamespace("kube-system", {}))},
        {
            "permissions": without("create secrets", "list cronjobs.batch"),
            "deployment": deployment(arguments=ARGUMENTS),
        },
    ],
)
def test_what_is_no_fault_passes(changes: dict[str, Any]) -> None:
    assert wrong(well(**changes)) == {}
