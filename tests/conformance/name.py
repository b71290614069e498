"""Resource names: Kubernetes' predicates, and its validation in each context."""

from tallygate.accounting import name_rules, names
from tallygate.accounting.name_rules import NameContext
from tests.conformance.case import Case, Outcome

_PREDICATES = {
    "extended": names.is_extended,
    "hugepage": names.is_hugepage,
    "integer": names.is_integer,
    "native": names.is_native,
    "overcommit_allowed": names.is_overcommit_allowed,
    "prefixed_native": names.is_prefixed_native,
    "scheduler_scalar": names.is_scheduler_scalar,
}
_CONTEXTS = (NameContext.CONTAINER, NameContext.LIMIT_RANGE_OTHER, NameContext.QUOTA)


def compare(case: Case) -> Outcome:
    """Compare the true predicates, and the details of the problems in each context in their order."""
    name, answer = case["name"], case["answer"]
    ours: Case = {
        "is": [each for each, predicate in _PREDICATES.items() if predicate(name)],
        "qualified": list(names.find_qualified_name_errors(name)),
        **{str(each): [fault.detail for fault in name_rules.find_name_problems(name, each)] for each in _CONTEXTS},
    }
    return Outcome(
        tuple(
            f"{field}: Kubernetes {answer[field]!r}, tallygate {ours[field]!r}"
            for field in ours
            if answer[field] != ours[field]
        )
    )
