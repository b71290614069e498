"""New nodes in the output of `predict` and `headroom`: as lines of text, as a table, and as plain data."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.node_shape import NodeShape, format_chosen
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.new_nodes import (
    MAX_NEW_NODES,
    NewNodeCapacity,
    NewNodeFit,
    find_new_node_fits,
)
from tallygate.accounting.scheduling.scoring import Scoring
from tallygate.cli.output.tables import align_rows
from tallygate.cli.predict.prediction_details import PredictionDetails

_MAX_SHAPES = 5
"""The number of shapes in the lines beneath a prediction."""

_HEADER = ("SHAPE", "ANSWER", "COPIES", "NEW NODES", "MOST", "REASON")
_FITS, _DOES_NOT_FIT, _UNKNOWN = "fits", "does not fit", "unknown"


def add_new_nodes(
    details: PredictionDetails, cluster: Cluster, scoring: Scoring, shapes: Sequence[NodeShape]
) -> PredictionDetails:
    """Return the details with the new nodes for the copies that have no node; none for a DaemonSet.

    Raises:
        TallygateError: if the pod is not one that an API server would store.
    """
    prediction, pods = details.prediction, details.pods
    is_placed = prediction.next_result is None or prediction.next_result.diagnosis is None
    if is_placed or pods.count is None:
        return details
    pod = IncomingPod.from_pod(pods.pod, cluster.priority_classes)
    return replace(
        details,
        new_nodes=find_new_node_fits(pod, cluster, shapes, prediction.count - prediction.placed_count, scoring),
    )


def format_new_nodes(details: PredictionDetails) -> Iterator[str]:
    """Yield a line for each shape whose new nodes would help, else for those that may, else why written ones do not."""
    fits = [each for each in details.new_nodes if each.copies]
    unknown = [each for each in details.new_nodes if each.unknown]
    listed = fits or unknown or [each for each in details.new_nodes if not each.shape.is_found]
    for each in listed[:_MAX_SHAPES]:
        yield _format_fit(each, details)
    if len(listed) > _MAX_SHAPES:
        yield f"{len(listed) - _MAX_SHAPES} more shapes"


def _format_fit(fit: NewNodeFit, details: PredictionDetails) -> str:
    if fit.unknown:
        return f"unknown on a new node of shape {fit.shape}: {fit.unknown}"
    if not fit.copies:
        return f"would not fit on a new node of shape {fit.shape}: {'; '.join(fit.reasons)}"
    nodes = "a new node" if fit.node_count == 1 else f"{fit.node_count} new nodes"
    cut = f"; more than {MAX_NEW_NODES} new nodes were not tried" if fit.is_cut else ""
    return f"{_format_copies(fit, details)}would fit on {nodes} of shape {fit.shape}{_format_choices(fit)}{cut}"


def _format_choices(fit: NewNodeFit) -> str:
    """Return the words on the number of new nodes with each choice of labels, if there are several choices."""
    if len(fit.chosen) < 2:  # noqa: PLR2004  # the name of the shape has the only choice
        return ""
    return f": {_list_choices(fit)}"


def _list_choices(fit: NewNodeFit) -> str:
    return ", ".join(f"{count} {format_chosen(labels)}" for labels, count in fit.chosen)


def _format_copies(fit: NewNodeFit, details: PredictionDetails) -> str:
    if details.prediction.count == 1:
        return ""
    return f"{fit.copies} of the {fit.count} {details.pods.noun} without a node "


def format_shape_rows(fits: Sequence[NewNodeFit]) -> list[str]:
    """Return one row per shape; none without shapes."""
    rows = [
        (
            each.shape.name,
            _get_answer(each),
            str(each.copies) if each.copies else "-",
            str(each.node_count) if each.copies else "-",
            "-" if each.shape.most is None else str(each.shape.most),
            each.unknown or "; ".join(each.reasons) or _list_choices(each),
        )
        for each in fits
    ]
    return align_rows(_HEADER, rows) if rows else []


def _get_answer(fit: NewNodeFit) -> str:
    return _UNKNOWN if fit.unknown else _FITS if fit.copies else _DOES_NOT_FIT


def format_capacities(capacities: Sequence[NewNodeCapacity]) -> Iterator[str]:
    """Yield the line about the copies on a new node of each shape, of pools only for those where some fit or may."""
    for each in capacities:
        if each.unknown:
            yield f"unknown on a new node of shape {each.shape}: {each.unknown}"
        elif each.copies or not each.shape.is_found:
            yield f"{each.copies or 'none'} would fit on a new node of shape {each.shape}"


def convert_fits(fits: Sequence[NewNodeFit]) -> list[dict[str, Any]]:
    """Return the new nodes of a prediction as plain data."""
    return [
        {
            "shape": each.shape.name,
            "most": each.shape.most,
            "answer": _get_answer(each),
            "copies": each.copies,
            "of": each.count,
            "nodes": each.node_count,
            "choices": [{"labels": dict(labels), "nodes": count} for labels, count in each.chosen],
            "reasons": list(each.reasons),
            "unknown": each.unknown or None,
            "cut": each.is_cut,
        }
        for each in fits
    ]


def convert_new_node_capacities(capacities: Sequence[NewNodeCapacity]) -> list[dict[str, Any]]:
    """Return the copies on a new node of each shape as plain data."""
    return [
        {
            "shape": each.shape.name,
            "most": each.shape.most,
            "copiesPerNode": None if each.unknown else each.copies,
            "labels": dict(each.shape.chosen),
            "unknown": each.unknown or None,
        }
        for each in capacities
    ]
