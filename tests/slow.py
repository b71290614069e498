"""The tests that `make test` leaves to `make test-slow`: what a small part of the tests spends most of the time on."""

from functools import cache
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parent

SLOW: Final = {
    "accounting/allocation/test_every_assignment.py": "drawn devices by a plain search",
    "accounting/scheduling/test_device_placement.py": "drawn devices, one copy after the other",
    "accounting/scheduling/test_inter_pod_reference.py": "drawn clusters by the plain scheduler",
    "accounting/scheduling/test_new_nodes.py": "drawn nodes by the plain scheduler",
    "accounting/scheduling/test_placement_interacting.py": "drawn placements, one copy after the other",
    "accounting/scheduling/test_preemption_reference.py": "drawn clusters by the plain scheduler",
    "accounting/scheduling/test_reference_scheduler.py": "drawn clusters by the plain scheduler",
    "accounting/scheduling/test_schedule.py": "all recorded answers of kube-scheduler",
    "accounting/scheduling/test_volumes_reference.py": "drawn clusters by the plain scheduler",
    "admission/test_match_conditions.py": "drawn updates",
    "agreement": "drawn cases in five worlds",
    "architecture/test_paths.py": "programs of their own, traced",
    "certs/test_rotation_order.py": "all orders of a rotation",
    "cli/doctor/test_doctor_command.py": "programs of their own",
    "cli/predict/test_predict_terminal.py": "terminals",
    "cli/scenarios/test_scenario_command.py": "programs of their own",
    "cli/test_command.py": "programs of their own",
    "cli/test_completion.py": "programs of their own, and shells",
    "cli/test_demo.py": "programs of their own",
    "cli/test_extras.py": "programs of their own, for each command",
    "cli/test_habits.py": "programs of their own, and kubectl",
    "cli/test_no_pods.py": "drawn workloads by two evaluations",
    "cli/test_progress.py": "programs of their own, in terminals",
    "conformance": "all recorded answers of API servers",
    "deploy/test_chart.py": "helm, for each overlay",
    "deploy/test_chart_package.py": "helm",
    "deploy/test_chart_values.py": "helm, for each value",
    "deploy/test_components.py": "kubectl, for each component",
    "deploy/test_generated.py": "all generated files",
    "deploy/test_relay.py": "helm and kubectl",
    "deploy/test_relay_container.py": "kubectl",
    "deploy/test_rules.py": "promtool",
    "gate/simulation": "schedules and mutants",
    "gate/test_large_pods.py": "pods of a megabyte",
    "github/test_action.py": "programs of their own, as a runner starts them",
    "server/relay": "relays, gates and their timeouts",
    "server/test_connection_guard.py": "hundreds of connections",
    "server/test_decision_progress.py": "a decision that hangs for seconds",
    "server/test_drain.py": "connections that drain",
    "server/test_https_server.py": "rotations under load",
    "server/test_large_bodies.py": "900 bodies at a time",
    "server/test_logged.py": "requests of many kinds to a real server",
    "server/test_pod_defaults.py": "gates that watch a cluster",
    "server/test_serving.py": "programs of their own",
    "server/test_slow_connections.py": "connections that send slowly",
    "server/test_unread_log.py": "a log without a reader",
    "state/informers/test_simulation.py": "drawn histories of watches",
    "state/ledger/test_drift.py": "drawn histories of ledgers",
    "state/ledger/test_gang_histories.py": "drawn histories of ledgers",
    "state/ledger/test_surge_histories.py": "drawn histories of ledgers",
    "state/model": "all states of small worlds",
}
"""By file or folder: what takes the time there. A file belongs here if it takes more than three seconds of CPU, and a
drawn comparison with a plain program if it takes more than one: tests of examples next to it show mistakes at once.
"""

QUICK_ONLY, SLOW_ONLY = "not slow", "slow"
"""The expressions of `make test` and `make test-slow`."""


_SLOW_PATHS: Final = {TESTS / name for name in SLOW}


@cache
def is_slow(path: Path) -> bool:
    """Return whether a file is in the table, or in a folder of it."""
    return not _SLOW_PATHS.isdisjoint((path, *path.parents))


def is_passed_over(path: Path, expression: str) -> bool:
    """Return whether a run need not import a file, since its expression selects none of its tests."""
    if path.is_dir() or not path.is_relative_to(TESTS) or expression not in {QUICK_ONLY, SLOW_ONLY}:
        return False
    return is_slow(path) is (expression == QUICK_ONLY)
