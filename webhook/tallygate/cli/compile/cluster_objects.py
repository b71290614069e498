"""The parts of a cluster on which compiled objects depend, and the compiled objects that it has."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tallygate.admission.webhook_configuration import CONFIGURATION_NAME, DEFAULT_NAMESPACE
from tallygate.backstop.compiled_objects import CompiledObject
from tallygate.backstop.resource_quotas import ObservedCluster
from tallygate.cli.doctor.doctor_client import DoctorClient
from tallygate.cli.doctor.facts import VALIDATING, Unavailable
from tallygate.cli.doctor.mounted_policies import CONFIGURATIONS_PATH, find_service_namespace
from tallygate.cli.doctor.webhook_match import CREATE_POD, NAME_LABEL, is_called_for
from tallygate.cli.sources.resource_lists import ListError, UnknownResourceError, list_resource
from tallygate.cli.sources.snapshot_file import create_no_namespaces_error, read_snapshot
from tallygate.cluster import kinds
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.state_builder import StateBuilder
from tallygate.kube.api_errors import ApiError
from tallygate.kube.client import ApiClient, ClientConfig
from tallygate.objects.admission_registration import WebhookConfiguration
from tallygate.policy.selectors import Operator
from tallygate.state.kubernetes.applied_objects import BACKSTOP_OBJECTS, KubernetesObjectStore

ALWAYS_EXCLUDED: Final = ("kube-system", DEFAULT_NAMESPACE)
"""The namespaces that the gate's webhooks exclude in any installation."""


def read_observed_cluster(client_config: ClientConfig, excluded_namespaces: Iterable[str]) -> ObservedCluster:
    """Return the namespaces and device classes of a cluster, and the namespaces for which its gate is not called.

    Raises:
        ListError: if namespaces or device classes cannot be listed.
    """
    client, builder = ApiClient(client_config), StateBuilder()
    try:
        for resource in (kinds.NAMESPACES, kinds.CLASSES):
            kind = kinds.KINDS_BY_RESOURCE[resource].kind
            try:
                builder.add_list(resource, list_resource(client, builder.create_codec(kind)))
            except UnknownResourceError:
                builder.add_problem(resource, kinds.KindProblem(kinds.UnknownReason.UNSERVED))
    finally:
        client.close()
    state = builder.finish()
    path = f"{CONFIGURATIONS_PATH}/{VALIDATING}s/{CONFIGURATION_NAME}"
    configuration = DoctorClient(client_config).get_object(path, WebhookConfiguration)
    if isinstance(configuration, Unavailable) or configuration is None:
        return _observe(state, excluded_namespaces)
    return _observe(state, (*excluded_namespaces, *list_excluded_names(configuration)))


def list_excluded_names(configuration: WebhookConfiguration) -> list[str]:
    """Return the namespaces that every webhook for new pods excludes by name, and that of the gate's Service.

    Other parts of the selectors are from the policies for which the gate is asked now.
    """
    webhooks = [webhook for webhook in configuration.webhooks if is_called_for(webhook, CREATE_POD)]
    excluded = [
        frozenset(
            name
            for expression in webhook.namespace_selector.match_expressions or ()
            if expression.key == NAME_LABEL and expression.operator == Operator.NOT_IN
            for name in expression.values or ()
        )
        for webhook in webhooks
    ]
    own = find_service_namespace([configuration])
    return sorted(frozenset.intersection(*excluded) if excluded else ()) + ([own] if own else [])


def read_observed_snapshot(path: Path, excluded_namespaces: Iterable[str]) -> ObservedCluster:
    """Return the namespaces and device classes of a snapshot.

    Raises:
        SnapshotError: if the snapshot cannot be read, or has no namespaces.
    """
    state = read_snapshot(path, (), with_columns=False)
    if not len(state.namespaces):
        raise create_no_namespaces_error(path)
    return _observe(state, excluded_namespaces)


def _observe(state: ClusterState, excluded_namespaces: Iterable[str]) -> ObservedCluster:
    return ObservedCluster(
        {record.name: dict(record.labels) for record in state.namespaces.list_records()},
        state.device_classes.get_resources_by_class() if state.knows(kinds.CLASSES) else None,
        frozenset({*ALWAYS_EXCLUDED, *excluded_namespaces}),
    )


def list_compiled_objects(client: ApiClient) -> list[CompiledObject]:
    """Return the objects of a cluster that have the label of compiled ones.

    Raises:
        ListError: if a list fails.
    """
    try:
        return KubernetesObjectStore(client, BACKSTOP_OBJECTS, wait=None).list_objects()
    except ApiError as error:
        raise ListError(str(error), error) from error
