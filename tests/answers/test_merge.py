"""Problems of several reporters with one cause are merged into one finding."""

import pytest

from tallygate.accounting.problem import Problem, Reason
from tallygate.answers.merge import (
    ACCEPTED_BY_KUBERNETES,
    API_SERVER,
    LocatedProblem,
    ReportedProblem,
    merge_problems,
)
from tallygate.documents.syntax_tree import START, FieldLocation, Position, Scalar
from tallygate.manifests.findings import FindingSeverity
from tests.calls import count_calls

GPU = "spec.containers[0].resources.limits[nvidia.com/gpu]"
REQUEST = "spec.containers[0].resources.requests[nvidia.com/gpu]"
NODE = Scalar(START, "x", "x", plain=True)


def create_problem(  # noqa: PLR0913 -- the fields that distinguish problems
    field: str,
    code: str,
    by: str,
    *,
    line: int = 1,
    exact: bool = True,
    level: FindingSeverity = FindingSeverity.ERROR,
    message: str = "m",
) -> LocatedProblem:
    """Create a problem of a field at a line."""
    rule = by.removeprefix("rule ") if by.startswith("rule ") else ""
    problem = Problem(field, code, Reason.INVALID, message, rule=rule)
    return LocatedProblem(ReportedProblem(problem, by, level), FieldLocation(Position(line, 1), NODE, exact))


def merge(*problems: LocatedProblem) -> list[tuple[str, str]]:
    """Return code and reporter of each merged problem."""
    return [(each.reported.problem.code, each.reported.reporter) for each in merge_problems(problems)]


def test_a_rule_and_the_api_server_are_merged() -> None:
    """Merge the problems if both deny for the same reason."""
    rule, from_server = create_problem(GPU, "TG101", "rule r"), create_problem(GPU, "TG006", API_SERVER)
    assert merge(rule, from_server) == [("TG101", "rule r and the API server")]
    assert merge(from_server, rule) == [("TG101", "rule r and the API server")]


@pytest.mark.parametrize(
    ("rule_code", "server_code"),
    [
        ("TG101", "TG006"),
        ("TG102", "TG001"),
        ("TG102", "TG002"),
        ("TG102", "TG003"),
        ("TG104", "TG012"),
        ("TG109", "TG004"),
        ("TG110", "TG007"),
        ("TG111", "TG005"),
    ],
)
def test_equivalent_codes_are_merged(rule_code: str, server_code: str) -> None:
    assert len(merge(create_problem(GPU, rule_code, "rule r"), create_problem(GPU, server_code, API_SERVER))) == 1


def test_different_problems_of_one_field_are_both_reported() -> None:
    """Keep a fraction and an invalid name apart."""
    both = merge(create_problem(GPU, "TG102", "rule r"), create_problem(GPU, "TG006", API_SERVER))
    assert both == [("TG102", "rule r"), ("TG006", API_SERVER)]


@pytest.mark.parametrize("level", [FindingSeverity.WARNING, FindingSeverity.NOTE])
def test_a_rule_that_only_warns_is_not_merged_with_the_api_server(level: FindingSeverity) -> None:
    """Keep the error of the API server."""
    both = merge(create_problem(GPU, "TG101", "rule r", level=level), create_problem(GPU, "TG006", API_SERVER))
    assert both == [("TG101", "rule r"), ("TG006", API_SERVER)]


def test_two_rules_are_both_reported() -> None:
    """Keep both, since each rule has its own reason."""
    rules = [create_problem(GPU, "TG101", "rule a"), create_problem(GPU, "TG101", "rule b")]
    assert merge(*rules) == [("TG101", "rule a"), ("TG101", "rule b")]


def test_problems_of_different_fields_are_not_merged() -> None:
    """Compare limits of two containers."""
    both = merge(
        create_problem(GPU, "TG101", "rule r"), create_problem(GPU.replace("[0]", "[1]"), "TG006", API_SERVER, line=9)
    )
    assert len(both) == 2


def test_an_inequality_is_matched_by_the_name_in_its_message() -> None:
    """Search the message for the resource, since the field path of Kubernetes ends before it."""
    rule = create_problem(REQUEST, "TG103", "rule r", line=5)
    from_server = create_problem(
        "spec.containers[0].resources.requests", "TG010", API_SERVER, message="request of 1 nvidia.com/gpu is"
    )
    other = create_problem(
        "spec.containers[0].resources.requests", "TG010", API_SERVER, message="request of 1 x.org/gpu is"
    )
    assert merge(rule, from_server, other) == [("TG103", "rule r and the API server"), ("TG010", API_SERVER)]


def test_a_problem_of_a_defaulted_field_is_dropped() -> None:
    """Drop it, since the API server copies a limit into the request and reports both."""
    limit, request = (
        create_problem(GPU, "TG006", API_SERVER),
        create_problem(REQUEST, "TG006", API_SERVER, line=7, exact=False),
    )
    assert merge(request, limit) == [("TG006", API_SERVER)]
    assert merge(request) == [("TG006", API_SERVER)]


def test_a_problem_of_another_container_is_not_dropped() -> None:
    """Keep the problems of each container."""
    limit = create_problem(GPU, "TG006", API_SERVER)
    other = create_problem(REQUEST.replace("[0]", "[1]"), "TG006", API_SERVER, line=9, exact=False)
    assert len(merge(limit, other)) == 2


def test_a_problem_of_defaulted_allocatable_is_dropped() -> None:
    """Report it once if only capacity is written."""
    capacity = create_problem("status.capacity.nvidia.com/gpu", "TG006", API_SERVER)
    allocatable = create_problem("status.allocatable.nvidia.com/gpu", "TG006", API_SERVER, line=3, exact=False)
    assert merge(capacity, allocatable) == [("TG006", API_SERVER)]


def test_a_warning_about_lenient_validation_is_dropped_beside_any_rule() -> None:
    """Report the warning if no rule has a problem with the field."""
    lenient = create_problem(GPU, "TG060", ACCEPTED_BY_KUBERNETES, level=FindingSeverity.WARNING)
    assert merge(create_problem(GPU, "TG101", "rule r"), lenient) == [("TG101", "rule r")]
    assert merge(create_problem(GPU, "TG105", "rule r", line=2), lenient) == [
        ("TG105", "rule r"),
        ("TG060", ACCEPTED_BY_KUBERNETES),
    ]


def test_equal_problems_are_reported_once() -> None:
    """Report an invalid name once, though it has several faults."""
    problem = create_problem(GPU, "TG001", API_SERVER)
    assert merge(problem, problem) == [("TG001", API_SERVER)]


def test_a_problem_whose_message_names_the_resource_with_spaces_is_merged() -> None:
    field = "spec.containers[0].resources.limits[a b]"
    rule = create_problem(field, "TG104", "rule r")
    around = field.removesuffix("[a b]")
    from_server = create_problem(around, "TG012", API_SERVER, line=2, message="a limit of a b must be set")
    assert merge(rule, from_server) == [("TG104", "rule r and the API server")]


@pytest.mark.parametrize("has_lines", [True, False], ids=["on lines of their own", "on one line"])
def test_the_work_of_merging_grows_with_the_number_of_problems(*, has_lines: bool) -> None:
    def count(number: int) -> int:
        located = [
            create_problem(
                f"{around}[a/{each}]",
                code,
                by,
                line=each if has_lines else 1,
                message=f"a limit of a/{each} must be set",
            )
            for each in range(number)
            for around, code, by in (
                ("spec.containers[0].resources.limits", "TG102", "rule r"),
                ("spec.containers[0].resources.limits", "TG001", API_SERVER),
            )
        ]
        return count_calls(lambda: list(merge_problems(located)))

    count(100)
    assert count(2_000) < 2.2 * count(1_000)
