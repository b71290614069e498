"""Lint of implied requests: those that no pod can get, and those for one resource that match the same pods."""

from collections.abc import Iterator, Sequence

from tallygate.accounting.name_rules import NameContext, find_name_problems
from tallygate.accounting.names import Family, classify_name
from tallygate.policy.comparison_effort import MATCH_STEPS, Effort, TooManyStepsError, measure_match
from tallygate.policy.coverage import (
    can_share_request,
    explain_empty_namespaces,
    is_every_user,
    is_selector_satisfiable,
    match_covers,
)
from tallygate.policy.formats import quote_text
from tallygate.policy.lint_findings import FieldProblem, LintFinding, create_error, create_finding, create_warning
from tallygate.policy.model import ImpliedRequest
from tallygate.policy.policy_codes import BAD_IMPLIED, IMPLIED_TWICE, MATCHES_NOTHING, SHADOWED
from tallygate.policy.suggest import suggest_resource

_RESOURCE_FIELD, _AMOUNT_FIELD = "spec.resource", "spec.perPod"


def lint_implied_requests(implied_requests: Sequence[ImpliedRequest]) -> Iterator[LintFinding]:
    """Yield the findings about each implied request, and about those for one resource in pairs.

    It is an error if the latter takes too long.
    """
    by_resource: dict[str, list[tuple[ImpliedRequest, int]]] = {}
    effort = Effort()
    try:
        for request in implied_requests:
            yield from lint_implied_request(request)
            size = measure_match(request.match)
            for earlier, earlier_size in by_resource.setdefault(request.resource, []):
                effort.add(request, MATCH_STEPS, earlier_size * size)
                yield from _compare(earlier, request)
            by_resource[request.resource].append((request, size))
    except TooManyStepsError as error:
        yield error.create_finding()


def lint_implied_request(
    implied: ImpliedRequest, invalid_sections: frozenset[str] = frozenset()
) -> Iterator[LintFinding]:
    """Yield the findings about one implied request, without those that depend on `invalid_sections`."""
    for problem in (*_check_resource(implied), *_check_amount(implied), *_check_match(implied)):
        if problem.section not in invalid_sections:
            yield create_finding(implied, problem)


def _check_resource(implied: ImpliedRequest) -> Iterator[FieldProblem]:
    name = implied.resource
    family = classify_name(name)
    problems = find_name_problems(name, NameContext.CONTAINER)
    suggestion = suggest_resource(name)
    hint = f'; did you mean "{suggestion}"?' if suggestion else ""
    if "*" in name or "?" in name:
        text = f"{quote_text(name)} is a pattern; name one resource, as in example.com/ip"
    elif family in {Family.NATIVE, Family.HUGEPAGES, Family.ATTACHABLE_VOLUMES} and ("/" in name or not problems):
        text = (
            f"{quote_text(name)} is a resource of Kubernetes, which acts on the amount of each container; set defaults "
            f"with a LimitRange, or name an extended resource, as in example.com/ip{hint}"
        )
    elif family is Family.OPAQUE:
        text = f"{quote_text(name)} has the retired prefix of opaque resources; write a name as in example.com/ip"
    elif problems:
        text = f"no pod can request {quote_text(name)}: {problems[-1].message}{hint}"
    else:
        return
    yield create_error(_RESOURCE_FIELD, BAD_IMPLIED, text)


def _check_amount(implied: ImpliedRequest) -> Iterator[FieldProblem]:
    if implied.per_pod.sign <= 0:
        text = f"{implied.per_pod} is what a pod requests anyway; write 1 or more, or remove the document"
        yield create_error(_AMOUNT_FIELD, BAD_IMPLIED, text)
    elif not implied.per_pod.is_whole:
        text = f"{implied.per_pod} is a fraction of what is counted in whole units; write a whole number"
        yield create_error(_AMOUNT_FIELD, BAD_IMPLIED, text)


def _check_match(implied: ImpliedRequest) -> Iterator[FieldProblem]:
    """Yield the reasons why no pod can match."""
    match = implied.match
    if explanation := explain_empty_namespaces(match.namespaces):
        yield create_error("spec.match.namespaces", MATCHES_NOTHING, explanation)
    if not is_selector_satisfiable(match.object_selector):
        text = "no labels satisfy the selector; remove what contradicts"
        yield create_error("spec.match.objectSelector", MATCHES_NOTHING, text)
    if is_every_user(match.exempt):
        yield create_error("spec.match.exempt", MATCHES_NOTHING, "everybody is exempt; name the groups that shall be")


def _compare(first: ImpliedRequest, second: ImpliedRequest) -> Iterator[LintFinding]:
    """Yield a warning for the second of two implied requests for one resource, if the first may take its pods."""
    place = f'"{first.name}" ({first.location})'
    covers_network = second.unless.host_network or not first.unless.host_network
    if covers_network and match_covers(first.match, second.match):
        text = f"never counts: {place} comes first and matches every pod that this matches; remove one"
        yield create_finding(second, create_warning("", SHADOWED, text))
    elif can_share_request(first.match, second.match):
        text = f"for pods that {place} matches too, that one counts, since it comes first; separate what they match"
        yield create_finding(second, create_warning(_RESOURCE_FIELD, IMPLIED_TWICE, text))
