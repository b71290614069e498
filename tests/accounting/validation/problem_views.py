"""Comparable parts of problems, in order."""

from collections.abc import Iterable

from tallygate.accounting.problem import Problem, format_cause_message

DOMAIN = (
    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
    "must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
INTEGER = "must be an integer"
NEGATIVE = "must be greater than or equal to 0"
EXTENDED = "doesn't follow extended resource name standard"
FOR_CONTAINERS = "must be a standard resource for containers"
FOR_QUOTA = "must be a standard resource for quota"
STANDARD = "must be a standard resource type or fully qualified"


def list_details(problems: Iterable[Problem]) -> list[tuple[str, str]]:
    """Return field and detail of each problem."""
    return [(each.field, each.detail) for each in problems]


def list_detail_texts(problems: Iterable[Problem]) -> list[str]:
    """Return Kubernetes' detail of each problem, without its field."""
    return [each.detail for each in problems]


def list_causes(problems: Iterable[Problem]) -> list[str]:
    """Return field and message of each problem as in Kubernetes' responses."""
    return [f"{each.field}: {format_cause_message(each)}" for each in problems]


def list_codes(problems: Iterable[Problem]) -> list[tuple[str, str]]:
    """Return field and code of each problem."""
    return [(each.field, each.code) for each in problems]
