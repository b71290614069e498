"""Quantities: a text, and what resource.ParseQuantity makes of it."""

from fractions import Fraction
from math import trunc

from tests.conformance.beyond import decimal_wraps, milli_wraps, number, value_wraps
from tests.conformance.case import Case, Outcome
from webhook.accounting.quantity import Quantity, QuantityError, QuantityTooLargeError


def compare(case: Case) -> Outcome:
    """Compare everything that the answer says: ok, error, canonical, format, sign, dec, value, milli, integer."""
    answer = case["answer"]
    try:
        quantity = Quantity.parse(case["text"])
    except QuantityTooLargeError as error:
        return _too_large(case, error)
    except QuantityError as error:
        return Outcome(_differences(answer, {"ok": False, "error": str(error)}))
    if not answer["ok"]:
        return Outcome(_differences(answer, {"ok": True}))
    return _read(case, quantity)


def _read(case: Case, quantity: Quantity) -> Outcome:
    """Compare a text that both could read."""
    answer, ours = case["answer"], _ours(quantity)
    exact = Fraction(answer["dec"]) if "dec" in answer else number(case["text"]) or Fraction(0)
    if not (milli_wraps(exact) or decimal_wraps(answer.get("dec", ""))):
        return Outcome(_differences(answer, ours))
    right = {**answer, **_right(ours, exact)}
    if value_wraps(exact) and number(quantity.canonical) == exact:
        right["canonical"] = quantity.canonical  # Kubernetes leaves off suffixes beyond E
    return Outcome(_differences(right, ours), beyond_int64=True)


def _ours(quantity: Quantity) -> Case:
    """What tallygate answers, in the words of the file."""
    milli = quantity.milli()
    return {
        "ok": True,
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


def _too_large(case: Case, error: QuantityError) -> Outcome:
    """A text that tallygate refuses for its size must be one that Kubernetes reads, and wraps."""
    exact = number(case["text"])
    if case["answer"]["ok"] and (exact is None or value_wraps(exact)):
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
    """A field of the answer in the form tallygate gives it: `dec` is compared as a number."""
    return Fraction(str(value)) if field == "dec" else value
