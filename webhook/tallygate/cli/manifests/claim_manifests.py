"""The device classes and the templates of claims for devices among manifests."""

from collections.abc import Iterable, Iterator
from contextlib import suppress

import msgspec

from tallygate.admission.kinds import BUILT_IN_TARGETS
from tallygate.cli.manifests.manifest_objects import Manifest
from tallygate.cli.manifests.typed_objects import is_read, parse_object
from tallygate.documents.syntax_tree import DocumentError, Limits
from tallygate.documents.to_json import to_json
from tallygate.objects.devices import (
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)
from tallygate.objects.meta import ObjectMeta


class ClaimTemplates:
    """Templates of claims by namespace and name; a later one replaces an earlier one."""

    def __init__(self, templates: Iterable[ResourceClaimTemplate]) -> None:
        specs = {_get_key(template.metadata): template.spec or ResourceClaimTemplateSpec() for template in templates}
        self._claims = {key: ResourceClaim(spec.metadata, spec.spec) for key, spec in specs.items()}

    def find_claim(self, namespace: str, name: str) -> ResourceClaim | None:
        """Return a claim as a template makes it; None if the template is missing."""
        return self._claims.get((namespace, name))


def index_classes(classes: Iterable[DeviceClass]) -> dict[str, str]:
    """Return the extended resource of each class, empty if it has none; a later class replaces an earlier one."""
    return {
        device_class.metadata.name: (device_class.spec.extended_resource_name if device_class.spec else None) or ""
        for device_class in classes
        if device_class.metadata is not None and device_class.metadata.name
    }


def collect_classes(manifests: Iterable[Manifest], limits: Limits) -> Iterator[DeviceClass]:
    """Yield the classes of devices among the manifests, without those that an API server could not decode."""
    for manifest in manifests:
        if (manifest.group, manifest.kind) == ("resource.k8s.io", "DeviceClass"):
            with suppress(DocumentError, msgspec.ValidationError):
                yield _CLASS_DECODER.decode(to_json(manifest.node, limits.expanded))


def collect_templates(manifests: Iterable[Manifest], namespace: str, limits: Limits) -> Iterator[ResourceClaimTemplate]:
    """Yield the templates of claims among the manifests, with their namespaces, without those that are not read.

    `namespace` is the one of a template that names none.
    """
    for manifest in manifests:
        if manifest.kind == "ResourceClaimTemplate" and is_read(manifest, BUILT_IN_TARGETS):
            with suppress(DocumentError):
                typed = parse_object(manifest, namespace, limits, BUILT_IN_TARGETS)
                if typed is not None and isinstance(typed.content, ResourceClaimTemplate):
                    metadata = ObjectMeta(name=typed.subject.name, namespace=typed.subject.namespace)
                    yield ResourceClaimTemplate(metadata, typed.content.spec)


_CLASS_DECODER = msgspec.json.Decoder(DeviceClass)


def _get_key(metadata: ObjectMeta | None) -> tuple[str, str]:
    metadata = metadata or ObjectMeta()
    return metadata.namespace or "", metadata.name or ""
