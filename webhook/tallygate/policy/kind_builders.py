"""Builders of definitions: they make an entry of the known kinds about as short as the paths in it."""

from collections.abc import Iterable

from tallygate.policy import workload_kinds


def create_count(  # noqa: PLR0913  # each is a part of the definition
    path: str,
    default: int | None = 1,
    *,
    minus: int = 0,
    floors: Iterable[str] = (),
    assigned: str = "",
    quotient: tuple[str, str] | None = None,
) -> workload_kinds.CountFactor:
    assignments = workload_kinds.FieldPath.parse(assigned) if assigned else None
    fields = (
        (workload_kinds.FieldPath.parse(quotient[0]), workload_kinds.FieldPath.parse(quotient[1]))
        if quotient is not None
        else None
    )
    return (
        workload_kinds.CountField(
            workload_kinds.FieldPath.parse(path), default, minus, create_paths(*floors), assignments, fields
        ),
    )


def create_expectation(path: str, *values: str) -> workload_kinds.ExpectedValue:
    return workload_kinds.ExpectedValue(workload_kinds.FieldPath.parse(path), values)


def create_paths(*texts: str) -> tuple[workload_kinds.FieldPath, ...]:
    return tuple(map(workload_kinds.FieldPath.parse, texts))


def create_pod_set(  # noqa: PLR0913  # each is a choice of the definition
    *templates: str,
    counts: Iterable[workload_kinds.CountFactor | str] = (),
    most: Iterable[workload_kinds.CountFactor | str] = (),
    autoscaled: str = "",
    scaled: Iterable[workload_kinds.CountFactor | str] = (),
    form: workload_kinds.PodForm = workload_kinds.PodForm.TEMPLATE,
    noun: str = "pods",
    suspended: Iterable[str] = (),
    expected: Iterable[workload_kinds.ExpectedValue] = (),
    doubled: workload_kinds.ExpectedValue | None = None,
    rollout: str = "",
    is_separate: bool = False,
    is_used: bool = True,
    declared: str = "",
    workflow: str = "",
    references: Iterable[workload_kinds.TemplateReference] = (),
    is_part: bool = False,
    completed_by: str = "",
    is_of_job: bool = False,
) -> workload_kinds.PodSetDefinition:
    """Return the definition of the pods of one template; the path of a field stands for its `create_count`."""
    return workload_kinds.PodSetDefinition(
        create_paths(*templates),
        create_counts(counts),
        create_counts(most),
        workload_kinds.FieldPath.parse(autoscaled) if autoscaled else None,
        form,
        noun,
        create_paths(*suspended),
        workload_kinds.FieldPath.parse(rollout) if rollout else None,
        is_separate,
        is_used,
        workload_kinds.FieldPath.parse(declared) if declared else None,
        create_counts(scaled),
        workload_kinds.FieldPath.parse(workflow) if workflow else None,
        tuple(expected),
        doubled,
        tuple(references),
        is_part,
        workload_kinds.FieldPath.parse(completed_by) if completed_by else None,
        is_of_job,
    )


def create_counts(factors: Iterable[workload_kinds.CountFactor | str]) -> tuple[workload_kinds.CountFactor, ...]:
    return tuple(create_count(factor) if isinstance(factor, str) else factor for factor in factors)


def create_kind(  # noqa: PLR0913  # each is a part of the definition
    name: str,
    resource: str,
    versions: str,
    *pod_sets: workload_kinds.PodSetDefinition,
    source: str,
    suspended: Iterable[str] = (),
    expected: Iterable[workload_kinds.ExpectedValue] = (),
    is_namespaced: bool = True,
    starts_together: bool = False,
) -> workload_kinds.WorkloadKind:
    """Return a kind, given its name as `RayJob.ray.io` and its versions with spaces between them."""
    kind, _, group = name.partition(".")
    return workload_kinds.WorkloadKind(
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


def create_job_counts(job_spec: str) -> tuple[workload_kinds.CountFactor, ...]:
    """Return the number of pods of a Job that run at a time (pkg/controller/job/job_controller.go)."""
    parallelism = workload_kinds.CountField(workload_kinds.FieldPath.parse(f"{job_spec}.parallelism"))
    return (
        (
            parallelism,
            workload_kinds.CountField(workload_kinds.FieldPath.parse(f"{job_spec}.completions"), default=None),
        ),
    )
