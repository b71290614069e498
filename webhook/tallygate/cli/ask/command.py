"""The command `tallygate ask`: the gate's answer about manifests, for those without rights in the cluster."""

import sys
from collections.abc import Sequence

import click

from tallygate.accounting.scheduling.prediction import Feasibility
from tallygate.answers.answer_records import AskAnswer
from tallygate.answers.columns import escape_control
from tallygate.cli import framework
from tallygate.cli.ask.asked_objects import is_sent
from tallygate.cli.ask.gate_address import GateOptions, gate_options
from tallygate.cli.ask.gate_answers import ask_gate
from tallygate.cli.ask.gate_client import open_gate
from tallygate.cli.connection import Connection
from tallygate.cli.output import tables
from tallygate.cli.predict.prediction_text import print_records
from tallygate.cli.progress import track_files
from tallygate.cli.sources.options import combine_files, exclude_option, files_options, list_excluded
from tallygate.documents.syntax_tree import DEFAULT_LIMITS
from tallygate.manifests.findings import RunSummary, is_failure
from tallygate.manifests.manifest_files import LoadedManifests, load_manifests
from tallygate.manifests.manifest_objects import Manifest


@click.command(
    cls=framework.Command,
    examples=(
        ("tallygate ask -f job.yaml", "would this job be accepted, and would its pods run?"),
        ("helm template . | tallygate ask -n team-a -f -", "for all that a chart renders to, in its order"),
        ("tallygate ask -f deploy/ --strict", "fail on warnings, and on pods that would wait, as in CI"),
        ("tallygate ask -f job.yaml -o json", "for a program; `tallygate schema ask` prints the form"),
        ("tallygate ask -f job.yaml --url https://ask.example.com", "a gate at another address"),
    ),
)
@files_options("[FILE|FOLDER|-]...", "Manifests, a folder of them at any depth, or - for stdin.")
@framework.namespace_option("For objects without a namespace. Default: that of the kubeconfig's context, else default.")
@framework.connection_options
@gate_options
@exclude_option
@framework.strict_option
@framework.data_option
@click.pass_context
def ask(  # noqa: PLR0913 -- one argument for each option
    ctx: click.Context,
    paths: tuple[str, ...],
    *,
    filenames: tuple[str, ...],
    namespace: str | None,
    connection: Connection,
    address: GateOptions,
    exclude: tuple[str, ...],
    strict: bool,
    output: str,
) -> None:
    """Ask the gate what would happen to manifests: YAML or JSON files, folders of them at any depth, or stdin (-).

    The output has the findings of `tallygate check` with the present state of caps and ResourceQuotas, and the
    predictions of `tallygate predict` for the pods, for the objects in their order: amounts of one object are not free
    for those after it. Nothing is stored or reserved. A user who may create an object may ask about it. No right to
    list nodes, namespaces or pods of others is needed; their names are shown to users who may list them.

    The gate's server of asks (`tallygate serve-ask`) must be installed. The command reads its address from a ConfigMap
    that every user of the cluster can read. For an address inside the cluster it forwards a port to a pod through the
    API server; that needs list on endpointslices, and get and create on pods/portforward, in the gate's namespace. The
    token or the client certificate of the kubeconfig is sent over TLS, after the certificate of the gate was verified,
    and only to this address: redirects are not followed. Secrets, and documents that are not objects, are not sent.

    Exit codes: 0 all would be accepted, 1 an object would be rejected (with --strict also: there is a warning, or pods
    would not run now), 2 a usage error, or the gate does not answer.
    """
    files = combine_files(paths, filenames)
    loaded = load_manifests(files, sys.stdin.buffer, DEFAULT_LIMITS, track_files, exclude)
    if loaded.findings:
        raise framework.UsageError("\n".join(f"{finding.location}: {finding.message}" for finding in loaded.findings))
    asked = [manifest for manifest in loaded.manifests if is_sent(manifest)]
    if not asked:
        raise framework.UsageError(f"{', '.join(files)}: no Kubernetes object to ask about")
    default_namespace = connection.choose_namespace(namespace)
    gate = open_gate(connection, address)
    content, answer = ask_gate(gate, asked, default_namespace)
    findings = [finding.to_finding() for each in answer.objects for finding in each.findings]
    if output == framework.DATA_FORMATS[0]:
        tables.print_finding_table(findings)
        print_records(prediction for each in answer.objects for prediction in each.predictions)
        for line in _summarize(answer, asked, loaded).list_lines(findings):
            click.echo(escape_control(line), err=True)
    else:
        tables.print_data(content, output)
    verdicts = {prediction.verdict for each in answer.objects for prediction in each.predictions}
    is_refused = is_failure(findings, strict=strict) or Feasibility.REJECTED in verdicts
    ctx.exit(framework.EXIT_FINDINGS if is_refused or (strict and verdicts - {Feasibility.NOW}) else 0)


def _summarize(answer: AskAnswer, asked: Sequence[Manifest], loaded: LoadedManifests) -> RunSummary:
    """Return the numbers of a run, and from when and about what the answer is."""
    summary = RunSummary("object", loaded.file_count, non_object_count=loaded.non_object_count)
    for each in answer.objects:
        summary.item_count += each.read
        if not each.read:
            (summary.unread_kinds if each.findings else summary.skipped_kinds)[each.object.kind] += 1
    summary.skipped_kinds["Secret"] += len(loaded.manifests) - len(asked)
    summary.skipped_kinds = +summary.skipped_kinds
    summary.notes += [*list_excluded(loaded), *answer.remarks]
    summary.notes += (
        f"{each} would act on the others once it is stored, and does not act here" for each in answer.not_modelled
    )
    revision = f", revision {answer.revision}" if answer.revision is not None else ""
    summary.notes.append(f"answered by the gate from the cluster as of {answer.as_of}{revision}; nothing is reserved")
    return summary
