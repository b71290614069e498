"""Conditions on objects of Kubernetes, by the names of resources in pods, templates, quotas and limit ranges.

A pod is *plain* if its containers name no resource but those of Kubernetes, it names none elsewhere, and it has no
claim. Most pods are. An API server spends 10 microseconds on the test of that, and 70 to 110 on the tests of all lists
of an object under twenty policies. So the test comes first, and the others are evaluated only for what is not plain.
"""

import json
import re
from collections.abc import Sequence
from typing import Final

from tallygate.accounting.gpu_annotations import CONTAINER_MEMORY_PREFIX, KEYS
from tallygate.admission.cel_texts import FALSE, join_all, join_any
from tallygate.admission.workload_texts import NATIVE_NAMES

_DOMAIN_NAME = "[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
EXTENDED_NAME: Final = f"^{_DOMAIN_NAME}/[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?$"
"""A pattern of the names of extended resources, and of some of Kubernetes with a domain."""

_NATIVE_NAMES = json.dumps(list(NATIVE_NAMES))
IS_MALFORMED: Final = (
    f"(!(n in {_NATIVE_NAMES}) && (!n.matches('{EXTENDED_NAME}') || n.contains('kubernetes.io/')"
    " || n.startsWith('requests.')))"
)
"""The test of a name `n` that no resource may have; it is true of rare resources of Kubernetes as well."""

HAS_DOMAIN: Final = "n.contains('/')"
"""The test of a name `n` with a domain."""

_MAX_ITEMS, _MAX_NAMES, _MAX_NAME_LENGTH, _MAX_ANNOTATIONS = 16, 8, 63, 50
_PATTERN = re.compile(r"\.matches\('([^']*)'\)")

# `o` is the object, `t` the pod, or the template of pods in it, or the object again; `c` what has lists of resources:
# a container, an item of a limit range, a pod spec, or the spec of a quota. `n` is the name of a resource.
_TEMPLATE = "{o}.?spec.?jobTemplate.?spec.?template.or({o}.?spec.?template).or({o}.?template).orValue({o})"
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_LISTS_OF_ITEMS = [f"t.?spec.?{name}.orValue([])" for name in (*_CONTAINERS, "limits")]
_ITEMS = ", ".join([*_LISTS_OF_ITEMS, "dyn([t.?spec.orValue({})])"])  # containers first: most often one of them decides
_OF_LIMITS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_LISTS = ", ".join(
    f"c.?{name}.orValue({{}})" for name in ("resources.?requests", "resources.?limits", "overhead", "hard", *_OF_LIMITS)
)
# An API server has null where a list that it always writes is missing, and rejects such an object itself, in its own
# words. A condition that fails would reject it before that, with the whole expression: so the object passes.
_LACKS_LIST = " || ".join(f"t.?spec.?{name}.orValue([]) == null" for name in ("containers", "limits"))
_NAMES_PASS = (
    f"({_LACKS_LIST} || {' + '.join(f'{items}.size()' for items in _LISTS_OF_ITEMS)} > {_MAX_ITEMS}"
    f" || [{_ITEMS}].exists(l, l.exists(c, [{_LISTS}].exists(r, r.size() > {_MAX_NAMES}"
    f" || r.exists(n, n.size() > {_MAX_NAME_LENGTH} || %s)))))"
)
HAS_CLAIMS: Final = "t.?spec.?resourceClaims.orValue([]).size() > 0"
"""The test of a pod or template `t` with claims."""

_IS_GPU_ANNOTATION = f"key in {json.dumps(sorted(KEYS))} || key.startsWith('{CONTAINER_MEMORY_PREFIX}')"
_ANNOTATIONS = "t.?metadata.?annotations.orValue({})"
HAS_GPU_ANNOTATIONS: Final = (
    f"({_ANNOTATIONS}.size() > {_MAX_ANNOTATIONS} || {_ANNOTATIONS}.exists(key, key.size() > {_MAX_NAME_LENGTH}"
    f" || {_IS_GPU_ANNOTATION}))"
)
"""The test of a pod or template `t` with annotations that request parts of GPUs."""

_HAS_NATIVE_NAMES = " && ".join(
    f"(!has(c.resources.{amounts}) || c.resources.{amounts}.all(n, n in {_NATIVE_NAMES}))"
    for amounts in ("requests", "limits")
)
_PLAIN_CONTAINERS = (
    f"{{o}}.spec.{{name}}.size() <= {_MAX_ITEMS}"
    f" && {{o}}.spec.{{name}}.all(c, !has(c.resources) || ({_HAS_NATIVE_NAMES}))"
)
_PLAIN_ANNOTATIONS = (
    f"(!has({{o}}.metadata.annotations) || ({{o}}.metadata.annotations.size() <= {_MAX_ANNOTATIONS}"
    f" && {{o}}.metadata.annotations.all(key, !({_IS_GPU_ANNOTATION}))))"
)
# Only the spec of a pod has containers; a PodTemplate has no spec.
_IS_POD = "has({o}.spec) && has({o}.spec.containers) && {o}.spec.containers != null"
_HAS_NOTHING_ELSE = " && ".join(f"!has({{o}}.spec.{name})" for name in ("resources", "overhead", "resourceClaims"))


def create_object_condition(subjects: Sequence[str], names: str, pods: Sequence[str]) -> str:
    """Return the condition of objects of which one passes a test.

    `subjects` are the variables with objects, `names` is the test of the names `n`, and `pods` are those of the pod or
    template `t`. The names of an object are read once for all tests. An object with long lists or names passes.
    """
    test = join_any((*pods, FALSE if names == FALSE else _NAMES_PASS % names))
    if test == FALSE:
        return FALSE
    if len(subjects) == 1:
        return f"[{_TEMPLATE.format(o=subjects[0])}].exists(t, {test})"
    return f"[{', '.join(subjects)}].exists(o, [{_TEMPLATE.format(o='o')}].exists(t, {test}))"


def create_plain_condition(subjects: Sequence[str], *, reads_annotations: bool) -> str:
    """Return the condition of plain pods: of requests all of whose `subjects`, variables with objects, are plain.

    If it `reads_annotations`, a pod with annotations that request parts of GPUs is not plain.
    """
    return join_all(_create_plain_test(subject, reads_annotations=reads_annotations) for subject in subjects)


def _create_plain_test(subject: str, *, reads_annotations: bool) -> str:
    of_containers, *of_others = (_PLAIN_CONTAINERS.format(o=subject, name=name) for name in _CONTAINERS)
    others = [
        f"(!has({subject}.spec.{name}) || ({test}))" for name, test in zip(_CONTAINERS[1:], of_others, strict=True)
    ]
    annotations = [_PLAIN_ANNOTATIONS.format(o=subject)] if reads_annotations else []
    terms = (_IS_POD.format(o=subject), _HAS_NOTHING_ELSE.format(o=subject), *annotations, of_containers, *others)
    return " && ".join(terms)


def estimate_cost(names: str) -> int:
    """Return the most that a test of the names of one object costs: a pattern is most of it.

    Each character of a pattern costs a fortieth for each character of a text (interpreter/runtimecost.go in cel-go,
    v0.26), and two lists of each container have names.
    """
    in_patterns = sum(map(len, _PATTERN.findall(names)))
    of_name = in_patterns * -(-_MAX_NAME_LENGTH // 40) + len(names) // 8 + 50
    return of_name * (2 * _MAX_ITEMS + 3) * _MAX_NAMES
