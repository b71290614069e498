"""Lint of the guarantees of a cap: who has none, names without a limit, sums above it, and hidden entries."""

from collections.abc import Iterator, Sequence

from tallygate.accounting.amounts import format_amount, round_down_to_unit
from tallygate.accounting.percent import Percent
from tallygate.accounting.quantity import Quantity
from tallygate.documents.syntax_tree import join_path
from tallygate.policy import policy_codes
from tallygate.policy.cap_limits import describe_limit, find_most
from tallygate.policy.coverage import namespaces_overlap
from tallygate.policy.globs import covers, is_literal, matches, overlaps
from tallygate.policy.guarantees import MAX_GUARANTEED, Guarantee, GuaranteedAmount, compute_guaranteed
from tallygate.policy.lint_findings import FieldProblem, create_error, create_warning
from tallygate.policy.model import NamespaceCap
from tallygate.policy.selectors import NamespaceSelector
from tallygate.policy.suggest import format_suggestion

_ALL = Percent.parse("100%")


def check_guarantees(cap: NamespaceCap) -> Iterator[FieldProblem]:
    """Yield the mistakes in the guarantees of a cap."""
    if not cap.guarantee:
        return
    if not (cap.shared or cap.group_by):
        text = "each namespace has the whole cap for itself, so nothing is shared; write shared: true, or remove this"
        yield create_error("spec.guarantee", policy_codes.MATCHES_NOTHING, text)
        return
    for index, entry in enumerate(cap.guarantee):
        field = f"spec.guarantee[{index}]"
        yield from _check_namespaces(cap, entry, field)
        for name, amount in entry.amounts.items():
            yield from _check_amount(cap, index, name, amount)
    yield from _check_sums(cap)


def _check_namespaces(cap: NamespaceCap, entry: Guarantee, field: str) -> Iterator[FieldProblem]:
    for index, glob in enumerate(entry.namespaces):
        if not _may_be_member(cap, glob):
            text = "spec.namespaces selects no namespace of this name; name another one"
            yield create_error(f"{field}.namespaces[{index}]", policy_codes.MATCHES_NOTHING, text)


def _check_amount(cap: NamespaceCap, index: int, name: str, amount: GuaranteedAmount) -> Iterator[FieldProblem]:
    entry, path = cap.guarantee[index], join_path(f"spec.guarantee[{index}].amounts", name)
    if name not in cap.hard:
        advice = format_suggestion(name, cap.hard) or "; limit it there or remove this"
        text = f"spec.hard has no such name, so there is nothing to guarantee a part of{advice}"
        yield create_error(path, policy_codes.MATCHES_NOTHING, text)
        return
    for position, earlier in enumerate(cap.guarantee[:index]):
        if name in earlier.amounts and _selects_all(earlier, entry):
            text = (
                f"never decides: spec.guarantee[{position}] stands before it and selects the same namespaces; "
                "put this one first, or remove it"
            )
            yield create_warning(path, policy_codes.SHADOWED, text)
            return
    later = (other for other in cap.guarantee[index + 1 :] if name in other.amounts and _may_select_same(entry, other))
    if not _is_positive(amount) and not any(later):
        yield create_error(path, policy_codes.MATCHES_NOTHING, f"{amount} guarantees nothing; write more or remove it")
    most = find_most(cap.hard[name])
    if isinstance(amount, Percent) and amount > _ALL:
        text = f"{amount} of the hard limit is more than all of it; write 100% or less"
        yield create_error(path, policy_codes.MATCHES_NOTHING, text)
    elif most is not None and not most.sign and _is_positive(amount):
        text = f"hard {describe_limit(cap.hard[name])} allows none, so nothing can be guaranteed; remove this"
        yield create_error(path, policy_codes.MATCHES_NOTHING, text)
    elif isinstance(amount, Percent) and most is not None and _is_nothing(name, amount, most):
        text = f"{amount} of hard is never more than {amount} of {most}, which is rounded down to nothing; write more"
        yield create_error(path, policy_codes.MATCHES_NOTHING, text)
    elif isinstance(amount, Quantity) and most is not None and amount > most:
        text = f"{amount} is more than hard {most}, so it can never be used; write {most} or less"
        yield create_error(path, policy_codes.MATCHES_NOTHING, text)


def _check_sums(cap: NamespaceCap) -> Iterator[FieldProblem]:
    """Yield the sums for members that are named, without globs, that are more than the limit that they share."""
    globs = {glob for entry in cap.guarantee for glob in entry.namespaces if is_literal(glob)}
    named = sorted(glob for glob in globs if _may_be_member(cap, glob))
    if len(named) > MAX_GUARANTEED:
        text = f"{len(named)} namespaces are named; a ledger has at most {MAX_GUARANTEED} with a guarantee, name fewer"
        yield create_error("spec.guarantee", policy_codes.MATCHES_NOTHING, text)
    if cap.group_by:
        return  # they may be in different groups
    for name, hard in cap.hard.items():
        amounts = [amount for namespace in named if (amount := _find_amount(cap, namespace, name)) is not None]
        if len(amounts) < 2:  # noqa: PLR2004  # a single amount is checked by itself
            continue
        most = find_most(hard)
        excess = _find_percent_excess(name, amounts) if most is None else _find_excess(name, amounts, most)
        if excess:
            text = f"{excess} to {len(amounts)} namespaces, more than {'all of it' if most is None else f'hard {most}'}"
            text = f"{text}; guarantee less, or raise hard"
            yield create_error("spec.guarantee", policy_codes.MATCHES_NOTHING, text)


def _find_excess(name: str, amounts: Sequence[GuaranteedAmount], most: Quantity) -> str:
    """Return the sum of guarantees at the largest limit, if it is more than that, as text; else an empty text."""
    hard = round_down_to_unit(name, most)
    total = sum(compute_guaranteed(name, amount, hard) for amount in amounts)
    return f"{format_amount(name, total)} {name} are guaranteed" if total > hard else ""


def _find_percent_excess(name: str, amounts: Sequence[GuaranteedAmount]) -> str:
    """Return the sum of guarantees that are percentages, if it is more than all, as text; else an empty text."""
    shares = Percent(sum(int(amount) for amount in amounts if isinstance(amount, Percent)))
    return f"{shares} of hard {name} are guaranteed" if shares > _ALL else ""


def _may_be_member(cap: NamespaceCap, glob: str) -> bool:
    return namespaces_overlap(cap.namespaces, NamespaceSelector(include=(glob,)))


def _find_amount(cap: NamespaceCap, namespace: str, name: str) -> GuaranteedAmount | None:
    """Return the amount of the first entry that selects the namespace and has the name."""
    entries = (entry for entry in cap.guarantee if name in entry.amounts)
    found = (entry for entry in entries if any(matches(glob, namespace) for glob in entry.namespaces))
    entry = next(found, None)
    return None if entry is None else entry.amounts[name]


def _is_positive(amount: GuaranteedAmount) -> bool:
    return amount.sign > 0 if isinstance(amount, Quantity) else amount > 0


def _is_nothing(name: str, share: Percent, most: Quantity) -> bool:
    """Return whether a share that is more than 0% is rounded down to nothing, also of the largest limit."""
    return share > 0 and compute_guaranteed(name, share, round_down_to_unit(name, most)) == 0


def _selects_all(wide: Guarantee, narrow: Guarantee) -> bool:
    return all(any(covers(glob, other) for glob in wide.namespaces) for other in narrow.namespaces)


def _may_select_same(first: Guarantee, second: Guarantee) -> bool:
    return any(overlaps(glob, other) for glob in first.namespaces for other in second.namespaces)
