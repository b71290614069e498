"""Functions of expressions with the types of their arguments, as the type checker knows them.

Sources: common/stdlib/standard.go, ext/{strings,lists,sets,comprehensions}.go and cel/library.go of cel-go v0.26;
k8s.io/apiserver/pkg/cel/library and pkg/cel/environment/base.go v1.36; dynamic-resource-allocation/cel/compile.go.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from tallygate.accounting.cel.cel_types import CelType

_OPERATORS = """
_?_:_ (bool, A, A) A
_&&_ (bool, bool) bool
_||_ (bool, bool) bool
!_ (bool) bool
@not_strictly_false (bool) bool
_==_ (A, A) bool
_!=_ (A, A) bool
_+_ (bytes, bytes) bytes
_+_ (double, double) double
_+_ (duration, duration) duration
_+_ (duration, timestamp) timestamp
_+_ (timestamp, duration) timestamp
_+_ (int, int) int
_+_ (list<A>, list<A>) list<A>
_+_ (string, string) string
_+_ (uint, uint) uint
_/_ (double, double) double
_/_ (int, int) int
_/_ (uint, uint) uint
_%_ (int, int) int
_%_ (uint, uint) uint
_*_ (double, double) double
_*_ (int, int) int
_*_ (uint, uint) uint
-_ (double) double
-_ (int) int
_-_ (double, double) double
_-_ (duration, duration) duration
_-_ (int, int) int
_-_ (timestamp, duration) timestamp
_-_ (timestamp, timestamp) duration
_-_ (uint, uint) uint
_[_] (list<A>, int) A
_[_] (map<A, B>, A) B
_[_] (optional<list<V>>, int) optional<V>
_[_] (optional<map<K, V>>, K) optional<V>
_[?_] (list<V>, int) optional<V>
_[?_] (optional<list<V>>, int) optional<V>
_[?_] (map<K, V>, K) optional<V>
_[?_] (optional<map<K, V>>, K) optional<V>
@in (A, list<A>) bool
@in (A, map<A, B>) bool
"""

_CONVERSIONS = """
type (A) type<A>
bool (bool) bool
bool (string) bool
bytes (bytes) bytes
bytes (string) bytes
double (double) double
double (int) double
double (string) double
double (uint) double
duration (duration) duration
duration (int) duration
duration (string) duration
dyn (A) dyn
int (int) int
int (double) int
int (duration) int
int (string) int
int (timestamp) int
int (uint) int
string (string) string
string (bool) string
string (bytes) string
string (double) string
string (duration) string
string (int) string
string (timestamp) string
string (uint) string
string (ip) string
string (cidr) string
timestamp (timestamp) timestamp
timestamp (int) timestamp
timestamp (string) timestamp
uint (uint) uint
uint (double) uint
uint (int) uint
uint (string) uint
"""

_STRINGS = """
size (bytes) int
size (list<A>) int
size (map<A, B>) int
size (string) int
.size (bytes) int
.size (list<A>) int
.size (map<A, B>) int
.size (string) int
.contains (string, string) bool
.endsWith (string, string) bool
.startsWith (string, string) bool
matches (string, string) bool
.matches (string, string) bool
.charAt (string, int) string
.indexOf (list<A>, A) int
.indexOf (string, string) int
.indexOf (string, string, int) int
.lastIndexOf (list<A>, A) int
.lastIndexOf (string, string) int
.lastIndexOf (string, string, int) int
.lowerAscii (string) string
.upperAscii (string) string
.replace (string, string, string) string
.replace (string, string, string, int) string
.split (string, string) list<string>
.split (string, string, int) list<string>
.substring (string, int) string
.substring (string, int, int) string
.trim (string) string
strings.quote (string) string
.join (list<string>) string
.join (list<string>, string) string
.find (string, string) string
.findAll (string, string) list<string>
.findAll (string, string, int) list<string>
"""

_LISTS = """
.slice (list<T>, int, int) list<T>
.flatten (list<list<T>>) list<T>
.flatten (list<dyn>, int) list<dyn>
lists.range (int) list<int>
.reverse (list<T>) list<T>
.distinct (list<T>) list<T>
.includes (dyn, dyn) bool
sets.contains (list<T>, list<T>) bool
sets.equivalent (list<T>, list<T>) bool
sets.intersects (list<T>, list<T>) bool
cel.@mapInsert (map<K, V>, K, V) map<K, V>
cel.@mapInsert (map<K, V>, map<K, V>) map<K, V>
optional.of (V) optional<V>
optional.ofNonZeroValue (V) optional<V>
optional.none () optional<V>
.value (optional<V>) V
.hasValue (optional<V>) bool
.or (optional<V>, optional<V>) optional<V>
.orValue (optional<V>, V) V
.last (list<V>) optional<V>
.first (list<V>) optional<V>
optional.unwrap (list<optional<V>>) list<V>
.unwrapOpt (list<optional<V>>) list<V>
"""

_KUBERNETES = """
quantity (string) quantity
isQuantity (string) bool
sign (quantity) int
.isGreaterThan (quantity, quantity) bool
.isGreaterThan (semver, semver) bool
.isLessThan (quantity, quantity) bool
.isLessThan (semver, semver) bool
.compareTo (quantity, quantity) int
.compareTo (semver, semver) int
.asApproximateFloat (quantity) double
.asInteger (quantity) int
.isInteger (quantity) bool
.add (quantity, quantity) quantity
.add (quantity, int) quantity
.sub (quantity, quantity) quantity
.sub (quantity, int) quantity
semver (string) semver
semver (string, bool) semver
isSemver (string) bool
isSemver (string, bool) bool
.major (semver) int
.minor (semver) int
.patch (semver) int
ip (string) ip
.family (ip) int
ip.isCanonical (string) bool
.isUnspecified (ip) bool
.isLoopback (ip) bool
.isLinkLocalMulticast (ip) bool
.isLinkLocalUnicast (ip) bool
.isGlobalUnicast (ip) bool
isIP (string) bool
cidr (string) cidr
.containsIP (cidr, string) bool
.containsIP (cidr, ip) bool
.containsCIDR (cidr, string) bool
.containsCIDR (cidr, cidr) bool
.ip (cidr) ip
.prefixLength (cidr) int
.masked (cidr) cidr
isCIDR (string) bool
"""

# The order matters: an empty list is a list of the first type that a function has.
_ORDERED = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_COMPARED = (
    *("bool, bool", "int, int", "int, double", "int, uint", "uint, uint", "uint, double", "uint, int"),
    *("double, double", "double, int", "double, uint", "string, string", "bytes, bytes", "timestamp, timestamp"),
    "duration, duration",
)
_SUMMABLE = ("int", "uint", "double", "duration")
_SHORT_NAMES = {
    "optional": "optional_type",
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
    "quantity": "kubernetes.Quantity",
    "semver": "kubernetes.Semver",
    "ip": "net.IP",
    "cidr": "net.CIDR",
}
_PART = re.compile(r"[A-Za-z]+|[<>,]")

UNSUPPORTED: Final = frozenset(
    (
        *("duration", "timestamp", "format", "format.named", "validate", "url", "isURL", "getScheme", "getHost"),
        *("getHostname", "getPort", "getEscapedPath", "getQuery", "getFullYear", "getMonth", "getDayOfYear", "getDate"),
        *("getDayOfMonth", "getDayOfWeek", "getHours", "getMinutes", "getSeconds", "getMilliseconds", "check"),
        *("allowed", "reason", "errored", "error", "path", "group", "resource", "subresource", "namespace", "name"),
        *("serviceAccount", "fieldSelector", "labelSelector"),
    )
)
"""Functions that Kubernetes has and this package has not: times, URLs, formats, and questions to an authorizer."""


class Overload(NamedTuple):
    """One form of a function: the types of the arguments, with that of the target first, and of the result."""

    parameters: tuple[CelType, ...]
    result: CelType
    is_method: bool
    type_parameters: tuple[CelType, ...]


def _parse_types(text: str) -> tuple[CelType, ...]:
    """Parse types that are separated by commas; an angle bracket encloses the parameters of the type before it."""
    levels: list[list[CelType]] = [[]]
    for part in _PART.findall(text):
        if part == "<":
            levels.append([])
        elif part == ">":
            parameters = levels.pop()
            levels[-1][-1] = CelType(levels[-1][-1].name, tuple(parameters))
        elif part != ",":
            levels[-1].append(CelType(f"${part}" if len(part) == 1 else _SHORT_NAMES.get(part, part)))
    return tuple(levels[0])


def _find_parameters(kinds: tuple[CelType, ...]) -> Iterator[CelType]:
    for kind in kinds:
        if kind.is_parameter:
            yield kind
        yield from _find_parameters(kind.parameters)


def _parse_line(line: str) -> tuple[str, Overload]:
    """Parse a line of a table: name, parameters and result."""
    name, _, rest = line.partition(" (")
    parameters, _, result = rest.partition(") ")
    kinds, (result_kind,) = _parse_types(parameters), _parse_types(result)
    names = tuple(dict.fromkeys(_find_parameters((*kinds, result_kind))))
    return name.removeprefix("."), Overload(kinds, result_kind, name.startswith("."), names)


def _list_lines() -> Iterator[str]:
    """Yield all lines, with those that exist for several types."""
    for table in (_OPERATORS, _CONVERSIONS, _STRINGS, _LISTS, _KUBERNETES):
        yield from table.split("\n")
    for operator in ("<", "<=", ">", ">="):
        yield from (f"_{operator}_ ({kinds}) bool" for kinds in _COMPARED)
    for kind in _ORDERED:
        yield f".isSorted (list<{kind}>) bool"
        yield f".max (list<{kind}>) {kind}"
        yield f".min (list<{kind}>) {kind}"
        yield f".sort (list<{kind}>) list<{kind}>"
        yield f".@sortByAssociatedKeys (list<T>, list<{kind}>) list<T>"
    yield from (f".sum (list<{kind}>) {kind}" for kind in _SUMMABLE)


def _build_functions() -> Mapping[str, tuple[Overload, ...]]:
    functions: dict[str, tuple[Overload, ...]] = {}
    for line in filter(None, _list_lines()):
        name, overload = _parse_line(line)
        functions[name] = (*functions.get(name, ()), overload)
    return functions


FUNCTIONS: Final = _build_functions()
"""The overloads of each function, operator and method."""
