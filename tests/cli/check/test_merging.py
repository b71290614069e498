"""One mistake is told once."""

import pytest

from webhook.accounting.problem import Problem, Reason
from webhook.cli.check.merge import (
    ACCEPTED_BY_KUBERNETES,
    API_SERVER,
    LocatedProblem,
    ReportedProblem,
    merge_problems,
)
from webhook.cli.output.findings import FindingSeverity
from webhook.documents.syntax_tree import START, FieldLocation, Position, Scalar

GPU = "spec.containers[0].resources.limits[nvidia.com/gpu]"
REQUEST = "spec.containers[0].resources.requests[nvidia.com/gpu]"
NODE = Scalar(START, "x", "x", plain=True)


def located(  # noqa: PLR0913 -- what tells two apart
    field: str,
    code: str,
    by: str,
    *,
    line: int = 1,
    exact: bool = True,
    level: FindingSeverity = FindingSeverity.ERROR,
    message: str = "m",
) -> LocatedProblem:
    """Something said of a field at a line."""
    rule = by.removeprefix("rule ") if by.startswith("rule ") else ""
    problem = Problem(field, code, Reason.INVALID, message, rule=rule)
    return LocatedProblem(ReportedProblem(problem, by, level), FieldLocation(Position(line, 1), NODE, exact))


def told(*everything: LocatedProblem) -> list[tuple[str, str]]:
    """Code and speaker of what is left."""
    return [(each.reported.problem.code, each.reported.reporter) for each in merge_problems(everything)]


def test_a_rule_speaks_for_the_api_server() -> None:
    """Where both refuse the same."""
    rule, server = located(GPU, "TG101", "rule r"), located(GPU, "TG006", API_SERVER)
    assert told(rule, server) == [("TG101", "rule r and the API server")]
    assert told(server, rule) == [("TG101", "rule r and the API server")]


@pytest.mark.parametrize(
    ("ours", "theirs"),
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
def test_which_codes_mean_the_same(ours: str, theirs: str) -> None:
    """Rules' own and Kubernetes'."""
    assert len(told(located(GPU, ours, "rule r"), located(GPU, theirs, API_SERVER))) == 1


def test_different_mistakes_at_one_place_are_both_told() -> None:
    """A fraction is not a bad name."""
    both = told(located(GPU, "TG102", "rule r"), located(GPU, "TG006", API_SERVER))
    assert both == [("TG102", "rule r"), ("TG006", API_SERVER)]


@pytest.mark.parametrize("level", [FindingSeverity.WARNING, FindingSeverity.NOTE])
def test_a_rule_that_does_not_deny_does_not_speak_for_the_api_server(level: FindingSeverity) -> None:
    """What is refused must stay an error."""
    both = told(located(GPU, "TG101", "rule r", level=level), located(GPU, "TG006", API_SERVER))
    assert both == [("TG101", "rule r"), ("TG006", API_SERVER)]


def test_two_rules_both_speak() -> None:
    """Each has its own reason."""
    rules = [located(GPU, "TG101", "rule a"), located(GPU, "TG101", "rule b")]
    assert told(*rules) == [("TG101", "rule a"), ("TG101", "rule b")]


def test_a_place_that_is_another_is_another_mistake() -> None:
    """Limits of two containers."""
    both = told(located(GPU, "TG101", "rule r"), located(GPU.replace("[0]", "[1]"), "TG006", API_SERVER, line=9))
    assert len(both) == 2


def test_an_equality_is_met_above_its_name() -> None:
    """Kubernetes' path ends before it; its message names it."""
    rule = located(REQUEST, "TG103", "rule r", line=5)
    server = located(
        "spec.containers[0].resources.requests", "TG010", API_SERVER, message="request of 1 nvidia.com/gpu is"
    )
    other = located("spec.containers[0].resources.requests", "TG010", API_SERVER, message="request of 1 x.org/gpu is")
    assert told(rule, server, other) == [("TG103", "rule r and the API server"), ("TG010", API_SERVER)]


def test_an_echo_gives_way_to_what_is_written() -> None:
    """The API server fills the request in from the limit, and complains of both."""
    limit, request = located(GPU, "TG006", API_SERVER), located(REQUEST, "TG006", API_SERVER, line=7, exact=False)
    assert told(request, limit) == [("TG006", API_SERVER)]
    assert told(request) == [("TG006", API_SERVER)]


def test_an_echo_of_another_container_is_none() -> None:
    """Each container has its own."""
    limit = located(GPU, "TG006", API_SERVER)
    other = located(REQUEST.replace("[0]", "[1]"), "TG006", API_SERVER, line=9, exact=False)
    assert len(told(limit, other)) == 2


def test_allocatable_is_an_echo_of_capacity() -> None:
    """Where only capacity is written."""
    capacity = located("status.capacity.nvidia.com/gpu", "TG006", API_SERVER)
    allocatable = located("status.allocatable.nvidia.com/gpu", "TG006", API_SERVER, line=3, exact=False)
    assert told(capacity, allocatable) == [("TG006", API_SERVER)]


def test_what_kubernetes_lets_through_gives_way_to_any_rule_at_its_place() -> None:
    """And is told where there is none."""
    lenient = located(GPU, "TG060", ACCEPTED_BY_KUBERNETES, level=FindingSeverity.WARNING)
    assert told(located(GPU, "TG101", "rule r"), lenient) == [("TG101", "rule r")]
    assert told(located(GPU, "TG105", "rule r", line=2), lenient) == [
        ("TG105", "rule r"),
        ("TG060", ACCEPTED_BY_KUBERNETES),
    ]


def test_the_same_said_twice_is_said_once() -> None:
    """A bad name has several faults, and one sentence."""
    fault = located(GPU, "TG001", API_SERVER)
    assert told(fault, fault) == [("TG001", API_SERVER)]
