"""Verdicts for a person: a line each, and beneath it why not, who is in the way, and what would help."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from webhook.accounting.amounts import format_amount
from webhook.accounting.cluster.pod_info import PodInfo
from webhook.accounting.node_fit import Shortfall
from webhook.accounting.scheduling.prediction import MAX_CONSUMERS, Feasibility, NodeConsumer, NodeDiagnosis
from webhook.cli.predicting.candidates import Candidate
from webhook.cli.predicting.outcome import Outcome
from webhook.cli.report.table import harmless

_STYLES = {
    Feasibility.NOW: "green",
    Feasibility.NOT_NOW: "yellow",
    Feasibility.NEVER: "bold red",
    Feasibility.UNKNOWN: "cyan",
}
_MOST = 5
"""Names in a line, and remedies."""


def paragraph(made: Outcome) -> Group:
    """A verdict, and beneath it what there is to say about it."""
    kind = made.answer.feasibility
    head = Text.assemble((f"{harmless(str(made.candidate.subject))}: ", "bold"), (kind.value, _STYLES[kind]))
    head.append(harmless(counted(made)))
    return Group(head, *(Padding(Text(harmless(line)), (0, 0, 0, 4)) for line in details(made)))


def counted(made: Outcome) -> str:
    """How many copies can run, and where; nothing for a single pod that cannot."""
    copies, candidate = made.answer.count, made.candidate
    on = f", {_places(made.on)}" if made.on else ""
    if candidate.copies is None:
        return f": {made.answer.placed_count} of {copies} nodes that are to have it take one"
    if candidate.copies == 1 and candidate.word == "pods":
        others = f"; {made.fitting} node{'s' * (made.fitting != 1)} would take it"
        return f"{on.replace(',', ':', 1)}{others}" if on else ""
    return f": {made.answer.placed_count} of {copies} {candidate.word}{on}"


def details(made: Outcome) -> Iterator[str]:
    """What there is to say beneath the verdict."""
    told = made.answer.schedule_result
    if told is not None:
        yield told.message
    yield from _gates(made.candidate)
    yield from (lacking(each) for each in made.nearest)
    yield from _largest(made.answer.largest_allocatable, made.meant)
    if made.made_room:
        yield f"the scheduler makes room on {made.made_room.node}, and asks to leave: {_names(made.made_room.pods)}"
    others = [each for each in made.leaving if made.made_room is None or each.node != made.made_room.node]
    yield from (f"would help: if these left {each.node}: {_names(each.pods)}" for each in others)
    for remedy in made.remedies[:_MOST]:
        yield f"would help: {remedy.change} (then: {few(remedy.nodes)})"
    yield from (f"not judged: {question}" for question in made.answer.unmodelled)


def lacking(node: NodeDiagnosis) -> str:
    """What a node lacks, in numbers, and who has it."""
    short = "; ".join(numbers(each) for each in node.shortfalls)
    holders = Counter(_holder(each) for each in node.consumers)
    words = [who if many == 1 else f"{many} pods {who}" for who, many in holders.items()]
    others = ", among others," if len(node.consumers) >= MAX_CONSUMERS else ""
    held = f"; held{others} by {few(words)}" if words else ""
    return f"{node.name} lacks {short}{held}"


def numbers(each: Shortfall) -> str:
    """A shortfall in numbers."""
    told = (
        ("asks", each.requested),
        ("allocatable", each.allocatable),
        ("used", each.used),
        ("free", each.free),
        ("short", each.short),
    )
    return f"{each.resource} ({', '.join(f'{word} {format_amount(each.resource, amount)}' for word, amount in told)})"


def amounts(of: Mapping[str, int]) -> str:
    """Amounts of several resources."""
    return ", ".join(f"{format_amount(name, amount)} {name}" for name, amount in of.items())


def few(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = len(names) - _MOST
    return ", ".join(names[:_MOST]) + (f" and {more} more" if more > 0 else "")


def _places(on: Mapping[str, int]) -> str:
    return f"on {few([name if many == 1 else f'{name} ({many})' for name, many in on.items()])}"


def _largest(most: Mapping[str, int], meant: Mapping[str, str]) -> Iterator[str]:
    there = {name: amount for name, amount in most.items() if amount}
    if there:
        yield f"the largest there is on any node: {amounts(there)}"
    for name in most:
        if name not in there:
            yield f"no node advertises {name}{f': did you mean {meant[name]}?' if name in meant else ''}"


def _names(pods: Iterable[PodInfo]) -> str:
    return few([f"{each.namespace}/{each.name}" for each in pods])


def _holder(each: NodeConsumer) -> str:
    return f"{each.pod.namespace}/{each.pod.name} ({amounts(each.amounts)})"


def _gates(candidate: Candidate) -> Iterator[str]:
    gates = (candidate.pod.spec.scheduling_gates if candidate.pod.spec else None) or ()
    if gates:
        yield f"would help: whoever set its scheduling gates takes them away: {few([gate.name for gate in gates])}"
