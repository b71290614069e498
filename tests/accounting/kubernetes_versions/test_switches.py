"""Each switch of the table: a case whose answer it alone changes, a reader in the product, and its feature gate."""

from pathlib import Path

import pytest

import tallygate
from tallygate.accounting.kubernetes_versions.switches import FEATURE_GATES, Switch
from tallygate.accounting.kubernetes_versions.version import KubernetesVersion
from tests.accounting.kubernetes_versions import admission_switches, allocator_switches, scheduler_switches
from tests.accounting.kubernetes_versions.switch_case import CASES, SwitchCase, VersionWithSwitch

MODULES = (admission_switches, allocator_switches, scheduler_switches)
"""The modules with the cases."""


def test_each_switch_has_a_case() -> None:
    assert [switch.name for switch in Switch if switch not in CASES] == []


@pytest.mark.parametrize(
    ("switch", "case"),
    [pytest.param(switch, case, id=case.answer.__name__) for switch in Switch for case in CASES.get(switch, ())],
)
def test_the_rule_alone_changes_the_answer_and_the_version_before_lacks_it(switch: Switch, case: SwitchCase) -> None:
    """Compare three answers: of the version before, of that version with this one rule, and of the version since."""
    since = switch.value.since
    assert case.before != case.after
    assert case.answer(KubernetesVersion(since - 1)) == case.before
    assert case.answer(VersionWithSwitch(since - 1, switch=switch)) == case.after
    assert case.answer(KubernetesVersion(since)) == case.after


def test_each_switch_is_asked_for_by_the_product() -> None:
    """Find the reader of every rule of the table: one without a reader would be listed and change nothing."""
    product = Path(tallygate.__file__).parent
    texts = [path.read_text() for path in product.rglob("*.py")]
    assert [each.name for each in Switch if not any(f".has(Switch.{each.name})" in text for text in texts)] == []


@pytest.mark.parametrize("switch", list(Switch), ids=lambda switch: switch.name)
def test_a_switch_that_a_feature_gate_turns_on_applies_since_the_gate_is_on(switch: Switch) -> None:
    if switch.value.gate:
        assert switch.value.since == next(gate.on_since for gate in FEATURE_GATES if gate.name == switch.value.gate)
