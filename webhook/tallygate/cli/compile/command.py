"""The command `tallygate compile`: objects of Kubernetes that enforce a part of the policies while no gate answers."""

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from tallygate.answers import columns
from tallygate.backstop.compilation import Compilation, Difference, compare_objects, compile_policies
from tallygate.backstop.compiled_objects import CompiledObject
from tallygate.backstop.gaps import Gap
from tallygate.backstop.resource_quotas import ObservedCluster, list_assumed_resources
from tallygate.backstop.static_manifests import create_registration_policy, create_static_manifests
from tallygate.cli import framework
from tallygate.cli.compile import cluster_objects
from tallygate.cli.connection import Connection
from tallygate.cli.doctor.facts import Unavailable
from tallygate.cli.doctor.mounted_policies import read_gate_policies
from tallygate.cli.output import tables
from tallygate.cli.sources.options import combine_files, files_options, require_one_source, snapshot_option
from tallygate.kube.client import ApiClient
from tallygate.manifests.findings import STDIN_NAME
from tallygate.manifests.manifest_files import STDIN
from tallygate.policy.load import load_policies
from tallygate.policy.model import PolicySet
from tallygate.policy.parse import MAX_FILE_BYTES

_TABLE, _YAML, _JSON = framework.DATA_FORMATS[0], "yaml", "json"
_GROUP_PREFIX = "group:"
_GAPS = columns.Columns[Gap](
    columns.Column("POLICY", "policy", is_named_once=True),
    columns.Column("SUBJECT", "subject"),
    columns.Column("ENFORCED", "enforced", lambda gap: "part" if gap.is_looser else "none"),
    columns.Column("REASON", "reason"),
)
_DIFFERENCES = columns.Columns[Difference](
    columns.Column("DIFFERENCE", "difference", lambda difference: difference.difference.value),
    columns.Column("KIND", "kind"),
    columns.Column("NAMESPACE", "namespace", lambda difference: difference.namespace or None),
    columns.Column("NAME", "name"),
    columns.Column("FIELD", "field", lambda difference: difference.path or None),
)


@click.command(
    cls=framework.Command,
    examples=(
        ("tallygate compile policies/ --context prod > backstop.yaml", "for the namespaces of a cluster"),
        ("kubectl apply --prune -l tallygate.dev/compiled-from -f backstop.yaml", "... and apply them"),
        ("tallygate compile policies/", "without a cluster: for the namespaces that caps include by name"),
        ("tallygate compile policies/ --gaps", "what no object can enforce"),
        ("tallygate compile policies/ --check", "whether the cluster of your kubeconfig has them, as in CI"),
        (
            "tallygate compile policies/ --static --may-change-registration group:platform > tallygate.yaml",
            "a file for the API server itself",
        ),
    ),
)
@files_options("[FILE|FOLDER|-]...", "A policy file, a folder of them, or - for stdin.")
@click.option("--check", is_flag=True, help="Compare with the objects in the cluster; exit code 1 when they differ.")
@click.option("--gaps", is_flag=True, help="Print the gaps instead of objects.")
@click.option(
    "--static",
    "is_static",
    is_flag=True,
    help="Print policies that an API server of Kubernetes 1.37 loads from files at its start; there are no "
    "ResourceQuotas.",
)
@click.option(
    "--may-change-registration",
    "registrars",
    metavar="USER",
    multiple=True,
    help="With --static: add a policy by which only this user, or with `group:` before the name this group, may "
    "change or delete the gate's webhook configurations; may be given several times. Name the gate's own "
    "ServiceAccount too.",
)
@click.option(
    "--exempt-namespace",
    "exempt_namespaces",
    metavar="NAME",
    multiple=True,
    help="A namespace for which the gate is not called, in addition to kube-system and tallygate-system; may be "
    "given several times. Namespaces that the webhooks in a cluster exclude are read from it.",
)
@framework.connection_options
@snapshot_option(
    "Take the namespaces from a file of `tallygate snapshot`, or of `kubectl get namespaces,deviceclasses -o json`."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(framework.DATA_FORMATS),
    help="How to print it. Default: yaml for objects, table for --gaps and --check.",
)
@click.pass_context
def compile(  # noqa: A001, PLR0913 -- the command's name; one argument for each option
    ctx: click.Context,
    paths: tuple[str, ...],
    filenames: tuple[str, ...],
    *,
    check: bool,
    gaps: bool,
    is_static: bool,
    registrars: tuple[str, ...],
    exempt_namespaces: tuple[str, ...],
    connection: Connection,
    snapshot: Path | None,
    output: str | None,
) -> None:
    """Print objects of Kubernetes that enforce a part of the policies while no gate answers.

    A cap becomes a ResourceQuota in each of its namespaces, and the rules of each enforcement become a
    ValidatingAdmissionPolicy. No object denies what the gate allows. A check or limit that they do not enforce, or only
    in part, is a gap, which stderr lists with the reason. All objects have the label `tallygate.dev/compiled-from`, so
    that they can be found and pruned.

    Without files the policies of the gate in the cluster are compiled. The namespaces are read from the cluster if its
    policies are compiled, an option names it, or with --check; or from a snapshot. Otherwise there are objects only for
    namespaces that a cap includes by name. Compile again when policies, namespaces, their labels or device classes
    change: --check shows that. Needed rights: list on namespaces and deviceclasses; get on the gate's validating
    webhook configuration; with --check also list on resourcequotas, validatingadmissionpolicies and
    validatingadmissionpolicybindings. Without files also get on the gate's webhook configurations, its Deployment and
    its ConfigMaps.

    Exit codes: 0 printed, 1 --check found differences, 2 a usage error, or the cluster cannot be read.
    """
    require_one_source(connection, snapshot)
    if check and (gaps or snapshot or is_static):
        raise framework.UsageError("--check compares with a cluster; it takes neither --gaps, --static nor --snapshot")
    if registrars and not is_static:
        raise framework.UsageError("--may-change-registration needs --static: a policy of the API could be deleted too")
    if output == _TABLE and not (gaps or check):
        raise framework.UsageError("-o table needs --gaps or --check: objects are printed as yaml or json")
    policies = _load_policies(paths, filenames, connection, snapshot)
    reads_cluster = check or not (paths or filenames or snapshot) or not connection.is_default
    cluster = _observe_cluster(connection if reads_cluster else None, snapshot, exempt_namespaces)
    compilation = compile_policies(policies, cluster, datetime.now(UTC))
    if check:
        ctx.exit(_print_differences(compilation, connection, output or _TABLE))
    if gaps:
        tables.print_records(_GAPS, "Gap", compilation.gaps, output or _TABLE)
        return
    objects = _create_manifests(compilation, policies, registrars) if is_static else compilation.objects
    _print_objects(objects, output or _YAML)
    for line in _describe_compilation(compilation, objects, cluster):
        click.echo(columns.escape_control(line), err=True)


def _load_policies(
    paths: tuple[str, ...], filenames: tuple[str, ...], connection: Connection, snapshot: Path | None
) -> PolicySet:
    """Return the policies of the files, or else those of the gate in the cluster.

    Raises:
        UsageError: if the policies are not usable, unknown, or there are none.
    """
    if not (paths or filenames):
        if snapshot:
            raise framework.UsageError("name policy files: a snapshot has no policies")
        gate_policies = read_gate_policies(connection.load())
        if isinstance(gate_policies, Unavailable):
            raise framework.UsageError(
                f"the policies of the gate are unknown: {gate_policies.reason}; name their files"
            )
        if not gate_policies.count_documents():
            raise framework.UsageError("the gate here has no policies; name policy files")
        return gate_policies
    files = combine_files(paths, filenames, snapshot)
    stdin = [(STDIN_NAME, sys.stdin.buffer.read(MAX_FILE_BYTES + 1))] if STDIN in files else []
    parsed = load_policies([Path(name) for name in files if name != STDIN], extra_files=stdin)
    if not parsed.is_usable:
        raise framework.UsageError("\n".join(map(str, parsed.findings)))
    return parsed.policies


def _observe_cluster(
    connection: Connection | None, snapshot: Path | None, exempt_namespaces: Sequence[str]
) -> ObservedCluster:
    """Return the parts of the cluster or snapshot on which the objects depend; without both, only what is excluded.

    Raises:
        TallygateError: if the cluster or the snapshot cannot be read.
    """
    if snapshot:
        return cluster_objects.read_observed_snapshot(snapshot, exempt_namespaces)
    if connection is not None:
        return cluster_objects.read_observed_cluster(connection.load(), exempt_namespaces)
    return ObservedCluster(excluded_namespaces=frozenset({*cluster_objects.ALWAYS_EXCLUDED, *exempt_namespaces}))


def _print_differences(compilation: Compilation, connection: Connection, output: str) -> int:
    """Print what differs in the cluster, and return the exit code.

    Raises:
        ListError: if the objects of the cluster cannot be listed.
    """
    client = ApiClient(connection.load())
    try:
        applied = cluster_objects.list_compiled_objects(client)
    finally:
        client.close()
    differences = compare_objects(compilation.objects, applied)
    print_table = (lambda: click.echo(_DIFFERENCES.align(differences))) if differences else (lambda: None)
    tables.print_records(_DIFFERENCES, "Difference", differences, output, print_table)
    count = len(compilation.objects)
    result = f"{len(differences)} differ" if differences else "no difference"
    click.echo(f"{count} compiled object{'s' * (count != 1)} compared with the cluster: {result}", err=True)
    return framework.EXIT_FINDINGS if differences else 0


def _print_objects(objects: Sequence[CompiledObject], output: str) -> None:
    if output == _JSON:
        tables.print_data({"apiVersion": "v1", "kind": "List", "items": list(objects)}, _JSON)
        return
    for content in objects:
        click.echo("---")
        tables.print_data(content, _YAML)


def _create_manifests(
    compilation: Compilation, policies: PolicySet, registrars: Sequence[str]
) -> Sequence[CompiledObject]:
    """Return the static manifests, with the policy that protects the registration if users may change it.

    Raises:
        UsageError: if a user or group has no name.
    """
    groups = [name.removeprefix(_GROUP_PREFIX) for name in registrars if name.startswith(_GROUP_PREFIX)]
    users = [name for name in registrars if not name.startswith(_GROUP_PREFIX)]
    if not all((*groups, *users)):
        raise framework.UsageError("--may-change-registration: write the name of a user, or group: and that of a group")
    protection = create_registration_policy(users, groups, policies.digest) if registrars else []
    return [*create_static_manifests(compilation.objects), *protection]


def _describe_compilation(
    compilation: Compilation, objects: Sequence[CompiledObject], cluster: ObservedCluster
) -> Iterator[str]:
    """Yield a line for each gap, the assumptions, and the numbers of the printed objects and of those left out."""
    for gap in compilation.gaps:
        extent = "enforced in part" if gap.is_looser else "not enforced"
        yield f"gap: {gap.policy}: {gap.subject}: {extent}: {gap.reason}"
    omitted = sum(content["kind"] == "ResourceQuota" for content in compilation.objects)
    if omitted and not any(content["kind"] == "ResourceQuota" for content in objects):
        yield f"note: {omitted} ResourceQuota{'s' * (omitted != 1)} left out: an API server loads none from files"
    elif cluster.resources_by_class is None and (assumed := list_assumed_resources(objects)):
        yield (
            f"note: no DeviceClass was read; it is assumed that none has one of these extended resources: "
            f"{', '.join(assumed)}"
        )
    gap_count = len(compilation.gaps)
    yield f"{len(objects)} object{'s' * (len(objects) != 1)}, {gap_count} gap{'s' * (gap_count != 1)}"
