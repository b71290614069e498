"""Builders of definitions: they make an entry of the known kinds about as short as the paths in it."""

from collections.abc import Iterable

from tallygate.policy.workload_kinds import (
    CountFactor,
    CountField,
    ExpectedValue,
    FieldPath,
    PodForm,
    PodSetDefinition,
    TemplateReference,
    WorkloadKind,
)


def create_count(  # noqa: PLR0913  # each is a part of the definition
    path: str,
    default: int | None = 1,
    *,
    minus: int = 0,
    floors: Iterable[str] = (),
    assigned: str = "",
    quotient: tuple[str, str] | None = None,
) -> CountFactor:
    """Return the factor of one field."""
    assignments = FieldPath.parse(assigned) if assigned else None
    fields = (FieldPath.parse(quotient[0]), FieldPath.parse(quotient[1])) if quotient is not None else None
    return (CountField(FieldPath.parse(path), default, minus, create_paths(*floors), assignments, fields),)


def create_expectation(path: str, *values: str) -> ExpectedValue:
    """Return the expectation of a field."""
    return ExpectedValue(FieldPath.parse(path), values)


def create_paths(*texts: str) -> tuple[FieldPath, ...]:
    """Return the paths of some texts."""
    return tuple(map(FieldPath.parse, texts))


def create_pod_set(  # noqa: PLR0913  # each is a choice of the definition
    *templates: str,
    counts: Iterable[CountFactor] = (),
    most: Iterable[CountFactor] = (),
    autoscaled: str = "",
    scaled: Iterable[CountFactor] = (),
    form: PodForm = PodForm.TEMPLATE,
    noun: str = "pods",
    suspended: Iterable[str] = (),
    expected: Iterable[ExpectedValue] = (),
    doubled: ExpectedValue | None = None,
    rollout: str = "",
    is_separate: bool = False,
    is_used: bool = True,
    declared: str = "",
    workflow: str = "",
    references: Iterable[TemplateReference] = (),
    is_part: bool = False,
    completed_by: str = "",
) -> PodSetDefinition:
    """Return the definition of the pods of one template."""
    return PodSetDefinition(
        create_paths(*templates),
        tuple(counts),
        tuple(most),
        FieldPath.parse(autoscaled) if autoscaled else None,
        form,
        noun,
        create_paths(*suspended),
        FieldPath.parse(rollout) if rollout else None,
        is_separate,
        is_used,
        FieldPath.parse(declared) if declared else None,
        tuple(scaled),
        FieldPath.parse(workflow) if workflow else None,
        tuple(expected),
        doubled,
        tuple(references),
        is_part,
        FieldPath.parse(completed_by) if completed_by else None,
    )


def create_kind(  # noqa: PLR0913  # each is a part of the definition
    name: str,
    resource: str,
    versions: str,
    *pod_sets: PodSetDefinition,
    source: str,
    suspended: Iterable[str] = (),
    expected: Iterable[ExpectedValue] = (),
    is_namespaced: bool = True,
    starts_together: bool = False,
) -> WorkloadKind:
    """Return a kind, given its name as `RayJob.ray.io` and its versions with spaces between them."""
    kind, _, group = name.partition(".")
    return WorkloadKind(
        group,
        kind,
        resource,
        tuple(versions.split()),
        pod_sets,
        create_paths(*suspended),
        is_namespaced,
        source,
        starts_together,
        tuple(expected),
    )


def create_job_counts(job_spec: str) -> tuple[CountFactor, ...]:
    """Return the number of pods of a Job that run at a time (pkg/controller/job/job_controller.go)."""
    parallelism = CountField(FieldPath.parse(f"{job_spec}.parallelism"))
    return ((parallelism, CountField(FieldPath.parse(f"{job_spec}.completions"), default=None)),)
