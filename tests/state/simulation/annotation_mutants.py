"""The mutants of the rule for annotations of namespaces that set limits, each with its wrong implementation."""

from collections.abc import Mapping

from tests.schedules import Mutant
from tests.state.simulation.annotation_rules import Annotations, Override, find_annotation
from tests.state.simulation.runner import mutate
from tests.state.simulation.scenarios import SCENARIOS


def _find_for_ever(annotations: Annotations, cap: int, namespace: int, _time: int) -> Override | None:
    return find_annotation(annotations, cap, namespace, -1)


def _find_in_any_namespace(annotations: Annotations, cap: int, _namespace: int, time: int) -> Override | None:
    found = (find_annotation(annotations, cap, each, time) for each in range(len(annotations)))
    return next((each for each in found if each is not None), None)


def _find_of_any_cap(annotations: Annotations, _cap: int, namespace: int, time: int) -> Override | None:
    override = annotations[namespace] if namespace >= 0 else None
    return override if override is not None and time < override.end else None


def _keep_removed(before: Annotations, now: Annotations) -> Annotations:
    return tuple(new or old for old, new in zip(before or now, now, strict=True))


_ANNOTATIONS = SCENARIOS["annotations set limits"]

ANNOTATION_MUTANTS: Mapping[str, Mutant] = {
    "annotated_for_ever": mutate(
        8, "reads no end in the annotation of a namespace", _ANNOTATIONS, 29, find_annotation=_find_for_ever
    ),
    "annotated_elsewhere": mutate(
        8, "takes the annotation of any namespace", _ANNOTATIONS, 1, find_annotation=_find_in_any_namespace
    ),
    "annotated_for_all": mutate(
        8, "takes an annotation for one cap for all caps", _ANNOTATIONS, 0, find_annotation=_find_of_any_cap
    ),
    "keeps_removed": mutate(8, "keeps an annotation that is removed", _ANNOTATIONS, 192, see_annotations=_keep_removed),
}
