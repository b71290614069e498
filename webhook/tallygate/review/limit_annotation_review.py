"""Reviews of the annotations of namespaces that set limits: who may change them, and whether they are valid."""

from collections.abc import Collection, Iterator, Mapping

import msgspec

from tallygate.accounting.problem import Problem, Reason
from tallygate.admission.request import CREATE, UPDATE, AdmissionRequest, UserInfo
from tallygate.admission.rule_codes import LIMIT_ANNOTATION
from tallygate.policy.limit_annotations import (
    ANNOTATION_PREFIX,
    LimitAnnotationError,
    describe_unread,
    parse_annotation,
    select_texts,
)
from tallygate.policy.matching import matches_subjects
from tallygate.policy.model import AnnotationOverride, NamespaceCap
from tallygate.policy.selectors import Subjects
from tallygate.review.namespace_moves import decode_namespace

_SUBRESOURCES = frozenset({"", "status", "finalize"})
"""The API server stores the metadata of a namespace from requests for these too."""


def is_namespace_write(request: AdmissionRequest) -> bool:
    """Return whether the request creates or updates a namespace, also by a subresource."""
    is_namespace = (request.group, request.kind) == ("", "Namespace")
    return is_namespace and request.subresource in _SUBRESOURCES and request.operation in {CREATE, UPDATE}


def check_limit_annotations(request: AdmissionRequest, caps: Collection[NamespaceCap]) -> Iterator[Problem]:
    """Yield a problem for each changed annotation that this user may not change, or that is not valid.

    Raises:
        ReviewError: if the object is not a namespace.
    """
    readers = {cap.name: (cap, cap.annotation) for cap in caps if cap.annotation}
    for name, text in list_changed_limits(request):
        rule = name if name in readers else ""
        if rule:
            reason = _explain(*readers[name], request.user, text)
        else:
            reason = "" if text is None else describe_unread(name, readers)
        if reason:
            field = f"metadata.annotations[{ANNOTATION_PREFIX}{name}]"
            yield Problem(field, LIMIT_ANNOTATION, Reason.FORBIDDEN, reason, rule=rule, policy_kind="cap")


def list_changed_limits(request: AdmissionRequest) -> Iterator[tuple[str, str | None]]:
    """Yield the caps whose annotation the request adds, changes or removes, with the new text; None for a removal.

    Raises:
        ReviewError: if the object is not a namespace.
    """
    old, new = _decode_texts(request.old_object), _decode_texts(request.object)
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            yield name, new.get(name)


def _explain(cap: NamespaceCap, definition: AnnotationOverride, user: UserInfo, text: str | None) -> str:
    """Return the reason why this user may not change the annotation to this text; empty if it is allowed."""
    if not matches_subjects(definition.set_by, user.name, user.groups):
        return (
            f"it sets limits of cap {cap.name}, and {user.name or 'this user'} may not add, change or remove it: only "
            f"{format_subjects(definition.set_by)} may"
        )
    try:
        if text is not None:
            parse_annotation(cap, definition, text)
    except LimitAnnotationError as error:
        return str(error)
    return ""


def format_subjects(subjects: Subjects) -> str:
    """Return subjects as text, as in `the groups admins`."""
    kinds = (("users", subjects.users), ("groups", subjects.groups), ("service accounts", subjects.service_accounts))
    return " and ".join(f"the {kind} {', '.join(names)}" for kind, names in kinds if names) or "no user"


def _decode_texts(raw: bytes | msgspec.Raw | None) -> Mapping[str, str]:
    meta = decode_namespace(raw)
    return select_texts(meta.annotations if meta else None)
