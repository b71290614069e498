"""The official client, for what cases need around what they are about: kubectl takes a process for each call."""

from functools import cache
from pathlib import Path
from typing import Any

from kubernetes.client import CoreV1Api

from certs.cluster import Source, connect

RAW: Any = {"_preload_content": False, "_request_timeout": (10.0, 120.0)}
"""How calls are made: nobody reads the answer, and an API server has so many seconds to be reached and to answer."""


@cache
def core(kubeconfig: Path) -> CoreV1Api:
    """The core API as this kubeconfig's user; its connections are kept for as long as this process runs.

    Raises:
        CertsError: the kubeconfig leads to no cluster.
    """
    return CoreV1Api(connect(Source(kubeconfig)))
