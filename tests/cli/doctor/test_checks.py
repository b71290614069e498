"""Every check by itself: a case changes one fact, and only the affected checks report it."""

from typing import Any

import pytest

from tallygate.cli.doctor.api_types import LabelledNamespace
from tallygate.cli.doctor.check_result import CheckStatus
from tallygate.cli.doctor.command import CHECKS
from tests.cli.doctor import (
    certificate_cases,
    cluster_cases,
    ledger_cases,
    lockout_cases,
    registration_cases,
    replica_cases,
    stored_policy_cases,
    workload_cases,
)
from tests.cli.doctor.fact_changes import (
    FAIL,
    WARN,
    Cases,
    change_first_replica,
    create_cap_limits,
    create_other_configuration,
    exclude_permissions,
    quota,
)
from tests.cli.doctor.healthy_gate import ARGUMENTS, create_facts, deployment, find_failures, run_check, with_check

TABLES: tuple[Cases, ...] = (
    registration_cases.CASES,
    certificate_cases.CASES,
    lockout_cases.CASES,
    replica_cases.CASES,
    ledger_cases.CASES,
    stored_policy_cases.CASES,
    cluster_cases.CASES,
    workload_cases.CASES,
)
CASES = [pytest.param(*case, id=name) for create_table in TABLES for name, case in create_table.items()]


def test_every_check_passes_for_a_healthy_gate() -> None:
    assert find_failures(create_facts()) == {}


@pytest.mark.parametrize(("changes", "expected"), CASES)
def test_only_the_affected_checks_report_a_changed_fact(
    changes: dict[str, Any], expected: dict[str, CheckStatus]
) -> None:
    assert find_failures(create_facts(**changes)) == expected


def test_every_check_has_a_case_that_fails_or_warns() -> None:
    found = {
        name
        for create_table in TABLES
        for _, levels in create_table.values()
        for name, level in levels.items()
        if level in {FAIL, WARN}
    }
    assert found == {check.name for check in CHECKS}


@pytest.mark.parametrize(("changes", "expected"), CASES)
def test_every_failure_has_a_reason_of_one_line(changes: dict[str, Any], expected: dict[str, CheckStatus]) -> None:
    for name in expected:
        found = run_check(name, create_facts(**changes))
        assert found.reason
        assert "\n" not in found.reason
        assert all(command.startswith(("kubectl ", "tallygate ", "timedatectl ")) for command in found.fix_commands)


@pytest.mark.parametrize(
    "changes",
    [
        *workload_cases.VALID,
        *stored_policy_cases.VALID,
        {"quotas": (quota({"requests.nvidia.com/gpu": "4"}),), "cap_limits": create_cap_limits()},
        {
            "quotas": (quota({"requests.nvidia.com/gpu": "2"}, scopes=["BestEffort"]),),
            "cap_limits": create_cap_limits(),
        },
        {"quotas": (quota({"requests.nvidia.com/gpu": "9"}),), "cap_limits": create_cap_limits(whole=False)},
        {
            "quotas": (
                quota({"requests.nvidia.com/gpu": "9"}, labels={"tallygate.dev/compiled-from": "NamespaceCap"}),
            ),
            "cap_limits": create_cap_limits(),
        },
        {"quotas": (quota({"limits.cpu": "2000m", "pods": "5"}),), "cap_limits": create_cap_limits()},
        {"compiled_objects": cluster_cases.compile_caps("4"), "policies": cluster_cases.parse_caps()},
        {"other_configurations": (create_other_configuration("aa"), create_other_configuration("zz"))},
        {"device_classes": {"gpu": "nvidia.com/gpu", "nic": ""}, "policies": cluster_cases.parse_caps()},
        {"published_devices": 8, "policies": cluster_cases.BY_ALLOCATION},
        change_first_replica(readiness=with_check("node-resources", ready=True, leader=True)),
        {
            "policies": cluster_cases.ANNOTATED,
            "namespaces": cluster_cases.annotate("nvidia.com/gpu=8 until=2027-01-01"),
            "limit_records": {"uid-team-a": {"gpus": "nvidia.com/gpu=8 until=2027-01-01"}},
        },
        {"namespaces": (LabelledNamespace("default", {}), LabelledNamespace("kube-system", {}))},
        {
            "permissions": exclude_permissions("create secrets", "list cronjobs.batch"),
            "deployment": deployment(arguments=ARGUMENTS),
        },
    ],
)
def test_valid_variants_pass(changes: dict[str, Any]) -> None:
    assert find_failures(create_facts(**changes)) == {}
