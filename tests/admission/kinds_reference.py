"""The kinds in docs/reference/workload-kinds.md: `python -m tests.admission.kinds_reference` writes them there."""

from collections.abc import Iterator
from pathlib import Path

from tallygate.policy.known_kinds import KNOWN_KINDS
from tallygate.policy.workload_kinds import (
    CountFactor,
    CountField,
    ExpectedValue,
    PodForm,
    PodSetDefinition,
    WorkloadKind,
)

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "workload-kinds.md"
BEGIN, END = "<!-- kinds: begin -->\n", "<!-- kinds: end -->\n"
_HEAD = "| templates | pods |\n| --- | --- |\n"
_FORMS = {
    PodForm.OBJECT: " (an object)",
    PodForm.RESOURCES: " (the resources of a container)",
    PodForm.NIM_SERVICE: " (the resources and devices of a container)",
    PodForm.TASK: " (a task)",
    PodForm.TASK_RUN: " (the run of a task)",
}


def render_kinds() -> str:
    """Return a section for each known kind."""
    return "\n".join(_render_kind(kind) for kind in KNOWN_KINDS)


def _render_kind(kind: WorkloadKind) -> str:
    rows = "".join(f"| {_render_templates(each)} | {_render_pods(each)} |\n" for each in kind.pod_sets)
    suspended = "".join(f" No pods while `{path.text}` is set." for path in kind.suspended)
    suspended += "".join(f" No pods unless {_render_expectation(each)}." for each in kind.expected)
    suspended += " The pods start together." if kind.starts_together else ""
    return (
        f"### {kind.kind} ({kind.group})\n\nVersions {', '.join(kind.versions)}.{suspended} "
        f"Source: {kind.source}.\n\n{_HEAD}{rows}"
    )


def _render_templates(pod_set: PodSetDefinition) -> str:
    paths = ", else ".join(f"`{path.text}`" for path in pod_set.templates)
    return f"{paths}{_FORMS.get(pod_set.form, '')}"


def _render_pods(pod_set: PodSetDefinition) -> str:
    return "; ".join(_list_parts(pod_set))


def _list_parts(pod_set: PodSetDefinition) -> Iterator[str]:
    if not pod_set.is_used:
        yield "none: other objects use it"
    elif pod_set.form is PodForm.OBJECT:
        yield "those of the object"
    elif pod_set.workflow is not None:
        yield "one for each step that leads to it, and for each of its items, that start at a time"
    elif pod_set.references:
        references = (f"`{each.name.text}`: {_render_product(each.counts)}" for each in pod_set.references)
        yield f"those of the items that name it, {', '.join(references)}"
    else:
        yield from _list_counts(pod_set)


def _list_counts(pod_set: PodSetDefinition) -> Iterator[str]:
    yield _render_product(pod_set.counts) or "1"
    if pod_set.scaled and pod_set.autoscaled:
        yield f"if `{pod_set.autoscaled.text}` is set, {_render_product(pod_set.scaled)}"
    if pod_set.most:
        scaled = f" if `{pod_set.autoscaled.text}` is set" if pod_set.autoscaled else ""
        yield f"an autoscaler: up to {_render_product(pod_set.most)}{scaled}"
    if pod_set.rollout is not None:
        yield f"a rollout adds those of `{pod_set.rollout.text}`"
    if pod_set.doubled is not None:
        yield f"a change of the template doubles them for a time if {_render_expectation(pod_set.doubled)}"
    for path in pod_set.suspended:
        yield f"none while `{path.text}` is set"
    for each in pod_set.expected:
        yield f"none unless {_render_expectation(each)}"


def _render_expectation(expectation: ExpectedValue) -> str:
    values = " or ".join(f"`{value}`" for value in expectation.values)
    return f"`{expectation.path.text}` is absent or {values}"


def _render_product(factors: tuple[CountFactor, ...]) -> str:
    return " × ".join(
        _render_field(factor[0]) if len(factor) == 1 else f"the least of {' and '.join(map(_render_field, factor))}"
        for factor in factors
    )


def _render_field(field: CountField) -> str:
    default = "" if field.default is None else f" ({field.default})"
    floors = "".join(f", at least `{path.text}`" for path in field.floors)
    minus = f" - {field.minus}" if field.minus else ""
    assigned = f", or that of its name in `{field.assigned.text}`" if field.assigned else ""
    return f"`{field.path.text}`{default}{floors}{_render_quotient(field)}{minus}{assigned}"


def _render_quotient(field: CountField) -> str:
    if field.quotient is None:
        return ""
    whole, part = field.quotient
    return f", or `{whole.text}` / `{part.text}` where one of them is set"


def update_kinds(document: str) -> str:
    """Return the document with the current kinds."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{render_kinds()}\n{END}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(update_kinds(DOCUMENT.read_text()))
