"""Quantities: a text or a JSON token and what package resource reads there, two quantities and what comes of them."""

from collections.abc import Callable
from fractions import Fraction
from math import ceil, trunc

from tests.conformance.beyond import decimal_wraps, exponent_wraps, milli_wraps, number, value_wraps
from tests.conformance.case import Case, Outcome
from webhook.accounting.quantity import Quantity
from webhook.accounting.quantity_parser import QuantityError, QuantityTooLargeError


def compare(case: Case) -> Outcome:
    """Compare everything that the answer says of a text (resource.ParseQuantity)."""
    return _compare(case["answer"], case["text"], Quantity.parse)


def compare_token(case: Case) -> Outcome:
    """Compare everything that the answer says of a JSON token (Quantity.UnmarshalJSON)."""
    return _compare(case["answer"], case["token"], lambda token: Quantity.from_json(token.encode()))


def compare_sum(case: Case) -> Outcome:
    """Compare sum, difference and order of two texts (Quantity.Add, Sub and Cmp)."""
    answer, left, right = case["answer"], Quantity.parse(case["left"]), Quantity.parse(case["right"])
    total, difference = _read(answer["sum"], left + right, None), _read(answer["difference"], left - right, None)
    order = _differences(answer, {"order": (left > right) - (left < right)})
    return Outcome((*total.differences, *difference.differences, *order), total.beyond_int64 or difference.beyond_int64)


def _compare(answer: Case, text: str, read: Callable[[str], Quantity]) -> Outcome:
    """Compare a reading: ok or error, and all that is read."""
    try:
        quantity = read(text)
    except QuantityTooLargeError as error:
        return _too_large(answer, text, error)
    except QuantityError as error:
        return Outcome(_differences(answer, {"ok": False, "error": str(error)}))
    if not answer["ok"]:
        return Outcome(_differences(answer, {"ok": True}))
    if exponent_wraps(text):
        return _tiny(quantity)
    return _read(answer, quantity, number(text))


def _tiny(quantity: Quantity) -> Outcome:
    """A number with an exponent that Kubernetes cuts must be a billionth or nothing: larger ones are refused."""
    if not quantity or quantity.canonical.lstrip("-") == "1e-9":
        return Outcome(beyond_int64=True)
    return Outcome((f"tallygate reads it as {quantity}",))


def _read(answer: Case, quantity: Quantity, meant: Fraction | None) -> Outcome:
    """Compare a quantity; what its text means counts where the answer does not say the exact number."""
    ours = _ours(quantity)
    exact = Fraction(answer["dec"]) if "dec" in answer else meant or Fraction(0)
    if not (milli_wraps(exact) or decimal_wraps(answer.get("dec", ""))):
        return Outcome(_differences(answer, ours))
    right = {**answer, **_right(ours, exact)}
    if value_wraps(exact):  # Kubernetes leaves off the suffixes beyond E and Ei
        meant_by = {"canonical": exact, "string": exact, "rounded": _up_to_milli(exact)}
        right |= {field: ours[field] for field, meant in meant_by.items() if number(ours[field]) == meant}
    return Outcome(_differences(right, ours), beyond_int64=True)


def _ours(quantity: Quantity) -> Case:
    """What tallygate answers, in the words of the file."""
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


def _right(ours: Case, exact: Fraction) -> Case:
    """What the rounded fields must be where Kubernetes wraps, reckoned in fractions."""
    value, milli = _rounded(exact, ours["value"]), _rounded(exact * 1000, ours["milli"])
    return {"value": value, "milli": milli, "integer": int(milli) % 1000 == 0}


def _rounded(exact: Fraction, ours: str) -> str:
    """A number rounded as Kubernetes rounds: positive ones up, and negative ones one way or the other."""
    whole = trunc(exact)
    if exact == whole:
        return str(whole)
    if exact > 0:
        return str(whole + 1)
    return ours if ours in {str(whole - 1), str(whole + 1)} else str(whole - 1)


def _up_to_milli(exact: Fraction) -> Fraction:
    """A number rounded to thousandths, away from zero."""
    thousandths = ceil(abs(exact) * 1000)
    return Fraction(thousandths if exact > 0 else -thousandths, 1000)


def _too_large(answer: Case, text: str, error: QuantityError) -> Outcome:
    """A text that tallygate refuses for its size must be one that Kubernetes reads, and wraps."""
    exact = number(text.strip().strip('"'))
    if answer["ok"] and (exact is None or value_wraps(exact)):
        return Outcome(beyond_int64=True)
    return Outcome((f"tallygate refuses it: {error}",))


def _differences(theirs: Case, ours: Case) -> tuple[str, ...]:
    """Every field that both have and that differs; `ok` always counts."""
    return tuple(
        f"{field}: Kubernetes {theirs[field]!r}, tallygate {ours[field]!r}"
        for field in theirs
        if field in ours and _comparable(field, theirs[field]) != ours[field]
    )


def _comparable(field: str, value: object) -> object:
    """A field of the answer in the form tallygate gives it.

    `dec` is compared as a number; the zero that null stands for has no format, and is written like one of DecimalSI.
    """
    if field == "dec":
        return Fraction(str(value))
    return "DecimalSI" if field == "format" and not value else value
