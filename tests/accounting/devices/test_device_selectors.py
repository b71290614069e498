"""Selectors of devices: results, mistakes with positions, failures, and bounds for hostile expressions."""

import threading
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.cel.syntax import ExpressionError
from tallygate.accounting.devices.device_values import Device
from tallygate.accounting.devices.expression import UndecidedMatchError, compile_selector

GPU: dict[str, Any] = {
    "driver": "gpu.example.com",
    "attributes": {
        "model": {"string": "h100"},
        "gpu.example.com/index": {"int": 3},
        "driver-version": {"version": "1.10.2"},
        "other.io/healthy": {"bool": True},
        "numa": {"ints": [0, 1]},
    },
    "capacity": {"memory": {"value": "40Gi"}},
    "allowMultipleAllocations": True,
}
_IN_DOMAIN = 'device.attributes["gpu.example.com"]'
_LONGEST_SECONDS = 30.0


def _read(device: dict[str, Any]) -> Device:
    return msgspec.json.decode(msgspec.json.encode(device), type=Device)


def _matches(text: str, **changes: object) -> bool:
    return compile_selector(text).matches(_read({**GPU, **changes}))


@pytest.mark.parametrize(
    "text",
    [
        'device.driver == "gpu.example.com"',
        f'{_IN_DOMAIN}.model == "h100"',
        f"{_IN_DOMAIN}.index == 3",
        f'{_IN_DOMAIN}["driver-version"].isGreaterThan(semver("1.9.0"))',
        f"{_IN_DOMAIN}.numa.includes(1)",
        f'{_IN_DOMAIN}.?nope.orValue("x") == "x"',
        'device.attributes["other.io"].healthy',
        'device.attributes["nope.io"] == {}',
        '!("nope.io" in device.attributes)',
        'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) == 0',
        "device.allowMultipleAllocations",
        f'cel.bind(gpu, {_IN_DOMAIN}, gpu.model == "h100" && gpu.index > 2)',
    ],
)
def test_a_device_matches(text: str) -> None:
    assert _matches(text)


def test_a_selector_is_compiled_once_for_many_devices() -> None:
    selector = compile_selector(f'{_IN_DOMAIN}.model == "h100"')
    assert selector.matches(_read(GPU))
    assert not selector.matches(_read({**GPU, "attributes": {"model": {"string": "a100"}}}))


@pytest.mark.parametrize(
    ("text", "changes", "message"),
    [
        (f'{_IN_DOMAIN}.nope == "x"', {}, "no such key: nope"),
        (f"{_IN_DOMAIN}.index + 9223372036854775807 > 0", {}, "integer overflow"),
        (f"{_IN_DOMAIN}.model", {}, "CEL result of type string could not be converted to bool"),
        ("true", {"attributes": {"v": {"version": "1.2"}}}, "attribute v: no semantic version: '1.2'"),
        ("true", {"attributes": {"v": {}}}, "attribute v: unsupported attribute value"),
        ("true", {"capacity": {"c": {"value": "x"}}}, "capacity c: "),
        ("true", {"attributes": {"a": {"int": 1}, "gpu.example.com/a": {"int": 2}}}, "is there twice"),
    ],
)
def test_a_failure_is_undecided_and_never_a_no(text: str, changes: dict[str, object], message: str) -> None:
    with pytest.raises(UndecidedMatchError) as caught:
        _matches(text, **changes)
    assert message in str(caught.value)
    assert not caught.value.is_unsupported or "twice" in message


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", 1, 1, "syntax error: unexpected the end"),
        ('device.driver ==\n  "a" &&', 2, 9, "syntax error: unexpected the end"),
        ("device.foo", 1, 7, "undefined field 'foo'"),
        ("object.spec", 1, 1, "undeclared reference to 'object' (in container '')"),
        ('1 +\n "a" == 2', 1, 3, "found no matching overload for '_+_' applied to '(int, string)'"),
        ("device.driver", 1, 1, "must evaluate to bool or the unknown type, not string"),
        ('"a".matches("(")', 1, 13, "invalid regular expression: missing ): ("),
        ('[1, "a"].size() == 2', 1, 5, "expected type 'int' but found 'string'"),
        ('int("a") == 1', 1, 4, "program instantiation failed: type conversion error from 'string' to 'int'"),
    ],
)
def test_a_mistake_has_a_position(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_selector(text)
    assert (caught.value.position, caught.value.message) == ((line, column), message)
    assert str(caught.value) == f"{line}:{column}: {message}"
    assert not caught.value.is_unsupported


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('duration("1h") < duration("2h")', "the function 'duration' is not supported"),
        ('url("https://a").getHost() == "a"', "the function 'url' is not supported"),
        ('"%d".format([1]) == "1"', "the function 'format' is not supported"),
        ("google.protobuf.Int64Value{value: 1} == 1", "values of message types are not supported"),
        (f"{'(' * 41}true{')' * 41}", "more than 40 levels of brackets are not supported"),
        ("1" + " + 1" * 200 + " > 0", "the expression nests more than 100 operations, which is not supported"),
        ("device" + ".?driver" * 50 + ".optMap(x, x)" * 90 + ".hasValue()", "operations is not supported"),
    ],
    ids=range(7),
)
def test_an_unsupported_form_has_a_position(text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_selector(text)
    assert message in caught.value.message
    assert caught.value.is_unsupported


_DOUBLED = "".join(f"cel.bind(a{place}, a{place - 1} + a{place - 1}, " for place in range(1, 20))


@pytest.mark.parametrize(
    "text",
    [
        'quantity("12345678901234567890123").add(quantity("1")).isInteger()',
        "lists.range(9223372036854775807).size() > 0",
        "lists.range(-1).size() == 0",
        "cel.bind(all, lists.range(2000), all.all(x, all.filter(y, false).size() == 0))",
        f'cel.bind(a0, "0123456789", {_DOUBLED}a19.size() > 0{")" * 20}',
        f'"aaaaaaaaaa".replace("", "{"b" * 5000}").replace("", "{"b" * 4000}").size() > 0',
    ],
    ids=range(6),
)
def test_an_unsupported_value_is_undecided(text: str) -> None:
    with pytest.raises(UndecidedMatchError, match="not supported") as caught:
        _matches(text)
    assert caught.value.is_unsupported


def test_an_expression_has_at_most_10_kib() -> None:
    compile_selector("true //" + "x" * (10 * 1024 - 7))
    with pytest.raises(ExpressionError, match="longer than 10240 bytes"):
        compile_selector("true //" + "x" * (10 * 1024 - 6))


@pytest.mark.parametrize(
    "text",
    [
        "lists.range(1000).all(x, lists.range(1000).all(y, y >= 0))",
        "lists.range(1000).all(x, lists.range(1000).all(y, y >= 0)) || true",
        f"lists.range(100000).all(x, {_IN_DOMAIN}.model.contains({_IN_DOMAIN}.model))",
    ],
)
def test_the_cost_is_limited_whatever_else_decides(text: str) -> None:
    started = time.monotonic()
    with pytest.raises(UndecidedMatchError, match="costs more than 1000000"):
        _matches(text)
    assert time.monotonic() - started < _LONGEST_SECONDS


def test_a_pattern_takes_linear_time() -> None:
    started = time.monotonic()
    assert not _matches(f'"{"a" * 5000}!".matches("^(a+)+$")')
    assert time.monotonic() - started < _LONGEST_SECONDS


def test_the_deepest_expression_is_evaluated_in_a_thread() -> None:
    text = "(" * 39 + "1" + " + 1" * 90 + " == 91" + ")" * 39
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(_matches(text)))
    thread.start()
    thread.join()
    assert results == [True]


def test_threads_share_a_selector() -> None:
    selector = compile_selector(f"lists.range(500).all(x, cel.bind(y, x + {_IN_DOMAIN}.index, y > x))")
    device = _read(GPU)
    results: list[bool] = []
    threads = [threading.Thread(target=lambda: results.append(selector.matches(device))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 4


@given(st.text(alphabet="()[]{}.,?:!-+*/%<>=&|\"'0123456789abdevic \n`\\@\u00e9\u2028", max_size=60))
def test_any_text_compiles_or_has_a_mistake_with_a_position(text: str) -> None:
    position = _find_mistake(text)
    assert position is None or position >= (1, 1)


def _find_mistake(text: str) -> tuple[int, int] | None:
    try:
        compile_selector(text)
    except ExpressionError as error:
        return error.position
    return None
