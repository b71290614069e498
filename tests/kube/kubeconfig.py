"""Kubeconfigs for servers of tests."""

import json
from pathlib import Path

from tallygate.kube.client import ClientConfig
from tallygate.kube.config import load_kubeconfig
from tests.kube.raw_server import RawServer


def write_kubeconfig(folder: Path, server: str, **user: str) -> Path:
    """Write a kubeconfig for a server and return its path."""
    content = {
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(content))
    return path


def load_config(server: RawServer, folder: Path) -> ClientConfig:
    """Return the client configuration of a server."""
    return load_kubeconfig(write_kubeconfig(folder, f"http://127.0.0.1:{server.port}", token="t0ken"))  # noqa: S106  # a made-up token
