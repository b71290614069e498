"""Predictions with the new nodes that would help, and new nodes as lines of text, as a table, and as plain data."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.node_shape import NodeShape, format_chosen, format_shape
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.new_nodes import MAX_NEW_NODES, NewNodeCapacity, NewNodeFit, find_new_node_fits
from tallygate.accounting.scheduling.placement import PlacementSession
from tallygate.accounting.scheduling.scoring import Scoring
from tallygate.answers.answer_records import NewNodeCapacityRecord, NewNodesRecord
from tallygate.answers.columns import UNKNOWN, Column, Columns
from tallygate.answers.group_predictions import NO_GROUPS, GroupPredictions
from tallygate.answers.pods_to_place import PodsToPlace
from tallygate.answers.prediction_details import PredictionDetails, predict_pods
from tallygate.answers.review_pods import Rejection

_MAX_SHAPES = 5
"""The number of shapes in the lines beneath a prediction."""

_FITS, _DOES_NOT_FIT, _UNKNOWN = "fits", "does not fit", "unknown"


def predict_admitted(  # noqa: PLR0913, PLR0917  # the pods, and what a prediction of them depends on
    pods: PodsToPlace,
    rejection: Rejection | None,
    cluster: Cluster,
    session: PlacementSession,
    scoring: Scoring,
    shapes: Sequence[NodeShape],
    groups: GroupPredictions = NO_GROUPS,
    *,
    with_node_lines: bool = False,
) -> PredictionDetails:
    """Place the admitted pods of one object in a session; return the prediction with the new nodes that would help.

    Pods of a PodGroup of `groups` are placed with the others of it, and have no new nodes: one pod alone would not run.
    There is no line for each node for pods whose rejection has happened.

    Raises:
        TallygateError: if the pod is not one that an API server would store.
    """
    has_lines = with_node_lines and not (rejection is not None and rejection.has_happened)
    pods = groups.get_named(pods)
    in_group = groups.predict(pods, cluster, session, scoring, with_node_lines=has_lines)
    if in_group is not None:
        return replace(in_group, rejection=rejection)
    details = predict_pods(
        pods.with_default_priority(cluster.priority_classes), cluster, session, scoring, with_node_lines=has_lines
    )
    details = replace(details, rejection=rejection)
    return _add_new_nodes(details, cluster, scoring, shapes) if shapes else details


def _add_new_nodes(
    details: PredictionDetails, cluster: Cluster, scoring: Scoring, shapes: Sequence[NodeShape]
) -> PredictionDetails:
    """Return the details with the new nodes for the copies that have no node; none for a DaemonSet."""
    prediction, pods = details.prediction, details.pods
    is_placed = prediction.next_result is None or prediction.next_result.diagnosis is None
    if is_placed or pods.count is None:
        return details
    pod = IncomingPod.from_pod(pods.pod, cluster.priority_classes)
    return replace(
        details, new_nodes=find_new_node_fits(pod, cluster, shapes, prediction.count - prediction.placed_count, scoring)
    )


def format_new_nodes(new_nodes: Sequence[NewNodesRecord], copies: str) -> Iterator[str]:
    """Yield a line for each shape whose new nodes would help, else for those that may, else why written ones do not.

    `copies` is the word for several copies, such as `replicas`, empty for a single pod.
    """
    fits = [node for node in new_nodes if node.copies]
    unknown = [node for node in new_nodes if node.unknown]
    listed = fits or unknown or [node for node in new_nodes if not node.found]
    for fit in listed[:_MAX_SHAPES]:
        yield _format_fit(fit, copies)
    if len(listed) > _MAX_SHAPES:
        yield f"{len(listed) - _MAX_SHAPES} more shapes"


def _format_fit(fit: NewNodesRecord, copies: str) -> str:
    shape = format_shape(fit.shape, fit.most, fit.labels)
    if fit.unknown:
        return f"unknown on a new node of shape {shape}: {fit.unknown}"
    if not fit.copies:
        return f"would not fit on a new node of shape {shape}: {'; '.join(fit.reasons)}"
    number = f"{fit.copies} of the {fit.of} {copies} without a node " if copies else ""
    nodes = "a new node" if fit.nodes == 1 else f"{fit.nodes} new nodes"
    cut = f"; more than {MAX_NEW_NODES} new nodes were not tried" if fit.cut else ""
    chosen = [(choice.labels, choice.nodes) for choice in fit.choices]
    choices = f": {_list_choices(chosen)}" if len(chosen) > 1 else ""  # the name of the shape has the only choice
    return f"{number}would fit on {nodes} of shape {shape}{choices}{cut}"


def _list_choices(chosen: Iterable[tuple[Mapping[str, str], int]]) -> str:
    return ", ".join(f"{count} {format_chosen(labels)}" for labels, count in chosen)


def _get_answer(fit: NewNodeFit) -> str:
    return _UNKNOWN if fit.unknown else _FITS if fit.copies else _DOES_NOT_FIT


def format_capacities(capacities: Iterable[NewNodeCapacityRecord]) -> Iterator[str]:
    """Yield the line about the copies on a new node of each shape, of pools only for those where some fit or may."""
    for capacity in capacities:
        shape = format_shape(capacity.shape, capacity.most, capacity.labels)
        if capacity.unknown:
            yield f"unknown on a new node of shape {shape}: {capacity.unknown}"
        elif capacity.copies_per_node or not capacity.found:
            yield f"{capacity.copies_per_node or 'none'} would fit on a new node of shape {shape}"


FITS = Columns[NewNodeFit](
    Column("SHAPE", "shape", lambda fit: fit.shape.name),
    Column("", "most", lambda fit: fit.shape.most),
    Column("ANSWER", "answer", _get_answer),
    Column("COPIES", "copies", text=lambda fit: str(fit.copies or UNKNOWN)),
    Column("", "of", lambda fit: fit.count),
    Column("", "nodes", lambda fit: fit.node_count),
    Column("NEW NODES", "", lambda fit: fit.node_count if fit.copies else None),
    Column("MOST", "", lambda fit: fit.shape.most),
    Column("", "choices", lambda fit: [{"labels": dict(labels), "nodes": count} for labels, count in fit.chosen]),
    Column("", "reasons", lambda fit: list(fit.reasons)),
    Column("REASON", "", lambda fit: fit.unknown or "; ".join(fit.reasons) or _list_choices(fit.chosen)),
    Column("", "unknown", lambda fit: fit.unknown or None),
    Column("", "cut", lambda fit: fit.is_cut),
    Column("", "labels", lambda fit: dict(fit.shape.chosen)),
    Column("", "found", lambda fit: fit.shape.is_found),
)
"""The new nodes of a prediction."""


def convert_new_node_capacities(capacities: Sequence[NewNodeCapacity]) -> list[dict[str, Any]]:
    """Return the copies on a new node of each shape as plain data."""
    return [
        {
            "shape": capacity.shape.name,
            "most": capacity.shape.most,
            "copiesPerNode": None if capacity.unknown else capacity.copies,
            "labels": dict(capacity.shape.chosen),
            "unknown": capacity.unknown or None,
            "found": capacity.shape.is_found,
        }
        for capacity in capacities
    ]
