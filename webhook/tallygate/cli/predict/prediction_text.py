"""Predictions as text for a terminal: a line each, and beneath it the reasons, the consumers and the remedies.

The table of nodes has a row for each node, with bars and colours.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.text import Text

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.node_fit import Shortfall
from tallygate.accounting.scheduling.prediction import Feasibility
from tallygate.answers import columns, node_lines, prediction_json
from tallygate.answers.answer_records import PredictionRecord, read_prediction
from tallygate.answers.columns import escape_control
from tallygate.answers.new_node_lines import FITS as NEW_NODES
from tallygate.answers.node_lines import FITS, NEVER, NODES, NOT_NOW
from tallygate.answers.prediction_details import NodeLine, PredictionDetails
from tallygate.answers.prediction_lines import drop_repeated, format_counts, format_details
from tallygate.cli.output import tables
from tallygate.cli.output.tables import Paragraph, create_table, format_bar

_FEASIBILITY_STYLES = {
    Feasibility.REJECTED: "bold red",
    Feasibility.NOW: "green",
    Feasibility.NOT_NOW: "yellow",
    Feasibility.NEVER: "bold red",
    Feasibility.UNKNOWN: "cyan",
}
_ANSWER_STYLES = {FITS: "green", NOT_NOW: "yellow", NEVER: "red"}


def print_predictions(
    predictions: Sequence[PredictionDetails], cluster: Cluster, output: str, *, verbose: bool
) -> None:
    """Print predictions in an output format, for people with a line for each node if `verbose`."""
    items = list(prediction_json.convert_predictions(predictions, cluster))
    tables.print_list("Prediction", items, output, lambda: _print_texts(predictions, items, verbose=verbose))


def _print_texts(
    predictions: Sequence[PredictionDetails], items: Iterable[Mapping[str, Any]], *, verbose: bool
) -> None:
    if not verbose:
        print_records(map(read_prediction, items))
        return
    is_terminal = tables.create_console(sys.stdout).is_terminal
    for details, record in zip(predictions, map(read_prediction, items), strict=True):
        tables.print_content(format_prediction(record))
        if details.node_lines:
            pools = node_lines.list_pool_rows(details.node_lines)
            if is_terminal:
                tables.print_content(create_node_table(details.node_lines))
                if pools:
                    tables.print_content(tables.create_table(node_lines.POOL_HEADINGS, pools))
            else:
                pool_lines = columns.align_rows(node_lines.POOL_HEADINGS, pools) if pools else []
                click.echo("\n".join([node_lines.NODES.align(details.node_lines), *pool_lines]))
        if details.new_nodes:
            click.echo(NEW_NODES.align(details.new_nodes))


def print_records(predictions: Iterable[PredictionRecord]) -> None:
    """Print predictions for people, without a line for each node, and equal rejections once."""
    for prediction in drop_repeated(predictions):
        tables.print_content(format_prediction(prediction))


def format_prediction(prediction: PredictionRecord) -> Group:
    """Return a prediction with its details beneath it."""
    verdict = prediction.verdict
    heading = Text.assemble(
        (f"{escape_control(str(prediction.object))}: ", "bold"), (verdict.value, _FEASIBILITY_STYLES[verdict])
    )
    heading.append(escape_control(format_counts(prediction)))
    details_text = (Paragraph(Text(escape_control(line)), 4) for line in format_details(prediction))
    return Group(Paragraph(heading), *details_text)


def create_node_table(lines: Sequence[NodeLine]) -> RenderableType:
    """Return the table of nodes with bars and colours, for terminals."""
    rows: list[Sequence[str | Text]] = [
        (name, Text(answer, _ANSWER_STYLES[answer]), *cells, _format_bar(line.tightest), reason)
        for line, (name, answer, *cells, reason) in zip(lines, NODES.list_rows(lines), strict=True)
    ]
    return create_table((*NODES.headings[:-1], "USED", NODES.headings[-1]), rows, ("USED", "BALANCE", "FIT", "COPIES"))


def _format_bar(tightest: Shortfall) -> str:
    """Return a bar of the used, requested and free amounts of the allocatable."""
    if tightest.allocatable <= 0:
        return ""
    return format_bar(tightest.used, tightest.used + tightest.requested, tightest.allocatable)
