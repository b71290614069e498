"""The command `tallygate serve-ask`: answers to those who ask, as a server. Its options are some of the server's."""

import os
from pathlib import Path
from typing import Any, Final

import click

from tallygate.cli.framework import Command
from tallygate.cli.serve.command import add_settings
from tallygate.server.asking.gate_inspection import Inspection, InspectionRequest
from tallygate.server.lifecycle import exit_process
from tallygate.server.serve_asks import serve_asks
from tallygate.server.settings.sources import load_settings
from tallygate.server.settings.table import OPTIONS

_NAMES: Final = frozenset(
    {
        *("policies", "listen", "monitor", "tls_cert", "tls_key", "tls_min_version"),
        *("cluster", "kubeconfig", "context"),
        *("connections", "connections_per_address", "threads", "drain_delay", "log_level"),
        *("page", "page_key_file", "feature_gates", "user_ca_file", "proxy_ca_file", "proxy_names"),
        *("proxy_user_header", "proxy_group_header", "proxy_group_lists", "proxy_extra_prefix"),
    }
)


@click.command(
    "serve-ask",
    cls=Command,
    examples=(
        ("tallygate serve-ask --cluster in-cluster --tls-cert tls.crt --tls-key tls.key", "in a pod of the cluster"),
        (
            'curl --cacert ca.crt -H "Authorization: Bearer $TOKEN" --data-binary @job.yaml https://ask:8443/v1/ask',
            "would this job be accepted, and run?",
        ),
    ),
)
@add_settings([option for option in OPTIONS if option.name in _NAMES])
def serve_ask(config: Path | None, **flags: Any) -> None:
    """Answer over TLS what would happen to objects, without storing them, until it is stopped (SIGTERM, or Ctrl-C).

    POST /v1/ask takes objects as YAML or JSON. From the live state of the cluster it answers as JSON with the findings
    of rules, caps and quotas, and with the nodes that would run the pods, for the objects in their order. Nothing is
    written. A user who may create an object may ask about it: the header Authorization has a bearer token of the
    cluster, for the audience tallygate or the API server itself. Names of pods and nodes are shown to users who may
    list them; other users get their numbers.

    With --page on it also serves pages for browsers, under /page/: the same answers, after a sign-in with such a token.

    It is a separate process, which the gate does not need. One ask may have 1 MiB, 1,000 objects and 10,000 pods. Of
    the settings of `tallygate serve` it has those that are listed here.

    Needed rights: create on tokenreviews and subjectaccessreviews; list and watch on namespaces, pods, nodes,
    resourcequotas, limitranges, priorityclasses, runtimeclasses, deviceclasses, resourceclaims, resourceclaimtemplates,
    resourceslices, devicetaintrules, and nodepools and nodeclaims of Karpenter. Without namespaces, pods and nodes
    there is no answer; without another kind, results that depend on it are unknown. The page about the gate shows the
    checks of `tallygate doctor` that this server has the rights for, and the rights that the other checks need.

    Exit codes: 0 stopped, 1 stopped with unfinished requests, 2 it could not start.
    """
    exit_process(serve_asks(load_settings(flags, os.environ, config), _inspect))


def _inspect(request: InspectionRequest) -> Inspection:
    from tallygate.cli.serve.gate_checks import inspect_gate  # noqa: PLC0415  # only its page needs what it imports

    return inspect_gate(request)
