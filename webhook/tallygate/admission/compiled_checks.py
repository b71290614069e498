"""The checks of one resource name, compiled from the rules of the active policy set.

A `RuleGroup` is compiled once for all names that the same rules check, `CompiledChecks` has one of these names. Both
cache results by the written quantity, so that the next `"2"` costs a look-up.

The functions below it check one quantity. Each takes the resource name and the raw JSON of the quantity and yields
failures: sentences that name the error, its reason and an amount that would pass.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tallygate.accounting.name_rules import NameContext, find_advertised_name_problems, find_name_problems
from tallygate.accounting.problem import Reason
from tallygate.accounting.quantity import Quantity, format_decimal_point
from tallygate.accounting.quantity_parser import INT64_MAX, Format, QuantityError, QuantityTooLargeError
from tallygate.admission import rule_codes
from tallygate.policy.model import AmountBounds, Equality, ResourceRule

REQUEST_VERB = "request"

_MAX_SHOWN = 60
# A container with a quantity takes some 48 bytes, so that the API server's 3 MiB contain fewer than 2^17 of them.
_LARGE_QUANTITY = Quantity.from_int(INT64_MAX // 2**17)
_MAX_CACHED_QUANTITIES = 256
_MAX_CACHED_LENGTH = 64


@dataclass(frozen=True, slots=True)
class CheckFailure:
    """A failed check of a name or a quantity, before it has a field path; see `Problem` for the fields."""

    code: str
    reason: Reason
    value: str
    message: str


@dataclass(frozen=True, slots=True)
class RuleCheckFailure:
    """A failed check and the rule that demands the check."""

    rule: ResourceRule
    failure: CheckFailure


@dataclass(frozen=True, slots=True)
class QuantityCheckResult:
    """The failures of one written quantity, and whether a sum of such quantities could exceed int64."""

    failures: tuple[RuleCheckFailure, ...]
    is_large: bool


class RuleGroup:
    """The rules for all names that the same patterns match, ordered by check. `is_empty` is true without rules.

    Countable names have other defaults than the others. Quantities that pass are remembered for all names together, so
    that an object with 100,000 names costs a look-up for each.
    """

    def __init__(self, rules: tuple[ResourceRule, ...], *, is_countable_name: bool) -> None:
        self.rules = rules
        self.is_empty = not rules
        self.name_rules = tuple(rule for rule in rules if rule.checks.well_formed_name)
        self.whole_rules = tuple(
            rule
            for rule in rules
            if _is_enabled(setting=rule.checks.whole_quantity, is_countable_name=is_countable_name)
        )
        self.equality_rules = tuple(
            (rule, equality)
            for rule in rules
            if (equality := _get_equality(rule, is_countable_name=is_countable_name)) is not Equality.IGNORE
        )
        self.has_fill = any(equality is Equality.FILL for _, equality in self.equality_rules)
        self.pod_bounds = tuple((rule, rule.checks.per_pod) for rule in rules if rule.checks.per_pod)
        self.container_bounds = tuple((rule, rule.checks.per_container) for rule in rules if rule.checks.per_container)
        self.deadline_rules = tuple(rule for rule in rules if rule.checks.active_deadline_seconds)
        self.passing_quantities: dict[tuple[bytes, bool], QuantityCheckResult] = {}


class CompiledChecks:
    """The checks of one resource name by its group of rules."""

    __slots__ = ("_name_failures", "_quantity_results", "group", "name")

    def __init__(self, name: str, group: RuleGroup) -> None:
        self.name = name
        self.group = group
        self._quantity_results: dict[tuple[bytes, bool, str], QuantityCheckResult] | None = None
        self._name_failures: dict[tuple[str, NameContext], tuple[RuleCheckFailure, ...]] | None = None

    def check_name(self, written_name: str, context: NameContext) -> tuple[RuleCheckFailure, ...]:
        """Return the failures of a name as written in this context (a quota puts `requests.` in front)."""
        if not self.group.name_rules:
            return ()
        if self._name_failures is not None and (failures := self._name_failures.get((written_name, context))):
            return failures
        problems = (
            find_advertised_name_problems(written_name)
            if context is NameContext.NODE
            else find_name_problems(written_name, context)
        )
        if not problems:
            return ()
        # The first problem is the cause; Kubernetes then lists further rules that such a name violates.
        failure = CheckFailure(rule_codes.MALFORMED_NAME, Reason.INVALID, written_name, problems[0].message)
        failures = tuple(RuleCheckFailure(rule, failure) for rule in self.group.name_rules)
        self._name_failures = {**(self._name_failures or {}), (written_name, context): failures}
        return failures

    def check_quantity(self, token: bytes, *, is_container: bool, verb: str = REQUEST_VERB) -> QuantityCheckResult:
        """Return the failures of a quantity (raw JSON); `is_container` marks the request of one container."""
        passing = self.group.passing_quantities
        result = passing.get((token, is_container))
        if result is None and self._quantity_results is not None:
            result = self._quantity_results.get((token, is_container, verb))
        if result is not None:
            return result
        failures = tuple(self._find_failures(token, self.group.container_bounds if is_container else (), verb))
        result = QuantityCheckResult(failures, bool(self.group.whole_rules) and is_large(token))
        if len(token) > _MAX_CACHED_LENGTH:
            return result
        if not failures:
            if len(passing) >= _MAX_CACHED_QUANTITIES:
                passing.clear()
            passing[token, is_container] = result
            return result
        if self._quantity_results is None or len(self._quantity_results) >= _MAX_CACHED_QUANTITIES:
            self._quantity_results = {}
        self._quantity_results[token, is_container, verb] = result
        return result

    def _find_failures(
        self, token: bytes, container_bounds: tuple[tuple[ResourceRule, AmountBounds], ...], verb: str
    ) -> list[RuleCheckFailure]:
        failures = [
            RuleCheckFailure(rule, failure)
            for failure in check_whole(self.name, token, verb)
            for rule in self.group.whole_rules
        ]
        for rule, bounds in container_bounds:
            failures += [RuleCheckFailure(rule, failure) for failure in check_bounds(self.name, token, bounds)]
        return failures


def _is_enabled(*, setting: bool | None, is_countable_name: bool) -> bool:
    return is_countable_name if setting is None else setting


def _get_equality(rule: ResourceRule, *, is_countable_name: bool) -> Equality:
    setting = rule.checks.requests_equal_limits
    if setting is None:
        return Equality.REQUIRE if is_countable_name else Equality.IGNORE
    return setting


def check_whole(name: str, token: bytes, verb: str = REQUEST_VERB) -> Iterator[CheckFailure]:
    """Check that a quantity is a number of whole units: readable, not negative, not a fraction, not beyond int64.

    `verb` is the verb of the advice: pods request an amount, nodes advertise it.
    """
    try:
        quantity = Quantity.from_json(token)
    except QuantityTooLargeError:
        yield create_too_large_failure(_truncate_token(token))
        return
    except QuantityError as error:
        yield _create_failure(
            rule_codes.UNREADABLE,
            _truncate_token(token),
            f"{_truncate_token(token)} is not a quantity ({error}): write a number such as 2",
        )
        return
    if quantity.is_beyond_int64:
        yield create_too_large_failure(quantity.text)
        return
    if quantity.sign < 0:
        yield _create_failure(rule_codes.NEGATIVE, quantity.text, f"{quantity} is below zero: {verb} 0 or more")
    elif not quantity.is_whole:
        yield _create_failure(rule_codes.NOT_WHOLE, quantity.text, _describe_fraction(name, quantity, verb))


def check_bounds(name: str, token: bytes, bounds: AmountBounds) -> Iterator[CheckFailure]:
    """Check the request of one container against the bounds of a rule; a request of zero always passes."""
    try:
        quantity = Quantity.from_json(token)
    except QuantityError:
        return  # `check_whole` reports it
    if quantity.sign <= 0:
        return
    text = quantity.text
    if bounds.min is not None and quantity < bounds.min:
        yield _create_failure(
            rule_codes.CONTAINER_BOUND,
            text,
            f"{quantity} is less than the {bounds.min} {name} that a container must request",
        )
    if bounds.max is not None and quantity > bounds.max:
        yield _create_failure(
            rule_codes.CONTAINER_BOUND,
            text,
            f"{quantity} is more than one container may have of {name}: request {bounds.max} or less"
            if bounds.max
            else f"no container may request {name}: remove it",
        )
    if bounds.multiple_of is not None and not quantity.is_multiple_of(bounds.multiple_of):
        nearest = " or ".join(str(multiple) for multiple in find_nearest_multiples(quantity, bounds.multiple_of))
        yield _create_failure(
            rule_codes.NOT_A_MULTIPLE, text, f"{quantity} is not a multiple of {bounds.multiple_of}: request {nearest}"
        )
    if bounds.one_of and quantity not in bounds.one_of:
        allowed = ", ".join(str(choice) for choice in bounds.one_of)
        yield _create_failure(
            rule_codes.NOT_ONE_OF, text, f"{quantity} is not an allowed amount of {name}: request one of {allowed}"
        )


def is_large(token: bytes) -> bool:
    """Return whether a pod with many such quantities could exceed int64 in sum."""
    try:
        return Quantity.from_json(token) > _LARGE_QUANTITY
    except QuantityError:
        return False


def create_too_large_failure(text: str) -> CheckFailure:
    """Return the failure of an amount beyond int64."""
    return _create_failure(
        rule_codes.TOO_LARGE,
        text,
        f"{text} is too large: Kubernetes stores at most {INT64_MAX} and would count another amount",
    )


def find_nearest_multiples(quantity: Quantity, unit: Quantity) -> tuple[Quantity, ...]:
    """Return the nearest multiples of `unit` below (omitted if it is zero) and above a positive quantity."""
    mantissa, unit_mantissa, scale = quantity.align(unit)
    below = mantissa // unit_mantissa * unit_mantissa
    multiples = tuple(Quantity(amount, scale, unit.format) for amount in (below, below + unit_mantissa) if amount)
    if "." not in str(unit) or unit.format is not Format.DECIMAL_SI:
        return multiples
    return tuple(
        Quantity(multiple.mantissa, scale, unit.format, written=format_decimal_point(multiple))
        for multiple in multiples
    )


def _describe_fraction(name: str, quantity: Quantity, verb: str) -> str:
    below = quantity.floor()
    choice = f"{below} or {below + 1}" if below else "1"
    return f"{quantity} is not a whole number; {name} is counted in whole units: {verb} {choice}"


def _create_failure(code: str, value: str, message: str) -> CheckFailure:
    return CheckFailure(code, Reason.INVALID, value, message)


def _truncate_token(token: bytes) -> str:
    """Return the raw JSON as text, cut at a length that remains readable."""
    text = token.decode("utf-8", "replace")
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
