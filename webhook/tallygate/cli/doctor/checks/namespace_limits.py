"""The check of the annotations of namespaces that set limits of caps."""

from collections.abc import Iterable, Iterator, Mapping

from tallygate.cli.doctor.check_result import (
    Check,
    CheckResult,
    combine_results,
    create_pass,
    create_unknown,
    create_warning,
    format_kubectl,
)
from tallygate.cli.doctor.facts import GateFacts, Unavailable
from tallygate.policy.limit_annotations import (
    ANNOTATION_PREFIX,
    InvalidAnnotation,
    LimitAnnotations,
    UnadmittedAnnotation,
    describe_unread,
    find_invalid,
    find_unadmitted,
    read_overrides,
)
from tallygate.policy.model import NamespaceCap


def _check_limit_annotations(facts: GateFacts) -> CheckResult:
    if isinstance(facts.namespaces, Unavailable):
        return create_unknown(f"namespaces cannot be listed: {facts.namespaces.reason}")
    annotations = {namespace.name: namespace.limit_texts for namespace in facts.namespaces if namespace.limit_texts}
    if not annotations:
        return create_pass("no namespace has an annotation that sets limits")
    if isinstance(facts.policies, Unavailable):
        names = ", ".join(sorted(annotations))
        return create_unknown(f"the annotations of {names} cannot be read without policies: {facts.policies.reason}")
    readers = {cap.name: cap for cap in facts.policies.caps if cap.annotation}
    results = [
        create_warning(str(annotation), _format_removal(facts, annotation))
        for annotation in _list_invalid(annotations, readers)
    ]
    results += _check_admission(facts, readers.values())
    count = sum(map(len, annotations.values()))
    passed = "1 annotation sets limits" if count == 1 else f"{count} annotations set limits"
    retried = "a controller whose pods were rejected before a raise tries again by its own back-off, up to 1,000 s"
    return combine_results(results, create_pass(f"{passed}, as caps allow and as a gate admitted; {retried}"))


def _check_admission(facts: GateFacts, readers: Iterable[NamespaceCap]) -> Iterator[CheckResult]:
    """Check that a gate admitted each annotation that sets limits."""
    namespaces = () if isinstance(facts.namespaces, Unavailable) else facts.namespaces
    annotations = {namespace.name: namespace.limit_texts for namespace in namespaces if namespace.limit_texts}
    uids = {namespace.name: namespace.uid for namespace in namespaces}
    for cap in readers:
        if not isinstance(facts.limit_records, Unavailable):
            for annotation in find_unadmitted(cap, annotations, uids, facts.limit_records, facts.now):
                yield create_warning(str(annotation), _format_removal(facts, annotation))
        elif read_overrides(cap, annotations):
            reason = facts.limit_records.reason
            yield create_unknown(f"the gate's records of admitted annotations cannot be read: {reason}")


def _list_invalid(annotations: LimitAnnotations, readers: Mapping[str, NamespaceCap]) -> Iterator[InvalidAnnotation]:
    """Yield the annotations that set no limit: those that a cap cannot read, then those that no cap reads."""
    for cap in readers.values():
        yield from find_invalid(cap, annotations)
    for namespace, texts in sorted(annotations.items()):
        for name in sorted(texts.keys() - readers.keys()):
            yield InvalidAnnotation(namespace, name, describe_unread(name, readers))


def _format_removal(facts: GateFacts, annotation: InvalidAnnotation | UnadmittedAnnotation) -> str:
    key = f"{ANNOTATION_PREFIX}{annotation.cap}"
    return format_kubectl(facts.location, "annotate", "namespace", annotation.namespace, f"{key}-")


CHECKS = (
    Check(
        "limit-annotations",
        "Annotations of namespaces that are to set limits do so, and a gate admitted them",
        "WARN: an annotation is no list of amounts, gives more than its cap allows, is for no cap that reads it, or no "
        "gate has recorded that it admitted it; UNKNOWN: namespaces cannot be listed, or there are such annotations, "
        "and the policies or the gate's records cannot be read",
        _check_limit_annotations,
    ),
)
