"""Nodes with the field managers of their amounts, as server-side apply records them.

Source: ManagedFieldsEntry in apimachinery pkg/apis/meta/v1/types.go; `fieldsV1` writes a key K of a map as `f:K`.
"""

import msgspec

from tallygate.objects.core import NodeStatus, ResourceList
from tallygate.objects.meta import StringMap

_FieldSet = dict[str, msgspec.Raw]


class OwnedStatusFields(msgspec.Struct, frozen=True):
    """The keys of both resource lists of a node's status that one manager owns."""

    capacity: _FieldSet | None = msgspec.field(name="f:capacity", default=None)
    allocatable: _FieldSet | None = msgspec.field(name="f:allocatable", default=None)


class OwnedFields(msgspec.Struct, frozen=True):
    """The fields that one manager owns."""

    status: OwnedStatusFields | None = msgspec.field(name="f:status", default=None)


class ManagedFieldsEntry(msgspec.Struct, rename="camel", frozen=True):
    """One entry of `metadata.managedFields`. `operation` is Apply or Update."""

    manager: str = ""
    operation: str = ""
    fields_v1: OwnedFields | None = msgspec.field(name="fieldsV1", default=None)

    def owns(self, name: str, *, allocatable: bool) -> bool:
        """Return whether the manager owns a resource of capacity, or of allocatable."""
        status = self.fields_v1 and self.fields_v1.status
        if not status:
            return False
        return f"f:{name}" in ((status.allocatable if allocatable else status.capacity) or ())


class OwnedNodeMeta(msgspec.Struct, rename="camel", frozen=True):
    """`metadata` of a node, with the managers of its fields."""

    name: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: StringMap | None = None
    annotations: StringMap | None = None
    managed_fields: list[ManagedFieldsEntry] | None = None


class OwnedNodeSpec(msgspec.Struct, frozen=True):
    """`spec` of a node: its ranges of addresses for pods."""

    pod_cidrs: list[str] | None = msgspec.field(name="podCIDRs", default=None)


class OwnedNode(msgspec.Struct, frozen=True):
    """A node with the managers of its amounts."""

    metadata: OwnedNodeMeta
    spec: OwnedNodeSpec = OwnedNodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def capacity(self) -> ResourceList:
        return self.status.capacity or {}

    @property
    def allocatable(self) -> ResourceList:
        """The allocatable amounts; those of the capacity if the node has none at all (SetDefaults_NodeStatus)."""
        return self.capacity if self.status.allocatable is None else self.status.allocatable

    def list_managers(self, name: str, *, allocatable: bool = False) -> frozenset[str]:
        """Return the managers that own a resource of capacity, or of allocatable."""
        entries = self.metadata.managed_fields or ()
        return frozenset(entry.manager for entry in entries if entry.owns(name, allocatable=allocatable))

    def list_applied(self, manager: str, *, allocatable: bool = False) -> ResourceList:
        """Return the amounts of capacity, or of allocatable, that a manager has applied."""
        entries = [
            field
            for field in self.metadata.managed_fields or ()
            if (field.manager, field.operation) == (manager, "Apply")
        ]
        amounts = self.allocatable if allocatable else self.capacity
        return {
            name: amount
            for name, amount in amounts.items()
            if any(entry.owns(name, allocatable=allocatable) for entry in entries)
        }
