"""What plans and selections remember stays small, whatever they are asked."""

from tests.admission.case import policies
from webhook.admission.selection import RuleIndex, Selection

WHOLE = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: whole}
spec: {resources: ["*"], checks: {wholeQuantity: true, perContainer: {max: 5000}}}
"""


def selection() -> Selection:
    """One rule about everything."""
    return RuleIndex(policies(WHOLE)).select("Pod", "team-a", None)


def test_a_name_keeps_its_plan_and_a_quantity_its_reading() -> None:
    rules = selection()
    plan = rules.plan("example.com/a")
    assert rules.plan("example.com/a") is plan
    assert plan.read(b"1500m", bounded=True) is plan.read(b"1500m", bounded=True)


def test_of_countless_names_only_the_latest_are_kept() -> None:
    rules = selection()
    for number in range(3000):
        rules.plan(f"example.com/a{number}")
    assert len(rules._plans) <= 256  # noqa: SLF001  # what is kept shows nowhere else
    assert rules.plan("example.com/a2999") is rules.plan("example.com/a2999")


def test_a_name_that_is_too_long_is_judged_and_not_kept() -> None:
    rules = selection()
    assert rules.plan("a" * 321) is not rules.plan("a" * 321)
    assert rules.plan("a" * 320) is rules.plan("a" * 320)


def test_of_countless_quantities_only_the_latest_are_kept() -> None:
    plan = selection().plan("example.com/a")
    for number in range(3000):
        plan.read(str(number).encode(), bounded=True)
    assert len(plan._found) <= 256  # noqa: SLF001  # what is kept shows nowhere else


def test_the_same_quantity_is_another_matter_where_no_bound_holds() -> None:
    plan = selection().plan("example.com/a")
    assert plan.read(b"6000", bounded=True).faults
    assert not plan.read(b"6000", bounded=False).faults
