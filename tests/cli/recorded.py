"""All recorded outputs of commands: which of them are whole screens, and which are compared by their facts."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.admission.case import list_recorded as list_verdicts
from tests.cli.audit import CASES as AUDIT_CASES
from tests.cli.check_case import list_expectations as list_check_expectations
from tests.cli.compile import CASES as COMPILE_CASES
from tests.cli.predict import CASES as PREDICT_CASES
from tests.cli.scenarios.scenario_case import list_expectations as list_scenario_expectations
from tests.cli.usage.command_case import CASES as USAGE_CASES
from tests.cli.usage.command_case import list_cases
from tests.wording import Recorded, Wordings, find_names_in

_WHOLE = frozenset({
    "data_formats_are_complete",
    "caps_are_charged_in_order_on_top_of_a_snapshot",
    "every_output_format_has_the_same_findings",
    "every_expectation_is_compared_with_the_result",
    "a_running_surge_has_its_time",
    "a_cluster_may_be_a_handwritten_file",
    "caps_give_quotas_for_the_namespaces_that_are_known",
})  # fmt: skip
"""The cases whose screens are compared to the letter."""
_TEXTS = frozenset({"expected", *(f"expected.{name}" for name in ("table", "verbose", "json", "yaml", "junit"))})
"""The outputs that are compared by their facts; those for other programs have one case."""


def check_recorded(folder: Path, expected: Path, actual: str) -> None:
    """Check an output against the recorded one."""
    recorded = _read(folder, expected)
    if folder.name in _WHOLE or expected.name not in _TEXTS:
        assert actual == recorded.text
        return
    found, wanted = _find_wordings().reduce(recorded, actual)
    assert found == wanted


def _read(folder: Path, expected: Path) -> Recorded:
    return Recorded(f"{folder.name} {expected.name}", expected.read_text("utf-8"), find_names_in(folder))


@cache
def _find_wordings() -> Wordings:
    return Wordings([*list_verdicts(), *_list_outputs()])


def _list_outputs() -> Iterator[Recorded]:
    outputs = [(case.folder, f"expected.{name}") for case, name in list_check_expectations()]
    outputs += [(case.folder, f"expected.{name}") for case, name in list_scenario_expectations()]
    for commands in (USAGE_CASES, PREDICT_CASES, AUDIT_CASES, COMPILE_CASES):
        outputs += [(command.folder, "expected") for command in list_cases(commands)]
    return (_read(folder, folder / name) for folder, name in outputs if name in _TEXTS)
