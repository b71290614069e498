"""Predictions as plain data, for `-o json` and `-o yaml`. Amounts are milli-cpu for cpu and whole units otherwise."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from webhook.accounting.amounts import is_milli
from webhook.accounting.cluster.pod_info import PodInfo
from webhook.accounting.node_fit import Shortfall
from webhook.accounting.scheduling.prediction import NodeConsumer, NodeDiagnosis
from webhook.accounting.scheduling.remaining_capacity import RemainingCapacity
from webhook.accounting.scheduling.remedies import EvictionOption
from webhook.cli.predicting.candidates import Candidate
from webhook.cli.predicting.outcome import NodeLine, Outcome
from webhook.cli.predicting.table import answered


def predictions(made: Iterable[Outcome]) -> dict[str, Any]:
    """Every verdict, in order. A change of what a key means is a breaking one."""
    return {"predictions": [_prediction(each) for each in made]}


def headrooms(found: Iterable[tuple[Candidate, RemainingCapacity]]) -> dict[str, Any]:
    """The room for each."""
    return {"headroom": [_headroom(candidate, room) for candidate, room in found]}


def _headroom(candidate: Candidate, room: RemainingCapacity) -> dict[str, Any]:
    return {
        "object": _object(candidate),
        "copies": room.total,
        "nodes": [{"node": name, "copies": copies} for name, copies in room.copies_by_node.items()],
        "message": room.message,
        "limits": [{"reason": reason, "nodes": nodes} for reason, nodes in room.limiting_reasons.items()],
        "unknown": list(room.unmodelled),
    }


def _prediction(made: Outcome) -> dict[str, Any]:
    answer, told = made.answer, made.answer.schedule_result
    content = {
        "object": _object(made.candidate),
        "verdict": answer.feasibility.value,
        "copies": answer.count,
        "placed": answer.placed_count,
        "of": made.candidate.word,
        "on": [{"node": name, "copies": copies} for name, copies in made.on.items()],
        "fitting": made.fitting,
        "message": told.message if told else None,
        "nominated": list(told.nominated_nodes) if told else [],
        "preempts": _leaving(made.made_room) if made.made_room else None,
        "largest": [_amount(name, amount) for name, amount in answer.largest_allocatable.items()],
        "meant": [{"resource": name, "meant": meant} for name, meant in made.meant.items()],
        "unknown": list(answer.unmodelled),
        "nearest": [_node(each) for each in made.nearest],
        "leaving": [_leaving(each) for each in made.leaving],
        "remedies": [{"change": each.change, "nodes": list(each.nodes)} for each in made.remedies],
    }
    return content | ({"nodes": [_line(line) for line in made.nodes]} if made.nodes else {})


def _object(candidate: Candidate) -> dict[str, str]:
    subject = candidate.subject
    return {"kind": subject.kind, "namespace": subject.namespace, "name": subject.name}


def _line(line: NodeLine) -> dict[str, Any]:
    scores = {"NodeResourcesFit": line.allocation, "NodeResourcesBalancedAllocation": line.balance}
    return {
        **_node(line.said),
        "answer": answered(line),
        "copies": line.copies,
        "scores": scores,
        "tightest": _shortfall(line.tightest),
    }


def _node(said: NodeDiagnosis) -> dict[str, Any]:
    return {
        "node": said.name,
        "fits": not said.reasons,
        "ever": said.can_ever_run,
        "reasons": list(said.reasons),
        "shortfalls": [_shortfall(each) for each in said.shortfalls],
        "holders": [_held(each) for each in said.consumers],
    }


def _shortfall(each: Shortfall) -> dict[str, Any]:
    return {
        "resource": each.resource,
        "unit": "milli" if is_milli(each.resource) else "whole",
        "asks": each.requested,
        "allocatable": each.allocatable,
        "used": each.used,
        "free": each.free,
        "short": max(each.short, 0),
    }


def _held(each: NodeConsumer) -> dict[str, Any]:
    return _pod(each.pod) | {"holds": _amounts(each.amounts)}


def _leaving(each: EvictionOption) -> dict[str, Any]:
    return {"node": each.node, "pods": _pods(each.pods)}


def _pods(pods: Sequence[PodInfo]) -> list[dict[str, Any]]:
    return [_pod(each) for each in pods]


def _pod(pod: PodInfo) -> dict[str, Any]:
    return {"namespace": pod.namespace, "name": pod.name, "priority": pod.group.priority}


def _amounts(of: Mapping[str, int]) -> list[dict[str, Any]]:
    return [_amount(name, amount) for name, amount in of.items()]


def _amount(name: str, amount: int) -> dict[str, Any]:
    return {"resource": name, "unit": "milli" if is_milli(name) else "whole", "amount": amount}
