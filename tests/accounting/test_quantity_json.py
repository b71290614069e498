"""How JSON tokens are read: what the API server makes of what was sent."""

import msgspec
import pytest

from webhook.accounting.quantity import Quantity
from webhook.accounting.quantity_parser import FORMAT_WRONG, SUFFIX_WRONG, QuantityError, QuantityTooLargeError

READ = (
    ("a number is read as its text", b"3", "3"),
    ("a number with a zero fraction is whole", b"3.0", "3"),
    ("a number with a fraction is thousandths", b"3.5", "3500m"),
    ("a number with an exponent keeps it", b"1e3", "1e3"),
    ("a capital exponent is kept", b"1E3", "1E3"),
    ("a negative number is read", b"-3", "-3"),
    ("minus zero is zero", b"-0", "0"),
    ("a half is thousandths", b"0.5", "500m"),
    ("a string is read", b'"3Ki"', "3Ki"),
    ("blanks around are trimmed", b'" 3 "', "3"),
    ("a Unicode blank is trimmed as well", '"\u2003\u00a03\u3000"'.encode(), "3"),
    ("null is zero", b"null", "0"),
    ("a large exponent is kept", b"1e400", "10e399"),
    ("a number beyond a float's digits is kept exactly", b"12345678901234567890", "12345678901234567890"),
    ("a plus in a string is kept", b'"+3"', "+3"),
)
REFUSED = (
    ("an escape is not decoded", rb'"3\u004bi"', FORMAT_WRONG),
    ("not even that of a digit", rb'"\u0033"', FORMAT_WRONG),
    ("an escaped tab is no blank", rb'"\t3"', FORMAT_WRONG),
    ("an escaped line end likewise", rb'"3\n"', FORMAT_WRONG),
    ("an empty string is none", b'""', FORMAT_WRONG),
    ("a blank string is none", b'" "', FORMAT_WRONG),
    ("null in quotes is none", b'"null"', FORMAT_WRONG),
    ("true is none", b"true", FORMAT_WRONG),
    ("false is none", b"false", FORMAT_WRONG),
    ("an object is none", b"{}", FORMAT_WRONG),
    ("an empty list is none", b"[]", FORMAT_WRONG),
    ("a list is none", b"[3]", FORMAT_WRONG),
    ("hexadecimal is none", b'"0x10"', FORMAT_WRONG),
    ("a comma is none", b'"1,5"', FORMAT_WRONG),
    ("a wrong suffix is called that", b'"1K"', SUFFIX_WRONG),
    ("a separator of files is no blank to Go", b'"\x1c3"', FORMAT_WRONG),
    ("a byte order mark is no blank", '"\ufeff3"'.encode(), FORMAT_WRONG),
    ("bytes that are no UTF-8 are none", b'"\xff3"', FORMAT_WRONG),
    ("half a surrogate is none", b'"\xed\xa0\x803"', FORMAT_WRONG),
    ("a lone quote is none", b'"', FORMAT_WRONG),
    ("nothing is none", b"", FORMAT_WRONG),
)


@pytest.mark.parametrize(("token", "text"), [row[1:] for row in READ], ids=[row[0] for row in READ])
def test_a_token_is_read(token: bytes, text: str) -> None:
    assert Quantity.from_json(token).text == text
    assert Quantity.from_json(msgspec.Raw(token)).text == text


@pytest.mark.parametrize(("token", "said"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_is_no_quantity_is_refused_in_kubernetes_words(token: bytes, said: str) -> None:
    with pytest.raises(QuantityError) as caught:
        Quantity.from_json(token)
    assert str(caught.value) == said


def test_a_token_from_a_decoded_object_is_read() -> None:
    limits = msgspec.json.decode(b'{"a": "3Ki" , "b": 1.5}', type=dict[str, msgspec.Raw])
    assert {name: Quantity.from_json(raw).text for name, raw in limits.items()} == {"a": "3Ki", "b": "1500m"}


def test_a_megabyte_in_quotes_is_refused_for_its_size() -> None:
    with pytest.raises(QuantityTooLargeError):
        Quantity.from_json(b'"' + b"9" * 1_000_000 + b'"')
