"""The assembly of a server of asks: a process of its own, with rights to read, and none to write.

It is not the gate's process: its threads would delay reviews, and strangers send what they like to it.
"""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import Final, NamedTuple

from flask import Flask

from tallygate.admission.kinds import list_review_targets
from tallygate.kube.client import ClientConfig
from tallygate.policy.model import PolicySet
from tallygate.server.asking.access import AccessReviewer
from tallygate.server.asking.answerer import Answerer
from tallygate.server.asking.front_proxy import FrontProxies, StatedHeaders
from tallygate.server.asking.gate_inspection import GateInspector, Inspect, InspectionRequest
from tallygate.server.asking.gate_replicas import ReplicaReader
from tallygate.server.asking.identity import TokenAuthenticator
from tallygate.server.asking.pod_charger import PodCharger
from tallygate.server.asking.rate import create_user_limit
from tallygate.server.asking.reported_refusals import RefusalReader
from tallygate.server.controllers.asked_cluster import AskedCluster
from tallygate.server.controllers.informers import load_client_config
from tallygate.server.controllers.user_authorities import UserAuthorities
from tallygate.server.https.certified_server import CertifiedServer, CrowdLimit
from tallygate.server.https.tls_files import ClientBundles, read_authorities
from tallygate.server.interfaces import ReadinessCheck
from tallygate.server.lifecycle import Lifecycle, ServeError
from tallygate.server.policy_reloader import PolicyReloader
from tallygate.server.settings.table import Settings
from tallygate.server.telemetry.json_log import forward_library_logs
from tallygate.server.telemetry.metrics import Telemetry, start_telemetry
from tallygate.server.web.admission_middleware import RequestLimits
from tallygate.server.web.ask_app import AskParts, create_ask_app
from tallygate.server.web.http_errors import status_body
from tallygate.server.web.pages.gate_facts import GateSources
from tallygate.server.web.pages.page_views import PageParts, add_pages
from tallygate.server.web.pages.sessions import Sessions, read_keys
from tallygate.server.web.request_log import RequestLog
from tallygate.server.worker import Worker


def serve_asks(settings: Settings, inspect: Inspect) -> int:
    """Answer asks until SIGTERM or SIGINT; return the exit code: 0, or 1 if requests were aborted.

    Call it in the main thread, where signals arrive. `inspect` inspects the gate, for its page alone.

    Raises:
        tallygate.errors.TallygateError: if the server cannot start; the text says why, and what would help.
    """
    if settings.cluster == "none":
        raise ServeError("asks are answered from a cluster: name it by --cluster")
    if settings.proxy_names and settings.proxy_ca_file is None:
        raise ServeError("proxy_names needs proxy_ca_file: the CAs that sign for front proxies")
    with start_telemetry(settings.log_level) as telemetry:
        return _run(settings, telemetry, inspect)


def _run(settings: Settings, telemetry: Telemetry, inspect: Inspect) -> int:
    client_config = load_client_config(settings)
    policy_reloader = PolicyReloader(settings.policies, telemetry)
    asked_cluster = AskedCluster(client_config, feature_gates=settings.feature_gates)
    get_policies = policy_reloader.store.get_policies
    parts = _create_parts(settings, client_config, asked_cluster, get_policies)
    sessions = _create_sessions(settings)
    authorities = _read_user_authorities(settings, client_config, telemetry)
    place = client_config, settings.namespace, settings.tls_cert
    inspector = GateInspector(
        lambda: inspect(InspectionRequest(*place, get_policies(), asked_cluster.open_state)), telemetry.log, _now
    )
    charger = PodCharger(asked_cluster.open_state, get_policies, telemetry.log)
    others = (*authorities.workers, inspector.worker) if sessions is not None else authorities.workers

    def create_app(
        request_log: RequestLog, checks: Sequence[ReadinessCheck], limits: RequestLimits, _: object
    ) -> Flask:
        app = create_ask_app(parts, request_log, checks, limits)
        if sessions is None:
            return app
        sources = GateSources(
            get_policies=get_policies,
            get_status=policy_reloader.store.get_status,
            read_replicas=ReplicaReader(client_config, settings.namespace, time.monotonic).read,
            list_watches=asked_cluster.list_watches,
            checks=checks,
            get_inspection=inspector.get,
            now=_now,
        )
        return add_pages(app, parts, PageParts(sessions=sessions, gate_sources=sources, request_log=request_log))

    lifecycle = Lifecycle(
        create_app,
        replace(settings, connections_per_address=_CLOSED_SHARE * settings.connections_per_address),
        telemetry,
        [policy_reloader.check, asked_cluster.check, charger.check, *(worker.check for worker in others)],
        create_server=partial(CertifiedServer, crowd=_create_crowd_limit(settings.connections_per_address)),
        read_client_bundles=lambda: ClientBundles(authorities.read_bundle(), _read_proxy_authorities(settings)),
    )
    forward_library_logs(telemetry.log)
    policy_reloader.store.start()
    asked_cluster.start()
    try:
        with _run_workers((charger.worker, *others)):
            gc.collect()
            gc.freeze()  # as the gate does: all objects of the start stay
            return lifecycle.run()
    finally:
        asked_cluster.stop()
        policy_reloader.store.stop()


def _create_crowd_limit(connections: int) -> CrowdLimit:
    """Return the limit of connections of one address: a client with more gets this answer, and has to ask again."""
    message = f"too many connections of this address: at most {connections} at a time. Ask again in 1 s"
    return CrowdLimit(connections, status_body(HTTPStatus.TOO_MANY_REQUESTS, message))


@contextmanager
def _run_workers(workers: Sequence[Worker]) -> Iterator[None]:
    """Run the workers during the block."""
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        for worker in workers:
            worker.stop()


def _now() -> datetime:
    return datetime.now(UTC)


def _create_parts(
    settings: Settings, client_config: ClientConfig, asked_cluster: AskedCluster, get_policies: Callable[[], PolicySet]
) -> AskParts:
    headers = StatedHeaders(
        user=settings.proxy_user_header,
        group=settings.proxy_group_header,
        extra_prefix=settings.proxy_extra_prefix,
        has_group_lists=settings.proxy_group_lists == "on",
    )
    return AskParts(
        authenticator=TokenAuthenticator(client_config, time.monotonic),
        reviewer=AccessReviewer(client_config, time.monotonic),
        user_limit=create_user_limit(time.monotonic),
        answerer=Answerer(
            asked_cluster.open_state, get_policies, time.monotonic, RefusalReader(client_config, time.monotonic).read
        ),
        get_targets=lambda: list_review_targets(get_policies()),
        front_proxies=FrontProxies(settings.proxy_names, headers),
    )


_CLOSED_SHARE: Final = 2
"""The guard closes connections beyond this many times the limit of an address: those beyond the limit get an answer."""


class _AuthoritySource(NamedTuple):
    """The CAs of users: `read_bundle` returns their PEM, and `workers` keep it up to date."""

    read_bundle: Callable[[], bytes]
    workers: tuple[Worker, ...] = ()


def _read_user_authorities(settings: Settings, client_config: ClientConfig, telemetry: Telemetry) -> _AuthoritySource:
    """Return the CAs of the settings' file, or else those of the API server, read before the first handshake."""
    if settings.user_ca_file is not None:
        return _AuthoritySource(partial(read_authorities, settings.user_ca_file))
    authorities = UserAuthorities(client_config, telemetry.log)
    authorities.worker.run_once()
    return _AuthoritySource(authorities.get_bundle, (authorities.worker,))


def _read_proxy_authorities(settings: Settings) -> bytes:
    """Return the CAs of front proxies in PEM, b"" for none.

    Raises:
        CertificateError: if their file cannot be used.
    """
    return b"" if settings.proxy_ca_file is None else read_authorities(settings.proxy_ca_file)


def _create_sessions(settings: Settings) -> Sessions | None:
    """Return the cookies of the pages; None without pages.

    Raises:
        PageKeyError: if the file of keys cannot be used.
    """
    if settings.page != "on":
        return None
    return Sessions(read_keys(settings.page_key_file) if settings.page_key_file else (), time.time)
