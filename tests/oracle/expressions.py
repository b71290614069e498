"""Random expressions over devices, and devices for them; some expressions have mistakes."""

import random
import re
from typing import Any

_MAX_DEPTH = 5
_PLACE = re.compile(r"<(\w+)>")
_WRONG_TYPES = 0.03
_WRAPPED = 0.08
_MUTATED = 0.06
_CHARACTERS = "()[]{}.,?:!-+*/%<>=&|\"'0123456789axe \n`\\@"

_TEMPLATES: dict[str, list[str]] = {
    "bool": [
        *("<attribute> == <string>", "<attribute> == <int>", "<attribute> == <bool>", "<attribute> != <attribute>"),
        *("<attribute>", "<int> == <int>", "<string> == <string>", "<double> < <int>", "<int> <= <int>", "<any> == <any>"),
        *("<string> < <string>", "<uint> > <int>", "<bool> && <bool>", "<bool> || <bool>", "!<bool>", "(<bool>)"),
        *("<bool> ? <bool> : <bool>", "has(<inner>.model)", "has(<inner>.nope)", "has(device.attributes.nope)"),
        *("<string> in device.attributes", "<string> in <inner>", "<int> in <ints>", "<string> in <strings>"),
        *("<attribute> in <strings>", "<attribute> in [1, 2, 3]", "<any> in [<any>, <any>]", "<string>.matches(<pattern>)"),
        *("matches(<string>, <pattern>)", "<string>.contains(<string>)", "<string>.startsWith(<string>)"),
        *("<attribute>.endsWith(<string>)", "<quantity>.isGreaterThan(<quantity>)", "<quantity>.isLessThan(<quantity>)"),
        *("<quantity> == <quantity>", "<quantity>.isInteger()", "isQuantity(<string>)", "<version>.isGreaterThan(<version>)"),
        *("<attribute>.isLessThan(<version>)", "<version> == <version>", "isSemver(<string>)", "isSemver(<string>, <bool>)"),
        *("<ints>.all(x, <bool[x:int]>)", "<ints>.exists(x, <bool[x:int]>)", "<ints>.exists_one(x, <bool[x:int]>)"),
        *("<strings>.exists(x, <bool[x:string]>)", "<strings>.all(x, <bool[x:string]>)", "<attribute>.exists(x, <bool[x:any]>)"),
        *("<inner>.exists(x, <bool[x:string]>)", "<inner>.all(x, y, <bool[y:any]>)", "<strings>.exists(x, y, <bool[y:string]>)"),
        *("<ints>.isSorted()", "<optional>.hasValue()", "<optional>.orValue(<bool>)", "cel.bind(x, <inner>, x.model == <string>)"),
        *("cel.bind(x, <int>, <bool[x:int]>)", "sets.contains(<ints>, <ints>)", "sets.intersects(<strings>, <strings>)"),
        *("sets.equivalent(<ints>, <ints>)", "<attribute>.includes(<any>)", "<ints>.includes(<int>)", "<ints> == <ints>"),
        *("<map> == <map>", "<string> in <map>", "device.allowMultipleAllocations", "type(<any>) == type(<any>)"),
        *("type(<any>) == int", "<ip> == <ip>", "isIP(<string>)", "isCIDR(<string>)", "<cidr>.containsIP(<ip>)"),
        *("<cidr>.containsIP(<string>)", "<cidr>.containsCIDR(<cidr>)", "<ip>.isLoopback()", "<ip>.isGlobalUnicast()"),
        *("<ip>.isLinkLocalUnicast()", "<ip>.isLinkLocalMulticast()", "<ip>.isUnspecified()", "ip.isCanonical(<string>)"),
        *("true", "false", "device.driver == <string>", "bool(<string>)", "<bytes> == <bytes>", "<optional> == <optional>"),
        *("<attribute> < <int>", "<attribute> >= <string>", "<attribute> && <bool>", "<any> == null", "<double> == <double>"),
    ],
    "attribute": [
        *('device.attributes["gpu.example.com"].model', 'device.attributes["gpu.example.com"].index'),
        *('device.attributes["gpu.example.com"]["driver-version"]', 'device.attributes["other.io"].flag'),
        *('device.attributes["gpu.example.com"].ints', 'device.attributes["gpu.example.com"].nope', "<inner>.strings"),
        *('device.attributes["nope.io"].model', "<inner>.versions", "<inner>.model", "<inner>[<string>]"),
        *("device.attributes[<string>].model", "device.attributes[device.driver].model", "<inner>.index"),
    ],
    "inner": [
        *('device.attributes["gpu.example.com"]', 'device.attributes["other.io"]', 'device.attributes["nope.io"]'),
        *("device.attributes[device.driver]", "device.attributes[<string>]"),
    ],
    "int": [
        *("0", "1", "2", "3", "-1", "7", "9223372036854775807", "-9223372036854775808", "<int> + <int>", "<int> - <int>"),
        *("<int> * <int>", "<int> / <int>", "<int> % <int>", "-<int>", "size(<string>)", "<ints>.size()", "<string>.size()"),
        *("size(device.attributes)", "<inner>.size()", "int(<string>)", "int(<double>)", "int(<uint>)", "int(<attribute>)"),
        *("<quantity>.compareTo(<quantity>)", "<quantity>.asInteger()", "sign(<quantity>)", "<version>.major()"),
        *("<version>.minor()", "<version>.patch()", "<version>.compareTo(<version>)", "<string>.indexOf(<string>)"),
        *("<string>.lastIndexOf(<string>)", "<string>.indexOf(<string>, <int>)", "<string>.lastIndexOf(<string>, <int>)"),
        *("<ints>.sum()", "<ints>.min()", "<ints>.max()", "<ints>.indexOf(<int>)", "<ints>.lastIndexOf(<int>)", "<ints>[<int>]"),
        *("<bool> ? <int> : <int>", "<optional>.orValue(<int>)", "<map>.a", "<map>[<string>]", "<attribute> + <int>"),
        *("cel.bind(x, <int>, <int[x:int]>)", "<ip>.family()", "<cidr>.prefixLength()", "<bytes>.size()", "0x1F", "<map>.size()"),
    ],
    "small": ["-1", "0", "2", "5"],  # of lists.range(), since Go exhausts the memory for large numbers
    "uint": ["0u", "1u", "18446744073709551615u", "<uint> + <uint>", "<uint> - <uint>", "uint(<int>)", "<uint> / <uint>", "uint(<string>)", "<uint> % <uint>"],
    "double": [
        *("0.0", "1.0", "1.5", "-2.5", "1e300", "<double> + <double>", "<double> / <double>", "double(<int>)", "double(<string>)"),
        *("<double> * <double>", "-<double>", "<quantity>.asApproximateFloat()", "double(<uint>)", "[<double>, <double>].max()"),
        "[<double>, <double>].sum()",
    ],
    "string": [
        *('"h100"', '"a100"', '"gpu.example.com"', '"other.io"', '"model"', '""', '"3"', '"1.10.2"', "'a,b,c'", '"H\\u00e9llo"'),
        *('"v1.2"', '"40Gi"', '"10.0.0.1"', '"::1"', '"true"', '"index"', '"1.5"', "r'a\\d'", "device.driver", "string(<int>)"),
        *("string(<double>)", "string(<bool>)", "string(<uint>)", "string(<ip>)", "string(<cidr>)", "string(<bytes>)"),
        *("<string> + <string>", "<string>.lowerAscii()", "<string>.upperAscii()", "<string>.trim()", "<string>.charAt(<int>)"),
        *("<string>.substring(<int>)", "<string>.substring(<int>, <int>)", "<string>.replace(<string>, <string>)"),
        *("<string>.replace(<string>, <string>, <int>)", "<strings>.join()", "<strings>.join(<string>)", "<string>.find(<pattern>)"),
        *("<bool> ? <string> : <string>", "<optional>.orValue(<string>)", "strings.quote(<string>)", "<attribute> + <string>"),
        *("<strings>[<int>]", "string(<attribute>)", "<strings>.max()", "<attribute>"),
    ],
    "ints": [
        *("[]", "[1]", "[1, 2, 3]", "[3, 1, 2]", "[<int>, <int>]", "<ints> + <ints>", "<ints>.map(x, <int[x:int]>)"),
        *("<ints>.filter(x, <bool[x:int]>)", "<strings>.map(x, size(x))", "<ints>.map(x, <bool[x:int]>, <int[x:int]>)"),
        *("lists.range(<small>)", "lists.range(3)", "<ints>.sort()", "<ints>.sortBy(x, <int[x:int]>)", "<ints>.reverse()"),
        *("<ints>.distinct()", "<ints>.slice(<int>, <int>)", "[<ints>, <ints>].flatten()", "<bool> ? <ints> : <ints>"),
        *("<ints>.transformList(x, y, <int[y:int]>)", "[?<optional>, <int>]", 'device.attributes["gpu.example.com"].ints'),
        *("[[1, <int>], [2]].flatten(<int>)", "optional.unwrap([<optional>])", "[<optional>].unwrapOpt()"),
    ],
    "strings": [
        *("[<string>, <string>]", '["h100", "a100"]', "<string>.split(<string>)", "<string>.split(<string>, <int>)"),
        *("<string>.findAll(<pattern>)", "<string>.findAll(<pattern>, <int>)", "<strings>.sort()", "<strings>.reverse()"),
        *("<strings>.map(x, <string[x:string]>)", "<ints>.map(x, string(x))", "<strings>.distinct()", "<strings> + <strings>"),
        *("<inner>.map(x, x).sort()", 'device.attributes["gpu.example.com"].strings', "<strings>.filter(x, <bool[x:string]>)"),
    ],
    "map": [
        *('{"a": 1}', '{"a": <int>, "b": <int>}', "{}", '{<string>: <int>}', '{?"a": <optional>}', "<ints>.transformMapEntry(x, y, {string(x): y})"),
        *("<map>.transformMap(x, y, <int[y:int]>)", '{"a": 1, "b": 2}.transformMap(x, y, <bool[y:int]>, y)'),
    ],
    "optional": [
        *("<inner>.?model", "<inner>.?nope", "<inner>[?<string>]", "device.attributes[?<string>]", "<ints>[?<int>]"),
        *("optional.of(<any>)", "optional.none()", "optional.ofNonZeroValue(<any>)", "<optional>.or(<optional>)"),
        *("<optional>.optMap(x, <any[x:any]>)", "<optional>.optFlatMap(x, <optional[x:any]>)", "<ints>.first()", "<ints>.last()"),
        *('device.attributes[?<string>].?model', '<map>.?a', '<map>[?<string>]', 'device.?attributes["gpu.example.com"].model'),
    ],
    "quantity": [
        *('quantity("1")', 'quantity("40Gi")', 'quantity("3000m")', 'quantity("1.5")', 'quantity("9223372036854775807")'),
        *('quantity("1e3")', 'quantity("-5Ki")', 'quantity("100n")', 'device.capacity["gpu.example.com"].memory'),
        *('device.capacity["gpu.example.com"].nope', 'device.capacity["other.io"].slots', "<quantity>.add(<quantity>)"),
        *("<quantity>.sub(<quantity>)", "<quantity>.add(<int>)", "<quantity>.sub(<int>)", "quantity(<string>)"),
        *('device.capacity[<string>].memory', 'device.capacity["gpu.example.com"].?memory.orValue(<quantity>)', "<bool> ? <quantity> : <quantity>"),
    ],
    "version": [
        *('semver("1.10.2")', 'semver("1.9.0")', 'semver("1.10.2-rc.1+b")', 'semver("2.0.0-alpha")', "semver(<string>)"),
        *('semver(<string>, <bool>)', 'device.attributes["gpu.example.com"]["driver-version"]', 'semver("v01.2", true)'),
    ],
    "bytes": ["b'abc'", "b''", "b'\\xff'", "bytes(<string>)", "<bytes> + <bytes>"],
    "ip": ['ip("127.0.0.1")', 'ip("10.1.2.3")', 'ip("::1")', 'ip("fe80::1")', "ip(<string>)", "<cidr>.ip()", 'ip("224.0.0.1")'],
    "cidr": ['cidr("10.0.0.0/8")', 'cidr("10.1.2.3/16")', 'cidr("fe80::/10")', "cidr(<string>)", "<cidr>.masked()"],
    "pattern": [
        *('"^h[0-9]+$"', '"[a-z]+"', '"("', '"."', '""', '"(?i)H"', '"a|b|"', "r'\\d+'", "<string>", "'x*'", "r'(?P<n>\\w)\\b'", "'\\\\pL{2,3}'"),
        *("r'^[[:alpha:]]'", "'(a+)+$'", "'a{1001}'", "r'\\Qa.b\\E'", "'(?<n>a)'", "'\\\\C'", "'a**'"),
    ],
    "any": [
        *("<int>", "<string>", "<bool>", "<attribute>", "<double>", "<uint>", "<quantity>", "<version>", "<ints>", "<map>", "null"),
        *("<optional>", "<bytes>", "dyn(<int>)", "dyn(<string>)", "device", "<ip>"),
    ],
}  # fmt: skip
_SIMPLE = {kind: [each for each in found if "<" not in each or "<n>" in each] for kind, found in _TEMPLATES.items()}
_SIMPLE["any"] = ["1", '"a"', "null", "1.0", "1u", "true"]
_SIMPLE["optional"] = ["optional.none()", "optional.of(1)"]

_VALUES: tuple[dict[str, Any], ...] = (
    *({"string": "h100"}, {"string": "a100"}, {"string": ""}, {"int": 3}, {"int": -1}, {"int": 9223372036854775807}),
    *(
        {"bool": True},
        {"bool": False},
        {"version": "1.10.2"},
        {"version": "1.9.0-rc.1"},
        {"ints": [1, 2, 3]},
        {"ints": []},
    ),
    *({"strings": ["a", "h100"]}, {"bools": [True]}, {"versions": ["1.0.0"]}),
)
_AMOUNTS = ("40Gi", "80Gi", "1", "3000m", "0", "1e3", "9223372036854775807", "1.5", "12345678901234567890123")


class _Drawer:
    """A source of expressions, with the names that are in scope and their types."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._names: list[tuple[str, str]] = []

    def draw(self, kind: str, depth: int) -> str:
        rng = self._rng
        if rng.random() < _WRONG_TYPES:
            kind = rng.choice(sorted(_TEMPLATES)) if kind != "small" else kind
        local = [name for name, each in self._names if each in {kind, "any"} or kind == "any"]
        if local and rng.random() < 0.4:
            return rng.choice(local)
        template = rng.choice(_TEMPLATES[kind] if depth else _SIMPLE[kind])
        text = re.sub(r"<(\w+)(?:\[(\w):(\w+)\])?>", lambda match: self._fill(match, depth), template)
        if rng.random() < _WRAPPED:
            return f"dyn({text})"
        return f"({text})" if " " in text and not text.startswith(('"', "'")) else text

    def _fill(self, match: re.Match[str], depth: int) -> str:
        kind, name, name_kind = match.groups()
        if kind not in _TEMPLATES:
            return match[0]
        if name is None:
            return self.draw(kind, max(depth - 1, 0))
        self._names.append((name, name_kind))
        text = self.draw(kind, max(depth - 1, 0))
        self._names.pop()
        return text


def _mutate(rng: random.Random, text: str) -> str:
    """Return the text with a character inserted, removed or changed."""
    place = rng.randint(0, len(text))
    return text[:place] + rng.choice(["", rng.choice(_CHARACTERS)]) + text[place + rng.randint(0, 1) :]


def _draw_device(rng: random.Random) -> dict[str, Any]:
    """Return a device as a ResourceSlice has it, with the name of its driver."""
    names = ("model", "index", "driver-version", "other.io/flag", "ints", "strings", "versions", "gpu.example.com/a")
    device: dict[str, Any] = {
        "driver": rng.choice(["gpu.example.com", "gpu.example.com", "other.io"]),
        "attributes": {name: rng.choice(_VALUES) for name in names if rng.random() < 0.6},
        "capacity": {
            name: {"value": rng.choice(_AMOUNTS)} for name in ("memory", "other.io/slots") if rng.random() < 0.7
        },
    }
    if rng.random() < 0.5:
        device["attributes"] |= {"model": {"string": "h100"}, "driver-version": {"version": "1.10.2-rc.1+b"}}
        device["attributes"] |= {"ints": {"ints": [1, 2, 3]}, "strings": {"strings": ["a", "b"]}, "index": {"int": 3}}
    if rng.random() < 0.5:
        device["allowMultipleAllocations"] = rng.random() < 0.5
    return device


def draw_question(rng: random.Random) -> dict[str, Any]:
    """Return an expression and three devices."""
    text = _Drawer(rng).draw("bool", rng.randint(1, _MAX_DEPTH))
    if text.startswith("(") and text.endswith(")") and rng.random() < 0.5:
        text = text[1:-1]
    if rng.random() < _MUTATED:
        text = _mutate(rng, text)
    return {"expression": text, "devices": [_draw_device(rng) for _ in range(3)]}
