"""ResourceClaimTemplates as the API server sends them, and stores of them."""

import json
from typing import Any

from tallygate.kube.resource_codec import Replaced
from tallygate.state.informers.namespaced_stores import ClaimTemplateStore


def template(name: str, *requests: dict[str, Any], revision: int = 3, namespace: str = "team-a") -> dict[str, Any]:
    """Return a template of claims with these requests, and with labels of the template and of its claims."""
    meta = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}", "resourceVersion": str(revision)}
    spec = {"metadata": {"labels": {"tier": "batch"}}, "spec": {"devices": {"requests": list(requests)}}}
    return {"metadata": meta | {"labels": {"of": "template"}}, "spec": spec}


def create_store(*items: dict[str, Any], revision: int = 7) -> ClaimTemplateStore:
    """Return a store after its first list."""
    store = ClaimTemplateStore()
    put_templates(store, *items, revision=revision)
    return store


def put_templates(store: ClaimTemplateStore, *items: dict[str, Any], revision: int = 7) -> None:
    """Deliver a complete list."""
    body = json.dumps({"metadata": {"resourceVersion": str(revision)}, "items": items}).encode()
    store.apply(Replaced(store.codec.decode_page(body).items, revision))
