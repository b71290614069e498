"""The variables of an admission policy that all rules read: the lists of resources of an object, as CEL.

`lists` are the places of an object with resource lists: containers, the pod level, the overhead of a pod, the items of
a LimitRange, a ResourceQuota. `holders` are the same places with their entries. An entry is one quantity, as
`tallygate.admission.resource_fields` has it: a limit that is written as the request is no entry of its own.

An amount `m` is in thousandths, as an API server stores it (SetDefaults_ResourceList in pkg/apis/core/v1/defaults.go).
`exact` is false of an amount from 9e12 units on, which `m` is not more than, and of one that Kubernetes keeps as a
decimal beside that; a negative amount is -1.

An object variable is written with `dyn`, since the type checker of an API server knows the fields of each kind, and
the objects are of several kinds.
"""

from typing import Final

from tallygate.accounting.names import ATTACHABLE_VOLUMES_PREFIX, HUGEPAGES_PREFIX, OPAQUE_PREFIX, REQUESTS_PREFIX
from tallygate.accounting.quantity_parser import INT64_MAX
from tallygate.admission.cel_texts import KIND, quote

MILLI: Final = 1000
MAX_UNITS: Final = 9_000_000_000_000
"""The units from which on an amount is not exact: 9e12."""

MAX_LISTS: Final = 40
"""The containers of a pod, or the items of a LimitRange, of the largest object that rules are evaluated for."""
MAX_ENTRIES: Final = 160
"""The quantities of the largest object that rules are evaluated for."""
MAX_NAME_LENGTH: Final = 128
"""The characters of the longest name of a resource that rules are evaluated for."""

MAX_ALTERNATIVES: Final = 256
"""The alternatives of the largest claim: 32 requests with 8 each (limits in k8s.io/api resource/v1, v1.37)."""

EXTENDED: Final = "extended"
OPAQUE: Final = "opaque"

IS_UPDATE: Final = "request.operation == 'UPDATE'"
IS_CLAIM: Final = f"{KIND} in ['ResourceClaim', 'ResourceClaimTemplate']"

_MAX_EXACT_FRACTION = 10_000_000_000  # units: a double keeps the thousandths of fewer
WHOLE_TEXT: Final = "^[-+]?[0-9]+([kMGTPE]|[KMGTPE]i|[eE][+]?[0-9]+)?$"
"""A pattern of texts of whole amounts, among those that an API server writes."""
_INDICES = ", ".join(map(str, range(MAX_LISTS)))


def _template(document: str) -> str:
    return (
        f"[dyn({document})].map(o, o.?spec.?jobTemplate.?spec.?template"
        ".or(o.?spec.?template).or(o.?template).orValue(o))[0]"
    )


def _labels(template: str) -> str:
    return (
        f"{KIND} == 'ResourceClaimTemplate' ? {template}.?spec.?metadata.?labels.orValue({{}})"
        f" : {template}.?metadata.?labels.orValue({{}})"
    )


def format_list(value: str) -> str:
    """Return the list at an optional value; a list that Kubernetes writes as null is empty."""
    return f"({value}.orValue(null) == null ? [] : {value}.orValue([]))"


def _record(place: str, role: str, requests: str, limits: str = "dyn({})") -> str:
    return f"{{'place': dyn({place}), 'role': dyn({role}), 'requests': {requests}, 'limits': {limits}}}"


def _pod_lists(template: str) -> str:
    requests, limits = "c.?resources.?requests.orValue({})", "c.?resources.?limits.orValue({})"
    role = "c.?restartPolicy.orValue('') == 'Always' ? 'sidecar' : 'init'"
    container = _record("'container ' + c.name", "'container'", requests, limits)
    init_container = _record("'init container ' + c.name", role, requests, limits)
    pod_level = _record("'spec.resources'", "'pod'", "r.?requests.orValue({})", "r.?limits.orValue({})")
    overhead = _record("'spec.overhead'", "'overhead'", "r")
    parts = (
        f"{format_list(f'{template}.?spec.?containers')}.map(c, {container})",
        f"{format_list(f'{template}.?spec.?initContainers')}.map(c, {init_container})",
        f"[?{template}.?spec.?resources].map(r, {pod_level})",
        f"[?{template}.?spec.?overhead].map(r, {overhead})",
    )
    return " + ".join(parts)


def _quota_lists(template: str) -> str:
    record = _record("'spec.hard'", "'quota'", "r")
    return f"[?{template}.?spec.?hard].map(r, {record})"


def _limit_range_lists(template: str) -> str:
    records = (
        _record(f"'{field} of type ' + i.type", "'range'", f"i.?{field}.orValue({{}})")
        for field in ("max", "min", "default", "defaultRequest")
    )
    items = format_list(f"{template}.?spec.?limits")
    return " + ".join(f"{items}.map(i, {record})" for record in records)


def _lists(template: str) -> str:
    """Return the lists of an object; none of a larger one than rules are evaluated for."""
    fields = (f"{template}.?spec.?{field}" for field in ("containers", "initContainers", "limits"))
    sizes = " + ".join(f"int({format_list(field)}.size())" for field in fields)
    return (
        f"{sizes} > {MAX_LISTS} || {IS_CLAIM} ? [] : {KIND} == 'ResourceQuota' ? {_quota_lists(template)}"
        f" : {KIND} == 'LimitRange' ? {_limit_range_lists(template)} : {_pod_lists(template)}"
    )


_AMOUNT = (
    "q.isLessThan(quantity('0')) ? -1"
    f" : q.isInteger() ? (q.asInteger() < {MAX_UNITS} ? q.asInteger() * {MILLI} : {MAX_UNITS * MILLI})"
    f" : q.isGreaterThan(quantity('{MAX_UNITS}')) ? {MAX_UNITS * MILLI}"
    f" : q.asApproximateFloat() < {_MAX_EXACT_FRACTION}.0 ? int(q.asApproximateFloat() * {MILLI}.0 + 0.5)"
    f" : (int(q.asApproximateFloat()) - 1) * {MILLI}"
)
_IS_EXACT = f"q.isInteger() ? q.asInteger() < {MAX_UNITS} : q.compareTo(quantity(string(m) + 'm')) == 0"
_FAMILY = (
    f"n.startsWith({quote(OPAQUE_PREFIX)}) ? '{OPAQUE}'"
    f" : n.contains('/') && !n.startsWith('{HUGEPAGES_PREFIX}') && !n.startsWith('{ATTACHABLE_VOLUMES_PREFIX}')"
    f" && !n.startsWith('{REQUESTS_PREFIX}') && !n.startsWith('kubernetes.io/') && !n.contains('.kubernetes.io/')"
    f" ? '{EXTENDED}' : ''"
)
_WITHOUT_PREFIX = (
    "h.role != 'quota' ? k : [k.startsWith('requests.') ? k.substring(9) : k]"
    ".map(x, x.startsWith('limits.') ? x.substring(7) : x)[0]"
)


def _entries(field: str, condition: str, is_old: str) -> str:
    """Return the entries of one list; `k` is the written name, `n` the name without the prefix of a quota."""
    fields = {
        "name": "dyn(n)",
        "amount": f"h.{field}[k]",
        "field": f"dyn('{field}')",
        "limit": "dyn(h.limits[?k].orValue(''))",
        "isOld": f"dyn(old.exists(o, {is_old}))",
        "isOldPair": "dyn(old.exists(o, o.requests[?k] == h.requests[?k] && o.limits[?k] == h.limits[?k]))",
        "family": f"dyn({_FAMILY})",
        "m": "dyn(m)",
        "exact": f"dyn({_IS_EXACT})",
    }
    entry = "{" + ", ".join(f"'{name}': {value}" for name, value in fields.items()) + "}"
    return (
        f"h.{field}.map(k, k.size() <= {MAX_NAME_LENGTH}{condition},"
        f" [{_WITHOUT_PREFIX}].map(n, [quantity(h.{field}[k])].map(q, [{_AMOUNT}].map(m, {entry})[0])[0])[0])"
    )


_HOLDERS = (
    "variables.lists.map(h, [variables.oldLists.filter(o, o.place == h.place)].map(old,"
    " {'place': h.place, 'role': h.role, 'entries': dyn("
    + _entries("requests", "", "k in o.requests && o.requests[k] == h.requests[k]")
    + " + "
    + _entries(
        "limits",
        " && (!(k in h.requests) || h.requests[k] != h.limits[k])",
        "k in o.limits && o.limits[k] == h.limits[k] && o.requests[?k] != o.limits[?k]",
    )
    + ")})[0])"
)
_SIZE = "variables.lists.map(h, int(h.requests.size()) + int(h.limits.size())).sum()"
_IS_READABLE = (
    "(variables.lists + variables.oldLists).all(h, [h.requests, h.limits].all(r, r.all(k, isQuantity(r[k]))))"
)

VARIABLES: Final = {
    "template": _template("object"),
    "oldTemplate": f"{IS_UPDATE} ? {_template('oldObject')} : dyn({{}})",
    "labels": _labels("variables.template"),
    "oldLabels": _labels("variables.oldTemplate"),
    "lists": f"{IS_UPDATE} && variables.template == variables.oldTemplate ? [] : {_lists('variables.template')}",
    "oldLists": _lists("variables.oldTemplate"),
    "holders": f"{_SIZE} <= {MAX_ENTRIES} && {_IS_READABLE} ? {_HOLDERS} : []",
}
"""The expressions of the variables by name, in their order. A list is empty of an object that is not evaluated."""


def format_total(lists: str, name: str) -> str:
    """Return the effective request of a pod for a name, in thousandths, by its lists.

    It is 0 if it has no form: for a name of the pod level that only the containers request, where the pod level has
    other amounts. Source: PodRequests in component-helpers resource/helpers.go, v1.36.
    """
    amount = f"[quantity({_format_request('h', name)})].map(q, {_AMOUNT})[0]"
    sidecars = f"{lists}.filter(h, h.role == 'sidecar' && {_requests('h', name)})"
    running = f"{lists}.filter(h, h.role in ['container', 'sidecar'] && {_requests('h', name)}).map(h, {amount}).sum()"
    inits = f"{lists}.filter(h, h.role in ['init', 'sidecar'])"
    before = (
        f"[{_INDICES}].filter(j, j < i && inits[j].role == 'sidecar' && {_requests('inits[j]', name)})"
        f".map(j, inits[j]).map(h, {amount}).sum()"
    )
    steps = (
        f"[{inits}].map(inits, [{_INDICES}].filter(i, i < inits.size() && inits[i].role == 'init')"
        f".map(i, [inits[i]].map(h, {amount})[0] + {before}))[0]"
    )
    peak = (
        f"{lists}.exists(h, h.role == 'init' && {_requests('h', name)})"
        f" ? ({sidecars}.size() > 0 ? {steps}"
        f" : {lists}.filter(h, h.role == 'init' && {_requests('h', name)}).map(h, {amount})).max() : 0"
    )
    overhead = f"{lists}.filter(h, h.role == 'overhead' && {_requests('h', name)}).map(h, {amount}).sum()"
    pod_level = f"{lists}.filter(h, h.role == 'pod').map(h, {amount}).sum()"
    containers = f"[{running}, {peak}].max()"
    is_pod_level = f"({name} in ['cpu', 'memory'] || {name}.startsWith('{HUGEPAGES_PREFIX}'))"
    has_amount = "int(h.requests.size()) + int(h.limits.size()) > 0"
    has_pod_level = f"{is_pod_level} && {lists}.exists(h, h.role == 'pod' && {has_amount})"
    is_unknown = f"{lists}.exists(h, h.role == 'pod' && !({name} in h.requests))"
    return f"({has_pod_level} ? ({is_unknown} ? 0 : {pod_level} + {overhead}) : {containers} + {overhead})"


def _requests(holder: str, name: str) -> str:
    return f"({name} in {holder}.requests || {name} in {holder}.limits)"


def _format_request(holder: str, name: str) -> str:
    return f"{holder}.requests[?{name}].or({holder}.limits[?{name}]).orValue('0')"


def format_totals(condition: str) -> str:
    """Return the effective requests of a pod for each name that meets a condition, as a list for each holder.

    `e.name` is the name in the condition. A name with an amount beyond 64 bits is left out, as by the gate, which
    reports that amount alone.
    """
    total, old_total = format_total("variables.lists", "e.name"), format_total("variables.oldLists", "e.name")
    is_exact = (
        f"variables.lists.all(h, !{_requests('h', 'e.name')} || [quantity({_format_request('h', 'e.name')})]"
        f".all(q, [{_AMOUNT}].all(m, {_IS_EXACT})))"
    )
    is_first = f"variables.lists.filter(x, {_requests('x', 'e.name')})[0].place == h.place"
    is_main = "(e.field == 'requests' || !(e.name in l.requests))"
    is_within_int64 = (
        f"!variables.lists.exists(x, [x.requests, x.limits].exists(r, e.name in r"
        f" && quantity(r[e.name]).isGreaterThan(quantity('{INT64_MAX}'))))"
    )
    value = (
        f"[{total}].map(t, {{'name': e.name, 'family': e.family, 'm': dyn(t), 'exact': dyn({is_exact}),"
        f" 'isOld': dyn({IS_UPDATE} && t == {old_total})}})[0]"
    )
    return (
        "variables.holders.filter(h, h.role != 'quota' && h.role != 'range').map(h,"
        f" [variables.lists.filter(l, l.place == h.place)[0]].map(l,"
        f" h.entries.map(e, {condition} && {is_main} && {is_first} && {is_within_int64}, {value}))[0])"
    )
