"""Comparing: what came of a step beside what was expected, in words."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from webhook.accounting.amounts import format_amount, round_up_to_unit
from webhook.accounting.names import REQUESTS_PREFIX
from webhook.accounting.quantity import Quantity
from webhook.accounting.quantity_parser import QuantityError
from webhook.cli.sequences.model import Expected, LedgerExpected
from webhook.cli.sequences.outcome import Outcome
from webhook.cli.sequences.world import Account


@dataclass(frozen=True, slots=True)
class Difference:
    """What was expected, and what happened; both about `what`, as in `verdict`."""

    what: str
    expected: str
    happened: str


def differences(expected: Expected, outcome: Outcome, accounts: Sequence[Account]) -> Iterator[Difference]:
    """Everything in which a step is not as expected. After another verdict only that is told: the rest follows."""
    if outcome.verdict is not expected.verdict:
        yield Difference("verdict", expected.verdict.value, told(outcome))
        return
    yield from _refusal(expected, outcome)
    yield from _warnings(expected, outcome)
    yield from _filled(expected, outcome)
    for what, wanted, found in (("made", expected.made, outcome.made), ("missing", expected.missing, outcome.missing)):
        if wanted is not None and wanted != found:
            yield Difference(f"pods {what}", str(wanted), str(found))
    for ledger in expected.ledgers:
        yield from _ledger(ledger, accounts)


def told(outcome: Outcome) -> str:
    """The verdict with whoever refused, and why."""
    by = f" by {outcome.by}" if outcome.by else ""
    return f"{outcome.verdict.value}{by}{': ' if outcome.message else ''}{outcome.message}"


def _refusal(expected: Expected, outcome: Outcome) -> Iterator[Difference]:
    if expected.codes is not None and sorted(set(expected.codes)) != sorted(outcome.codes):
        yield Difference("codes", _listed(sorted(set(expected.codes))), _listed(sorted(outcome.codes)))
    if expected.message is not None and expected.message not in outcome.message:
        yield Difference("message", f"… {expected.message} …", outcome.message or "no message")


def _warnings(expected: Expected, outcome: Outcome) -> Iterator[Difference]:
    wanted = expected.warnings
    if wanted is None:
        return
    lacking = [text for text in wanted if not any(text in warning for warning in outcome.warnings)]
    if lacking or (not wanted and outcome.warnings):
        said = " | ".join(f"… {text} …" for text in lacking) or "no warning"
        yield Difference("warnings", said, " | ".join(outcome.warnings) or "no warning")


def _filled(expected: Expected, outcome: Outcome) -> Iterator[Difference]:
    if expected.filled is not None and not _same(expected.filled, outcome.filled):
        yield Difference("filled in", _written(expected.filled), _written(outcome.filled))


def _same(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)


def _equal(one: str, other: str) -> bool:
    try:
        return Quantity.parse(one) == Quantity.parse(other)
    except QuantityError:
        return one == other


def _written(values: Mapping[str, str]) -> str:
    return ", ".join(f"{field}: {value}" for field, value in sorted(values.items())) or "nothing"


def _listed(texts: Sequence[str]) -> str:
    return ", ".join(texts) or "none"


def _ledger(expected: LedgerExpected, accounts: Sequence[Account]) -> Iterator[Difference]:
    whose = [each for each in accounts if each.counted.definition.name == expected.cap]
    account = next((each for each in whose if each.namespace == expected.namespace), None)
    title = f"ledger {expected.cap} {expected.namespace}".rstrip()
    if account is None:
        yield Difference(title, "is there", f"cap {expected.cap} does not count this namespace")
        return
    for what, amounts in expected.amounts.items():
        for written, quantity in amounts.items():
            name = written.removeprefix(REQUESTS_PREFIX)
            found, wanted = _amount(account, what, name), round_up_to_unit(name, quantity)
            if found != wanted:
                said = "nothing bounds it" if found is None else format_amount(name, found)
                yield Difference(f"{title}: {name} {what}", format_amount(name, wanted), said)


def _amount(account: Account, what: str, name: str) -> int | None:
    match what:
        case "held":
            return account.ledger.used.get(name, 0)
        case "promised":
            return account.ledger.reserved.get(name, 0)
        case _:
            return account.free(name)
