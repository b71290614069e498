"""The paths and the modules that each of them is known to enter."""

import pytest

from tests.paths.runs import RUNS, run_cold

# The report is `python -m tests.paths`. A recorder that sees nothing, or one thread of several only, fails here.
_KNOWN_MODULES = {
    "create": {"tallygate/gate/gate.py", "tallygate/gate/charging.py", "tallygate/state/ledger/reserve.py"},
    "predict": {"tallygate/cli/predict/command.py", "tallygate/accounting/scheduling/prediction.py"},
    "policy-edit": {"tallygate/policy/load.py", "tallygate/server/policy_reloader.py"},
    "check-snapshot": {"tallygate/cli/check.py", "tallygate/cluster/state_builder.py"},
    "usage-snapshot": {"tallygate/cli/usage/command.py", "tallygate/cluster/state_builder.py"},
    "audit-snapshot": {"tallygate/cli/audit/command.py", "tallygate/cluster/state_builder.py"},
    "predict-snapshot": {"tallygate/cli/predict/command.py", "tallygate/cluster/state_builder.py"},
    "ledger-write": {"tallygate/state/batched_ledgers.py", "tallygate/state/kubernetes/cap_ledger.py"},
}


@pytest.mark.parametrize("name", RUNS)
def test_a_path_enters_the_modules_that_it_is_known_for(name: str) -> None:
    modules = run_cold(name)
    assert len(set(modules)) == len(modules)
    assert set(modules) >= _KNOWN_MODULES[name]


def test_every_path_has_its_modules() -> None:
    assert set(_KNOWN_MODULES) == set(RUNS)
