"""The assembly of a server: policies, telemetry, the gate, and the lifecycle that serves it.

The gate without a cluster is here too: its labels come from a file, and no recount replaces its reservations.
"""

import gc
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial

from tallygate.admission.kinds import DecodedRequest
from tallygate.admission.request import ALLOWED, Verdict
from tallygate.admission.rule_index import RuleSelection
from tallygate.gate.asked_policies import AskedPolicies
from tallygate.gate.gate import Gate
from tallygate.policy.known_kinds import KNOWN_KINDS
from tallygate.review.view import ClusterView
from tallygate.server.controllers.relay_controller import RelayController
from tallygate.server.https.tls_files import find_trust_problem, read_authorities, read_ca_bundle, read_certificates
from tallygate.server.interfaces import (
    BackgroundPart,
    GateParts,
    Registration,
    RegistrationParts,
    ServerSetup,
    create_nonce_source,
)
from tallygate.server.lifecycle import Lifecycle, ServeError
from tallygate.server.policy_reloader import PolicyReloader
from tallygate.server.settings.table import Settings
from tallygate.server.telemetry.json_log import FailureLog, Logger, forward_library_logs
from tallygate.server.telemetry.ledger_metrics import CapMetrics
from tallygate.server.telemetry.metrics import AskedMetrics, Telemetry, start_telemetry
from tallygate.server.web.flask_app import create_app
from tallygate.server.web.pages.page_address import create_page_finder
from tallygate.state.in_memory import MemoryLedgers, UnknownNamespaces


class SkippedNodeRules:
    """A `NodeRuleEvaluator` without a cluster: it allows every request, and logs that once."""

    def __init__(self, log: Logger) -> None:
        self._log = FailureLog(partial(log.warning, "node-rules-not-evaluated"))

    def __call__(self, _request: DecodedRequest, _selection: RuleSelection) -> Verdict:
        """Return that the request is allowed, and log the reason at the first call."""
        self._log.update("advertised and schedulable are not evaluated: no cluster is watched: name one by --cluster")
        return ALLOWED


def create_standalone_gate(
    settings: Settings, policy_reloader: PolicyReloader, telemetry: Telemetry, cap_metrics: CapMetrics
) -> GateParts:
    """Return the parts of a gate without a cluster.

    Raises:
        ServeError: if a setting needs a cluster.
    """
    if settings.ledgers == "kubernetes":
        raise ServeError("ledgers can be kept in a cluster only where there is one: name it by --cluster")
    if settings.publish_nodes == "on":
        raise ServeError("amounts can be published only where there are nodes: name the cluster by --cluster")
    if settings.backstop == "on":
        raise ServeError("a backstop can be kept only where there is a cluster: name it by --cluster")
    if settings.publish_usage == "on":
        raise ServeError("usage can be published only where there is a cluster: name it by --cluster")
    if settings.notify_file:
        raise ServeError("messages can be sent only where there is a cluster: name it by --cluster")
    if settings.ask_url:
        raise ServeError("the address of asks can be published only where there is a cluster: name it by --cluster")
    if settings.audit_interval:
        raise ServeError("what is stored can be audited only where there is a cluster: name it by --cluster")
    gate = Gate(
        policies=policy_reloader.store.get_policies,
        view=ClusterView(
            namespaces=UnknownNamespaces(),
            evaluate_node_rules=SkippedNodeRules(telemetry.log),
        ),
        ledgers=MemoryLedgers(observer=cap_metrics.memory_observer),
        monotonic=time.monotonic,
        nonce=create_nonce_source(),
        unix_time=time.time,
        find_page=create_page_finder(settings.page_url),
        policy_reviews=policy_reloader.create_reviews(),
    )
    cap_metrics.register(gate.get_active_caps, is_standalone=True)
    return GateParts(gate.admit)


def _use_settings(settings: Settings, _: Telemetry) -> AbstractContextManager[ServerSetup]:
    return nullcontext(ServerSetup(settings))


def serve(
    settings: Settings, prepare: Callable[[Settings, Telemetry], AbstractContextManager[ServerSetup]] = _use_settings
) -> int:
    """Serve the gate until SIGTERM or SIGINT; return the exit code: 0, or 1 if requests were aborted.

    Call it in the main thread, where signals arrive. The context of `prepare` is entered before the server starts and
    left after it has stopped; it may change the settings.

    Raises:
        tallygate.errors.TallygateError: if the server cannot start; the text says why, and what would help.
    """
    with start_telemetry(settings.log_level) as telemetry, prepare(settings, telemetry) as setup:
        return _run(setup, telemetry)


def _run(setup: ServerSetup, telemetry: Telemetry) -> int:
    settings = setup.settings
    policy_reloader = PolicyReloader(settings.policies, telemetry)
    asked = AskedPolicies(policy_reloader.store.get_policies, time.monotonic)
    gate_parts = _create_gate_parts(settings, policy_reloader, asked, telemetry)
    registration = _create_registration(setup, gate_parts, policy_reloader, asked, telemetry, lambda: lifecycle)
    if registration is not None:
        gate_parts = replace(gate_parts, background=(*gate_parts.background, registration.worker))
    relay_controller = _create_relay_controller(setup, telemetry)
    if relay_controller is not None:
        gate_parts = replace(gate_parts, background=(*gate_parts.background, relay_controller.worker))
    ask_address = _create_ask_address(setup, gate_parts, telemetry)
    if ask_address is not None:
        gate_parts = replace(gate_parts, background=(*gate_parts.background, ask_address))
    if gate_parts.create_notifications is not None:
        notifications = gate_parts.create_notifications(lambda: lifecycle.list_statuses())  # noqa: PLW0108  made below
        gate_parts = replace(gate_parts, background=(*gate_parts.background, notifications))
    checks = [policy_reloader.check, *(part.check for part in gate_parts.background), *setup.checks]
    if relay_controller is not None:
        checks.append(relay_controller.check)
    lifecycle = Lifecycle(
        partial(create_app, gate_parts.admit),
        settings,
        telemetry,
        checks,
        at_sigterm=registration.withdraw if registration else lambda: None,
    )
    forward_library_logs(telemetry.log)
    policy_reloader.store.start()
    gc.collect()
    gc.freeze()  # all objects of the start stay: one collection of them delays every response by 15 ms
    try:
        with gate_parts.run_background():
            return lifecycle.run()
    finally:
        policy_reloader.store.stop()


def _create_registration(  # noqa: PLR0913, PLR0917  # parts of one gate
    setup: ServerSetup,
    gate_parts: GateParts,
    policy_reloader: PolicyReloader,
    asked: AskedPolicies,
    telemetry: Telemetry,
    get_lifecycle: Callable[[], Lifecycle],
) -> Registration | None:
    """Return the part that registers the gate, or None without access to an API server."""
    create_registration = setup.create_registration or gate_parts.create_registration
    chain, key = setup.settings.tls_cert, setup.settings.tls_key
    if create_registration is None or chain is None or key is None:
        asked.update(None)  # others register it, for everything
        return None
    parts = RegistrationParts(
        namespace=setup.settings.namespace,
        get_tokens=lambda: get_lifecycle().get_tokens(),
        find_trust_problem=lambda bundle, host: find_trust_problem(read_certificates(chain, key), bundle, host),
        is_leader=gate_parts.is_leader,
        list_statuses=lambda: get_lifecycle().list_statuses(),
        list_workload_kinds=lambda: (*KNOWN_KINDS, *policy_reloader.store.get_policies().workload_kinds),
        asked=asked,
        gives_devices=gate_parts.gives_devices,
        has_foreign_record=gate_parts.has_foreign_record,
    )
    AskedMetrics(telemetry.metrics.registry, asked.count_by_reach)
    return create_registration(parts, telemetry.log)


def _create_relay_controller(setup: ServerSetup, telemetry: Telemetry) -> RelayController | None:
    """Return the controller of the relay's certificates, or None without a relay."""
    chain, key, directory = setup.settings.tls_cert, setup.settings.tls_key, setup.settings.relay_dir
    if directory is None or chain is None or key is None:
        return None
    client_ca_file = setup.settings.client_ca_file

    def read_certificate() -> tuple[bytes, bytes]:
        certificates = read_certificates(chain, key)
        return certificates.chain, certificates.key

    if client_ca_file:
        read_authorities(client_ca_file)  # report an invalid file before the gate serves
    return RelayController(
        directory,
        read_certificate,
        setup.read_ca_bundle or partial(read_ca_bundle, chain),
        telemetry.log,
        read_client_ca=partial(read_authorities, client_ca_file) if client_ca_file else lambda: b"",
        client_names=setup.settings.client_names,
    )


def _create_ask_address(setup: ServerSetup, gate_parts: GateParts, telemetry: Telemetry) -> BackgroundPart | None:
    """Return the worker that publishes where asks are answered, or None without an address."""
    settings, chain = setup.settings, setup.settings.tls_cert
    if not settings.ask_url or chain is None:
        return None
    # They import a client, as `serve_with_cluster` does; see the docstring of its package.
    from tallygate.server.controllers.ask_address_controller import (  # noqa: PLC0415
        AskAddressController,
        parse_ask_host,
    )
    from tallygate.server.controllers.informers import load_client_config  # noqa: PLC0415
    from tallygate.state.kubernetes.ask_address_store import AskAddressStore  # noqa: PLC0415

    parse_ask_host(settings.ask_url)
    store = AskAddressStore(load_client_config(settings), settings.namespace)
    read_bundle = setup.read_ca_bundle or partial(read_ca_bundle, chain)
    return AskAddressController(store, settings.ask_url, read_bundle, gate_parts.is_leader, telemetry.log).worker


def _create_gate_parts(
    settings: Settings, policy_reloader: PolicyReloader, asked: AskedPolicies, telemetry: Telemetry
) -> GateParts:
    """Return the parts of the gate that the settings select, with or without a cluster."""
    cap_metrics = CapMetrics(telemetry.metrics.registry, telemetry.log)
    if settings.cluster == "none":
        return create_standalone_gate(settings, policy_reloader, telemetry, cap_metrics)
    from tallygate.server.serve_with_cluster import create_cluster_gate  # noqa: PLC0415  see the docstring of its package

    return create_cluster_gate(settings, policy_reloader, asked, telemetry, cap_metrics)
