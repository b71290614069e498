"""Quantities: texts and JSON tokens as package resource reads them, and arithmetic of two quantities."""

from collections.abc import Callable
from fractions import Fraction
from math import ceil, trunc

from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError, QuantityTooLargeError
from tests.conformance.case import Case, Outcome
from tests.conformance.integer_overflow import decimal_wraps, exponent_wraps, milli_wraps, parse_exactly, value_wraps


def compare(case: Case) -> Outcome:
    """Compare all fields of the answer for a text (resource.ParseQuantity)."""
    return _compare(case["answer"], case["text"], Quantity.parse)


def compare_token(case: Case) -> Outcome:
    """Compare all fields of the answer for a JSON token (Quantity.UnmarshalJSON)."""
    return _compare(case["answer"], case["token"], lambda token: Quantity.from_json(token.encode()))


def compare_sum(case: Case) -> Outcome:
    """Compare sum, difference and order of two texts (Quantity.Add, Sub and Cmp)."""
    answer, left, right = case["answer"], Quantity.parse(case["left"]), Quantity.parse(case["right"])
    total, difference = (
        _compare_quantity(answer["sum"], left + right, None),
        _compare_quantity(answer["difference"], left - right, None),
    )
    order = _differences(answer, {"order": (left > right) - (left < right)})
    return Outcome((*total.differences, *difference.differences, *order), total.beyond_int64 or difference.beyond_int64)


def _compare(answer: Case, text: str, parse: Callable[[str], Quantity]) -> Outcome:
    """Compare a parse: ok or error, and all fields."""
    try:
        quantity = parse(text)
    except QuantityTooLargeError as error:
        return _compare_too_large(answer, text, error)
    except QuantityError as error:
        return Outcome(_differences(answer, {"ok": False, "error": str(error)}))
    if not answer["ok"]:
        return Outcome(_differences(answer, {"ok": True}))
    if exponent_wraps(text):
        return _compare_tiny(quantity)
    return _compare_quantity(answer, quantity, parse_exactly(text))


def _compare_tiny(quantity: Quantity) -> Outcome:
    """Compare a number whose exponent Kubernetes truncates: it must be a billionth or zero, or be rejected."""
    if not quantity or quantity.canonical.lstrip("-") == "1e-9":
        return Outcome(beyond_int64=True)
    return Outcome((f"tallygate reads it as {quantity}",))


def _compare_quantity(answer: Case, quantity: Quantity, parsed: Fraction | None) -> Outcome:
    """Compare a quantity; the text's exact number counts where the answer does not contain it."""
    ours = _list_fields(quantity)
    exact = Fraction(answer["dec"]) if "dec" in answer else parsed or Fraction(0)
    if not (milli_wraps(exact) or decimal_wraps(answer.get("dec", ""))):
        return Outcome(_differences(answer, ours))
    right = {**answer, **_correct_rounding(ours, exact)}
    if value_wraps(exact):  # Kubernetes omits the suffixes beyond E and Ei
        exact_by_field = {"canonical": exact, "string": exact, "rounded": _round_to_milli(exact)}
        right |= {
            field: ours[field] for field, wanted in exact_by_field.items() if parse_exactly(ours[field]) == wanted
        }
    return Outcome(_differences(right, ours), beyond_int64=True)


def _list_fields(quantity: Quantity) -> Case:
    """Return tallygate's answer, with the field names of the file."""
    milli = quantity.milli()
    return {
        "ok": True,
        "string": quantity.text,
        "rounded": quantity.round_up_to_milli().text,
        "canonical": quantity.canonical,
        "format": str(quantity.format),
        "sign": quantity.sign,
        "dec": Fraction(quantity.mantissa) * Fraction(10) ** quantity.scale,
        "value": str(quantity.value()),
        "milli": str(milli),
        "integer": milli % 1000 == 0,
    }


def _correct_rounding(ours: Case, exact: Fraction) -> Case:
    """Return the right values of the rounded fields where Kubernetes wraps, computed with fractions."""
    value, milli = _round_as_kubernetes(exact, ours["value"]), _round_as_kubernetes(exact * 1000, ours["milli"])
    return {"value": value, "milli": milli, "integer": int(milli) % 1000 == 0}


def _round_as_kubernetes(exact: Fraction, ours: str) -> str:
    """Round a number as Kubernetes rounds: up if positive, in either direction if negative."""
    whole = trunc(exact)
    if exact == whole:
        return str(whole)
    if exact > 0:
        return str(whole + 1)
    return ours if ours in {str(whole - 1), str(whole + 1)} else str(whole - 1)


def _round_to_milli(exact: Fraction) -> Fraction:
    """Round a number to thousandths, away from zero."""
    thousandths = ceil(abs(exact) * 1000)
    return Fraction(thousandths if exact > 0 else -thousandths, 1000)


def _compare_too_large(answer: Case, text: str, error: QuantityError) -> Outcome:
    """Compare a text that tallygate rejects for its size: Kubernetes must accept it, and wrap."""
    exact = parse_exactly(text.strip().strip('"'))
    if answer["ok"] and (exact is None or value_wraps(exact)):
        return Outcome(beyond_int64=True)
    return Outcome((f"tallygate refuses it: {error}",))


def _differences(theirs: Case, ours: Case) -> tuple[str, ...]:
    """Return every field that both have and that differs; `ok` always counts."""
    return tuple(
        f"{field}: Kubernetes {theirs[field]!r}, tallygate {ours[field]!r}"
        for field in theirs
        if field in ours and _normalize(field, theirs[field]) != ours[field]
    )


def _normalize(field: str, value: object) -> object:
    """Return a field of the answer in tallygate's form.

    `dec` is compared as a number; the zero of null has no format, and is formatted as DecimalSI.
    """
    if field == "dec":
        return Fraction(str(value))
    return "DecimalSI" if field == "format" and not value else value
