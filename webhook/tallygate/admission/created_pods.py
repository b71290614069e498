"""The problems for which an API server rejects the pods of an object: as they are written, or as it completes them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import msgspec

from tallygate.accounting.kubernetes_codes import (
    CLAIM_UNKNOWN,
    LIMIT_MISSING,
    OPAQUE_LIMIT_MISSING,
    OVERHEAD_NOT_OF_CLASS,
)
from tallygate.accounting.pod_defaults import PodDefaults
from tallygate.accounting.problem import Problem, Reason
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.accounting.runtime_classes import find_class_problem
from tallygate.accounting.validation.pod_bounds import check_pod_bounds
from tallygate.accounting.validation.pods import validate_pod
from tallygate.admission.pod_view import PodView
from tallygate.objects.core import PodSpec

_OF_OTHER_PARTS = frozenset({CLAIM_UNKNOWN, LIMIT_MISSING, OPAQUE_LIMIT_MISSING})
"""The codes of problems of which another part of a template may have the remedy."""
_SET_BY_LIMIT_RANGE = " (a LimitRange of the namespace sets what the pod does not write)"


def validate_views(views: Sequence[PodView]) -> list[Problem]:
    """Return the problems that the API server's own validation reports for pods and templates, after its defaulting.

    An API server does not validate the templates in objects of other projects: a controller creates pods of them, and
    then they are rejected. So their problems are those of the pods.
    """
    return [
        problem
        for view in views
        for problem in locate_problems(view, validate_pod(view.pod, "", template=view.is_template))
    ]


def locate_problems(view: PodView, problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield the problems of a pod with their fields in the object.

    A template that is a part lacks what another object may have: claims, and limits of its requests.
    """
    for problem in problems:
        if view.is_partial and problem.code in _OF_OTHER_PARTS:
            continue
        yield replace(problem, field=view.locate(problem.field))


def find_rejections(
    written: Sequence[PodView], completed: Sequence[PodView], defaults: PodDefaults
) -> Iterator[Problem]:
    """Yield the problems for which built-in admission, or validation after it, rejects the pods of an object.

    `completed` are the pods with the `defaults` of their namespace. Problems of the pods as they are `written` are left
    out. So are templates that are parts: another object may have what the pods need. A limit stands for a missing
    request in a pod alone, so that the API server may store a template of which it rejects the pods.
    """
    for before, after in zip(written, completed, strict=True):
        if before.is_partial or before.pod.spec is None or after.pod.spec is None:
            continue
        known = frozenset(validate_views([before]))
        suffix = _SET_BY_LIMIT_RANGE if defaults.completes_containers(before.pod) else ""
        for problem in validate_views([msgspec.structs.replace(after, is_template=False)]):
            if problem not in known:
                yield replace(problem, message=f"{problem.message}{suffix}")
        yield from _list_class_problems(before, before.pod.spec, defaults)
        bounds = check_pod_bounds(
            after.pod.spec, defaults.bounds, defaults.version, is_complete=defaults.has_limit_ranges
        )
        yield from locate_problems(after, bounds)


def _list_class_problems(view: PodView, spec: PodSpec, defaults: PodDefaults) -> Iterator[Problem]:
    try:
        problem = find_class_problem(spec, defaults.runtime_classes, is_stored=view.is_template)
    except QuantityError:
        return  # validation reports it
    if problem is not None:
        code = OVERHEAD_NOT_OF_CLASS
        yield Problem(view.locate(problem.field), code, Reason.FORBIDDEN, problem.message)
