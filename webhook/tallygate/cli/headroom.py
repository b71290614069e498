"""The command `tallygate headroom`: the number of further copies of a pod for which a cluster has capacity."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import click
import msgspec
from rich.console import Group
from rich.text import Text

from tallygate.accounting.kubernetes_versions.version import KubernetesVersion
from tallygate.answers import prediction_json
from tallygate.answers.answer_records import HIDDEN_NODE, HeadroomRecord, read_headroom
from tallygate.answers.asked_headroom import PodCapacityError, compute_capacities
from tallygate.answers.columns import escape_control
from tallygate.answers.pods_to_place import create_pods_in_files
from tallygate.answers.prediction_lines import format_headroom, format_headroom_details
from tallygate.cli import framework
from tallygate.cli.ask.asked_objects import is_sent
from tallygate.cli.ask.gate_answers import ask_headroom
from tallygate.cli.ask.gate_client import GateError
from tallygate.cli.ask.without_rights import announce, create_no_gate_error, is_forbidden, open_gate_instead
from tallygate.cli.connection import Connection
from tallygate.cli.output import tables
from tallygate.cli.output.tables import Paragraph
from tallygate.cli.predict.cluster_input import (
    create_no_pods_error,
    feature_gates_option,
    find_prediction_policies,
    print_note,
    read_cluster,
    read_manifests,
    report_omissions,
    report_unknown_gates,
)
from tallygate.cli.progress import StderrProgress
from tallygate.cli.sources.cluster_source import ClusterSource
from tallygate.cli.sources.options import (
    combine_files,
    files_options,
    kubernetes_option,
    policies_option,
    snapshot_option,
)
from tallygate.cli.sources.resource_lists import ListError
from tallygate.documents.syntax_tree import DEFAULT_LIMITS
from tallygate.manifests.applied_objects import list_applied_objects
from tallygate.manifests.manifest_objects import Manifest
from tallygate.objects.scheduling import PodGroup

_INSTEAD = (
    "without this right the gate's server of asks answers by the policies of the gate, if it runs in the cluster: "
    "leave out --policies"
)


@click.command(
    cls=framework.Command,
    examples=(
        ("tallygate headroom train.yaml", "the number of further copies, their nodes, and what limits them"),
        ("tallygate headroom shapes/ --snapshot now.json", "for each pod of a folder by itself, on a snapshot"),
        ("tallygate headroom train.yaml -o json", "for a program"),
    ),
)
@files_options("[FILE|FOLDER|-]...", "Manifests, a folder of them, or - for stdin. A workload counts as one pod.")
@framework.namespace_option("For objects without a namespace. Default: that of the kubeconfig's context, else default.")
@framework.connection_options
@snapshot_option(
    "A file of `tallygate snapshot`, or of `kubectl get nodes,pods,namespaces,pvc,pv,sc,priorityclasses,pdb -A` with "
    "-o json or -o yaml, instead of a cluster."
)
@policies_option
@kubernetes_option
@feature_gates_option
@framework.data_option
@click.pass_context
def headroom(  # noqa: PLR0913 -- one argument for each option
    ctx: click.Context,
    paths: tuple[str, ...],
    *,
    filenames: tuple[str, ...],
    namespace: str | None,
    connection: Connection,
    snapshot: Path | None,
    policies: tuple[Path, ...],
    kubernetes: KubernetesVersion | None,
    gates: frozenset[str],
    output: str,
) -> None:
    """Show how many more copies of a pod fit, for each node and in total, and the reason why no more fit.

    The command places copies as kube-scheduler would, until no more fits; each of several pods is placed by itself, and
    nothing is preempted. Caps and quotas are not considered: `tallygate predict` and `ask` do that. The message is the
    beginning of the scheduler's message about the next copy. Copies in a PodGroup count by themselves, with the claims
    of the group; the message reports if they do not reach its quorum.

    The policies are those of --policies, or else those of the gate in the cluster: their implied requests are added to
    pods. A WorkloadKind, in the files or the policies, defines where the pods are in objects of its kind. With
    NodeShapes, in the files or the policies, the output has the number of copies for a new node of each shape; shapes
    of node pools are derived. The versions of Kubernetes are those of `tallygate predict`.

    Needed rights: those of `tallygate predict` for files. Without them the gate answers by its own policies, as for
    `tallygate ask`, if its server of asks runs in the cluster and the user may create the objects. Names of nodes are
    then shown as [node], and a WorkloadKind or NodeShape in the files has no effect.

    Exit codes: 0 shown, 1 an object with pods is of a kind that is not read, 2 a usage error, or the cluster cannot be
    read.
    """
    source = ClusterSource(connection, snapshot, kubernetes)
    files, namespace = combine_files(paths, filenames, snapshot), source.connection.choose_namespace(namespace)
    policy_set, note = find_prediction_policies(source, policies)
    messages, manifests = [note] if note else [], read_manifests(files)
    in_files = create_pods_in_files(manifests, namespace, policy_set, 1, messages.append)
    try:
        # by its policies, which are not known here, the gate may read the pods of further kinds
        state = read_cluster(source, _list_groups(manifests, namespace)) if in_files.pods or note else None
    except ListError as error:
        if policies or kubernetes or gates or not is_forbidden(error):
            raise create_no_gate_error(error, _INSTEAD) from error
        ctx.exit(_print_answer_of_gate(connection, manifests, namespace, error, output))
    for message in messages:
        print_note(message)
    if state is None or not in_files.pods:
        raise create_no_pods_error(files)
    report_omissions(state, source)
    state.require_columns().pod_groups.turn_on(gates)
    try:
        capacities = compute_capacities(in_files, policy_set, state.require_columns(), StderrProgress())
    except PodCapacityError as error:
        raise framework.UsageError(f"{error}") from error
    report_unknown_gates(note for _, capacity in capacities for note in capacity.unmodelled)
    items = list(prediction_json.convert_capacities(capacities, state.require_columns()))
    tables.print_list("Headroom", items, output, lambda: _print_records(map(read_headroom, items)))
    ctx.exit(framework.EXIT_FINDINGS if in_files.unread else 0)


def _list_groups(manifests: Sequence[Manifest], namespace: str) -> list[tuple[str, msgspec.Struct]]:
    """Return the PodGroups among the objects, which act as if they were stored."""
    applied = list_applied_objects(manifests, namespace, DEFAULT_LIMITS)
    return [(kind, item) for kind, item in applied if isinstance(item, PodGroup)]


def _print_answer_of_gate(
    connection: Connection, manifests: Sequence[Manifest], namespace: str, error: ListError, output: str
) -> int:
    """Print the gate's numbers of further copies, and return the exit code.

    Raises:
        UsageError: if the gate does not answer, with the error; or if there are no pods.
    """
    gate = open_gate_instead(connection, error)
    announce(gate, "about the pods in the files")
    asked = [manifest for manifest in manifests if is_sent(manifest)]
    try:
        content, answer = ask_headroom(gate, asked, namespace)
    except GateError as reason:
        raise framework.UsageError(f"{error}\nthe gate does not answer instead: {reason}") from reason
    unread = (f"{each.object}: {each.message}" for each in answer.unread)
    acting = (
        f"{each} would act on the others once it is stored, and does not act here" for each in answer.not_modelled
    )
    for message in (*unread, *acting, *answer.remarks):
        print_note(message)
    if not answer.items:
        raise create_no_pods_error(list(dict.fromkeys(manifest.file for manifest in manifests)))
    tables.print_list("Headroom", content["items"], output, lambda: _print_records(answer.items))
    return framework.EXIT_FINDINGS if answer.unread else 0


def _print_records(records: Iterable[HeadroomRecord]) -> None:
    for record in records:
        tables.print_content(_format_record(record))
        if record.nodes:
            rows = ((each.node or HIDDEN_NODE, each.copies) for each in record.nodes)
            click.echo(prediction_json.COPIES.align(rows))


def _format_record(record: HeadroomRecord) -> Group:
    heading = Text.assemble((f"{escape_control(str(record.object))}: ", "bold"), format_headroom(record))
    lines = (Paragraph(Text(escape_control(line)), 4) for line in format_headroom_details(record))
    return Group(Paragraph(heading), *lines)
