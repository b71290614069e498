"""The scope of a rule as conditions in CEL: users and labels."""

from collections.abc import Iterable, Iterator
from typing import Final

from tallygate.admission.cel_texts import format_globs, join_all, join_any, quote, quote_list
from tallygate.policy.selectors import LabelRequirement, Operator, PolicyLabelSelector, Subjects

USER: Final = "request.userInfo.?username.orValue('')"
_GROUPS = "request.userInfo.?groups.orValue([])"
_ACCOUNT = "system:serviceaccount:"
NAMESPACE_LABELS: Final = "namespaceObject.metadata.?labels.orValue({})"
"""The labels of the namespace of a request; a match condition does not know them."""


def format_labels(selector: PolicyLabelSelector | None, labels: str) -> str:
    """Return the condition that labels, the text of a map, satisfy a selector."""
    if selector is None:
        return join_all(())
    equal = (_format_one_of(labels, key, (value,)) for key, value in selector.match_labels.items())
    return join_all((*equal, *(_format_requirement(labels, requirement) for requirement in selector.match_expressions)))


def _format_requirement(labels: str, requirement: LabelRequirement) -> str:
    match requirement.operator:
        case Operator.EXISTS:
            return f"{quote(requirement.key)} in {labels}"
        case Operator.DOES_NOT_EXIST:
            return f"!({quote(requirement.key)} in {labels})"
        case Operator.IN:
            return _format_one_of(labels, requirement.key, requirement.values)
        case Operator.NOT_IN:
            return f"!{_format_one_of(labels, requirement.key, requirement.values)}"


def _format_one_of(labels: str, key: str, values: Iterable[str]) -> str:
    return f"({quote(key)} in {labels} && {labels}[{quote(key)}] in {quote_list(sorted(values))})"


def format_subjects(subjects: Subjects) -> str:
    """Return the condition that the user of a request is one of these."""
    groups = join_any(format_globs("g", subjects.groups))
    return join_any(
        (
            *format_globs(USER, subjects.users),
            *([f"{_GROUPS}.exists(g, {groups})"] if subjects.groups else []),
            *_list_accounts(subjects.service_accounts),
        )
    )


def _list_accounts(globs: Iterable[str]) -> Iterator[str]:
    """Yield the conditions of service accounts: namespace and name each match their own glob."""
    pairs = [glob.partition("/") for glob in globs]
    tests = join_any(
        join_all(
            (join_any(format_globs("a[2]", (namespace,))), join_any(format_globs("a[3]", (name,))), "a.size() == 4")
        )
        for namespace, _, name in pairs
    )
    if pairs:
        yield f"({USER}.startsWith('{_ACCOUNT}') && [{USER}.split(':')].exists(a, a.size() == 4 && {tests}))"
