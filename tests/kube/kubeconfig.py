"""Kubeconfigs for servers of tests."""

import json
from pathlib import Path

from tests.kube.raw_server import RawServer
from webhook.kube.client import ClientConfig
from webhook.kube.config import load_kubeconfig


def kubeconfig(folder: Path, server: str, **user: str) -> Path:
    """A kubeconfig for a server."""
    content = {
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(content))
    return path


def connected(server: RawServer, folder: Path) -> ClientConfig:
    """A connection to it."""
    return load_kubeconfig(kubeconfig(folder, f"http://127.0.0.1:{server.port}", token="t0ken"))  # noqa: S106  # nobody's
