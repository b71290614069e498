"""The commands `tallygate certs status`, of a cluster or a folder, and `tallygate certs publish`.

They have a module of their own because the import of the client of API servers is slow.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from tallygate.admission.match_conditions import MatchConditions
from tallygate.admission.self_registration import create_webhooks, is_left_to_gate, parse_choices
from tallygate.admission.webhook_configuration import CONFIGURATION_NAME, DEFAULT_NAMESPACE
from tallygate.admission.workload_resources import WorkloadResource, select_resources
from tallygate.cli.certs.command import FOLDER_ARGUMENT, convert_certificates, convert_errors, create_certificate_table
from tallygate.cli.connection import Connection
from tallygate.cli.framework import EXIT_FINDINGS, Command, UsageError, connection_options, data_option
from tallygate.cli.output import tables
from tallygate.cli.sources.options import load_usable_policies, require_one_source
from tallygate.kube.api_errors import ApiError
from tallygate.kube.client import ApiClient
from tallygate.kube.discovery import Discovery
from tallygate.objects.admission_registration import WebhookConfiguration, encode_webhook
from tallygate.policy.known_kinds import KNOWN_KINDS
from tallygate.policy.model import PolicySet
from tallygate.server.settings.token_file import read_tokens
from tallygate_certs.ca_bundle import PublishOutcome, publish_bundle, read_ca_bundle
from tallygate_certs.cert_files import read_chain
from tallygate_certs.certificate_names import read_names
from tallygate_certs.certificate_status import (
    CertificatesOverview,
    ConfigurationTrust,
    SecretStatus,
    create_status,
    inspect_certificates,
)
from tallygate_certs.cluster_access import create_client, read_object
from tallygate_certs.secret_store import KubernetesCertificateStore

_NO_POLICIES = (
    "no kind that a policy defines (WorkloadKind) is registered: `tallygate doctor --policies PATH` prints the commands"
)
_DEFAULT_SECRET = f"{DEFAULT_NAMESPACE}/{CONFIGURATION_NAME}-tls"


@click.command(
    cls=Command,
    examples=(
        ("tallygate certs status", "in the cluster of your kubeconfig"),
        ("tallygate certs status --secret team-a/gate-tls -o json", "of another Secret, for a program"),
        ("tallygate certs status tls/", "of a folder: names, lifetimes, and whether anything is wrong"),
    ),
)
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--secret", metavar="NAMESPACE/NAME", help=f"The gate's tls_secret. Default: {_DEFAULT_SECRET}.")
@data_option
@connection_options
@click.pass_context
def status(
    ctx: click.Context,
    folder: Path | None,
    secret: str | None,
    output: str,
    *,
    connection: Connection,
) -> None:
    """Show the certificates in the Secret of `serve --tls-secret`, whether API servers trust them, and the rotation.

    With FOLDER, show the certificates in it instead, and whether a renewal is due. Nothing is written, and no key is
    shown. Needed rights, without FOLDER: get on the Secret and on both webhook configurations.

    Exit codes: 0 all is well, 1 something is wrong, 2 it cannot be read.
    """
    if folder is None:
        problems = _show_secret(secret or _DEFAULT_SECRET, output, connection)
    elif secret or not connection.is_default:
        raise UsageError("FOLDER takes no --secret, --kubeconfig, --context, --in-cluster or --as: no cluster is read")
    else:
        problems = _show_folder(folder, output)
    ctx.exit(EXIT_FINDINGS if problems else 0)


def _show_folder(folder: Path, output: str) -> Sequence[str]:
    with convert_errors():
        overview = inspect_certificates(folder, datetime.now(UTC))
    tables.print_object(
        "CertificateReport",
        lambda: _convert_overview(overview),
        output,
        lambda: tables.print_content(_render_overview(overview)),
    )
    return overview.problems


def _render_overview(overview: CertificatesOverview) -> RenderableType:
    table = create_certificate_table(overview.ca_certificates, overview.serving)
    problems = [Text(problem, "bold red") for problem in overview.problems]
    renewal = [Text("a renewal is due: tallygate certs renew", "yellow")] if overview.is_renewal_due else []
    return Lines(table, *problems, *renewal)


def _convert_overview(overview: CertificatesOverview) -> dict[str, Any]:
    return {
        **convert_certificates(overview.ca_certificates, overview.serving),
        "renewalDue": overview.is_renewal_due,
        "problems": list(overview.problems),
    }


def _show_secret(secret: str, output: str, connection: Connection) -> Sequence[str]:
    require_one_source(connection)
    namespace, slash, secret_name = secret.partition("/")
    if not (namespace and slash and secret_name) or "/" in secret_name:
        raise UsageError(f"--secret {secret}: write NAMESPACE/NAME, as in {_DEFAULT_SECRET}")
    with convert_errors():
        client = create_client(connection.load())
        cluster = KubernetesCertificateStore(client, (namespace, secret_name), CONFIGURATION_NAME)
        registered, stored = cluster.read_webhook_trust(), cluster.read_secret()
    secret_status = create_status(stored.state if stored else None, registered, datetime.now(UTC))
    tables.print_object(
        "CertificateStatus",
        lambda: _convert_status(secret_status),
        output,
        lambda: tables.print_content(_render_status(secret_status)),
    )
    return secret_status.problems


def _render_status(secret_status: SecretStatus) -> RenderableType:
    trust_lines = [Text(f"{trust.kind}: {_format_trust(trust)}") for trust in secret_status.trust]
    remarks = [Text(text, "yellow") for text in secret_status.activities] + [
        Text(text, "bold red") for text in secret_status.problems
    ]
    no_configuration = (
        [] if secret_status.trust else [Text("the webhook configuration is missing: no API server calls the gate")]
    )
    return Lines(
        create_certificate_table(secret_status.ca_certificates, secret_status.serving),
        *trust_lines,
        *no_configuration,
        *remarks,
    )


def _format_trust(trust: ConfigurationTrust) -> str:
    if not trust.webhooks:
        return "no webhooks: the gate has not registered itself yet (`tallygate doctor` shows the reason)"
    word = "is" if trust.is_exact else "is not"
    return f"{trust.webhooks} webhooks, caBundle {word} what ca.crt says"


def _convert_status(secret_status: SecretStatus) -> dict[str, Any]:
    return {
        **convert_certificates(secret_status.ca_certificates, secret_status.serving),
        "registered": [
            {"kind": trust.kind, "webhooks": trust.webhooks, "trustsExactly": trust.is_exact}
            for trust in secret_status.trust
        ],
        "goingOn": list(secret_status.activities),
        "problems": list(secret_status.problems),
    }


@click.command(
    cls=Command,
    examples=(
        ("tallygate certs publish tls/", "in the cluster of your kubeconfig"),
        ("tallygate certs publish tls/ --kubeconfig admin.conf --context prod", "in another"),
        ("tallygate certs publish tls/ --policies policies/", "... with the kinds that these policies define"),
    ),
)
@FOLDER_ARGUMENT
@click.option(
    "--token-file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The gate's token_file, to register a gate that has one.",
)
@click.option(
    "--policies",
    metavar="PATH",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A policy file of the gate, or a folder of them, to register what they need too; may be given several times.",
)
@connection_options
def publish(  # each is an option
    folder: Path, token_file: Path | None, policies: tuple[Path, ...], *, connection: Connection
) -> None:
    """Write the authorities in ca.crt of FOLDER into the gate's webhook configurations, as caBundle of every webhook.

    Both configurations, mutating and validating, are read, and written only if they differ; one of them may be missing.
    The command fails if these authorities have not signed tls.crt in FOLDER. Run it after `issue`, and after a `renew`
    that has created a new authority.

    If a replica of the gate is ready, and may not write the registration itself, the command completes a configuration
    that is left to the gate and has no webhooks. It registers the served kinds of other projects that are known, or
    that --policies define. If these imply requests, the mutating phase gets every new pod. Needed rights: get and patch
    on both kinds, and to complete them update, and get on the gate's Deployment.

    Exit codes: 0 published, or nothing to do; 2 it could not be done.
    """
    require_one_source(connection)
    given = load_usable_policies(policies) if policies else None
    with convert_errors():
        ca_bundle = read_ca_bundle(folder, datetime.now(UTC))
        client = create_client(connection.load())
        registrar = _Registrar(client, folder, ca_bundle, _read_token(token_file), given or PolicySet())
        outcomes = set()
        for result in publish_bundle(client, CONFIGURATION_NAME, ca_bundle, registrar.create_webhooks):
            click.echo(f"{result.kind} {result.name}: {result.outcome}")
            outcomes.add(result.outcome)
    if given is None and PublishOutcome.REGISTERED in outcomes:
        click.echo(_NO_POLICIES, err=True)


def _read_token(path: Path | None) -> str:
    return read_tokens(path)[0].decode("ascii") if path else ""


class _Registrar:
    """The registration of a gate with the certificate in a folder, for the administrator in place of the gate."""

    def __init__(self, client: ApiClient, folder: Path, ca_bundle: bytes, token: str, policies: PolicySet) -> None:
        self._client = client
        self._discovery = Discovery(client)
        self._folder = folder
        self._ca_bundle = ca_bundle
        self._token = token
        self._policies = policies

    def create_webhooks(self, content: Any) -> list[dict[str, Any]] | None:
        """Return the webhooks of a configuration, or None if it is not left to the gate.

        Raises:
            UsageError: if the certificate is not valid for the gate's Service, no replica is ready, or the served
                resources cannot be read.
            ApiError: if the gate's Deployment cannot be read.
        """
        configuration = msgspec.convert(content, WebhookConfiguration)
        if not is_left_to_gate(configuration):
            return None
        choices = parse_choices(configuration)
        namespace = self._find_namespace() or DEFAULT_NAMESPACE
        if not choices.url:
            self._require_ready_replica(namespace)
        webhooks = create_webhooks(
            configuration,
            choices,
            namespace=namespace,
            token=self._token,
            choose_bundle=lambda _: self._ca_bundle,
            workload_resources=self._select_workload_resources(),
            conditions=MatchConditions(self._policies, asks_everything=True),
        )
        return list(map(encode_webhook, webhooks))

    def _select_workload_resources(self) -> Sequence[WorkloadResource]:
        try:
            return select_resources((*KNOWN_KINDS, *self._policies.workload_kinds), self._discovery.read())
        except ApiError as error:
            raise UsageError(f"{self._client.server} does not report the kinds that it serves: {error}") from error

    def _find_namespace(self) -> str:
        """Return the namespace of the gate's Service by the names of the certificate, "" if it is for no Service."""
        chain = read_chain(self._folder)
        for name in read_names(chain[0]).dns if chain else ():
            match name.split("."):
                case [service, namespace, "svc"] if service == CONFIGURATION_NAME:
                    return namespace
        return ""

    def _require_ready_replica(self, namespace: str) -> None:
        if not self._find_namespace():
            raise UsageError(
                f"{self._folder / 'tls.crt'} is not for the gate's Service: make another by `tallygate certs issue "
                f"{self._folder} --service NAMESPACE/{CONFIGURATION_NAME}`, and put it into the gate's Secret"
            )
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{CONFIGURATION_NAME}"
        deployment = read_object(self._client, path, "Deployment", CONFIGURATION_NAME)
        if not deployment.get("status", {}).get("readyReplicas"):
            raise UsageError(
                f"no replica of the gate is ready, so that pods would be refused: wait for `kubectl -n {namespace} "
                f"rollout status deployment/{CONFIGURATION_NAME}`"
            )
