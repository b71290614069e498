"""Limits by annotation: a namespace has one for each cap that reads it, as in `nvidia.com/gpu=12 until=2026-12-04`.

The key is the prefix with the name of the cap. An annotation that is not valid for its cap gives no limit.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

from tallygate.accounting.names import LIMITS_PREFIX, REQUESTS_PREFIX, is_countable
from tallygate.accounting.quantity import Quantity
from tallygate.errors import TallygateError
from tallygate.policy.formats import PODS_RESOURCE, FormatError, check_quantity, quote_text
from tallygate.policy.lint_pairs import list_own_names
from tallygate.policy.model import AnnotationOverride, LimitOverride, NamespaceCap
from tallygate.policy.suggest import format_suggestion, suggest_resource
from tallygate.policy.times import TimeError, parse_end_time

ANNOTATION_PREFIX = "limits.tallygate.dev/"
"""The prefix of every annotation that sets limits; the name of the cap follows."""

UNTIL = "until"
"""The word for the end in an annotation, which no counted name may be."""

LimitAnnotations = Mapping[str, Mapping[str, str]]
"""The texts of the annotations by namespace and by cap; only of the namespaces that have one."""

NO_LIMIT_ANNOTATIONS: LimitAnnotations = MappingProxyType({})

NO_TEXTS: Mapping[str, str] = MappingProxyType({})
_MAX_LENGTH = 4096


class LimitAnnotationError(TallygateError):
    """An annotation that is not valid for its cap; the message has the text that would pass."""


class InvalidAnnotation(NamedTuple):
    """A stored annotation that gives no limit, with the reason."""

    namespace: str
    cap: str
    reason: str

    def __str__(self) -> str:
        key = f"{ANNOTATION_PREFIX}{self.cap}"
        return f"the annotation {key} of namespace {self.namespace} sets no limit: {self.reason}"


LimitRecords = Mapping[str, Mapping[str, str]]
"""The texts that gates admitted, by the UID of the namespace and the name of the cap."""


class UnadmittedAnnotation(NamedTuple):
    """An annotation that sets limits, and that no gate is known to have admitted."""

    namespace: str
    cap: str

    def __str__(self) -> str:
        key = f"{ANNOTATION_PREFIX}{self.cap}"
        return (
            f"the annotation {key} of namespace {self.namespace} sets limits, and no gate has recorded that it "
            "admitted this text: it was probably written while no gate was asked. If it is right, a user whom the cap "
            "names removes it and sets it again"
        )


def select_texts(annotations: Mapping[str, str] | None) -> Mapping[str, str]:
    """Return the texts that set limits, by the name of the cap, of all annotations of a namespace."""
    texts = {
        key.removeprefix(ANNOTATION_PREFIX): text
        for key, text in (annotations or {}).items()
        if key.startswith(ANNOTATION_PREFIX)
    }
    return MappingProxyType(texts) if texts else NO_TEXTS


def parse_annotation(cap: NamespaceCap, definition: AnnotationOverride, text: str) -> LimitOverride:
    """Return the override that an annotation of a namespace gives.

    Raises:
        LimitAnnotationError: if the text is not valid, or gives more than the cap allows.
    """
    example = _create_example(definition)
    if len(text) > _MAX_LENGTH or not text.split():
        found = f"is longer than {_MAX_LENGTH} characters" if text.split() else "is empty"
        raise LimitAnnotationError(f"the text {found}; {example}")
    values: dict[str, str] = {}
    for item in text.split():
        written, mark, value = item.partition("=")
        name = written.removeprefix(REQUESTS_PREFIX)
        if not mark or not name or not value:
            raise LimitAnnotationError(f"{quote_text(item)} is not NAME=AMOUNT; {example}")
        if name in values:
            raise LimitAnnotationError(f"{name} is there twice; keep one")
        values[name] = value
    until = values.pop(UNTIL, None)
    try:
        end = None if until is None else parse_end_time(until)
    except TimeError as error:
        raise LimitAnnotationError(f"{UNTIL}={until}: {error}") from None
    if not values:
        raise LimitAnnotationError(f"the text has an end and no limit; {example}")
    own_names = list_own_names(cap)
    hard = {name: _parse_amount(definition, name, value, own_names) for name, value in values.items()}
    return LimitOverride(hard=MappingProxyType(hard), until=end)


def _parse_amount(definition: AnnotationOverride, name: str, value: str, own_names: frozenset[str]) -> Quantity:
    most = definition.most.get(name)
    if most is None:
        likely = suggest_resource(name, definition.most)
        hint = f"did you mean {likely}?" if likely else f"it may set {', '.join(sorted(definition.most))}"
        raise LimitAnnotationError(f"the annotation may not set {quote_text(name)}; {hint}")
    try:
        check_quantity(value)
    except FormatError as error:
        raise LimitAnnotationError(f"{name}: {error}") from None
    quantity, resource = Quantity.parse(value), name.removeprefix(LIMITS_PREFIX)
    if not quantity.is_whole and (name in own_names or resource == PODS_RESOURCE or is_countable(resource)):
        raise LimitAnnotationError(
            f"{name}: {value} is a fraction of what is counted in whole units; write {quantity.value()}"
        )
    if quantity > most:
        raise LimitAnnotationError(f"{name}: {value} is more than an annotation may give; write {most} or less")
    return quantity


def describe_unread(name: str, readers: Collection[str]) -> str:
    """Return the reason why an annotation for the cap of this name sets no limit: only `readers` read one."""
    known = f"; these do: {', '.join(sorted(readers))}" if readers else ""
    return f"no cap of the name {name} reads it{format_suggestion(name, readers) or known}; remove it"


def _create_example(definition: AnnotationOverride) -> str:
    limits = " ".join(f"{name}={most}" for name, most in sorted(definition.most.items()))
    return f'write "{limits} {UNTIL}=2026-12-04T18:00:00Z", or without {UNTIL} for no end'


def read_overrides(cap: NamespaceCap, annotations: LimitAnnotations) -> dict[str, LimitOverride]:
    """Return the overrides of a cap by namespace; annotations that are not valid give none."""
    definition, overrides = cap.annotation, {}
    if definition is not None:
        for namespace, texts in annotations.items():
            if cap.name in texts:
                try:
                    overrides[namespace] = parse_annotation(cap, definition, texts[cap.name])
                except LimitAnnotationError:
                    continue
    return overrides


def find_unadmitted(
    cap: NamespaceCap, annotations: LimitAnnotations, uids: Mapping[str, str], records: LimitRecords, now: datetime
) -> Iterator[UnadmittedAnnotation]:
    """Yield the annotations that set limits of a cap with a text that no gate recorded for this namespace.

    `uids` are the UIDs of the namespaces by name: a record of a deleted namespace does not count for a later one.
    """
    for namespace, override in sorted(read_overrides(cap, annotations).items(), key=_get_namespace):
        recorded = records.get(uids.get(namespace, ""), NO_TEXTS).get(cap.name)
        if not override.has_ended(now) and recorded != annotations[namespace][cap.name]:
            yield UnadmittedAnnotation(namespace, cap.name)


def _get_namespace(item: tuple[str, LimitOverride]) -> str:
    return item[0]


def find_invalid(cap: NamespaceCap, annotations: LimitAnnotations) -> Iterator[InvalidAnnotation]:
    """Yield the annotations for a cap that are not valid."""
    for namespace, texts in sorted(annotations.items()) if cap.annotation else ():
        if cap.annotation and cap.name in texts:
            try:
                parse_annotation(cap, cap.annotation, texts[cap.name])
            except LimitAnnotationError as error:
                yield InvalidAnnotation(namespace, cap.name, str(error))
