"""Claims, volumes and their provisioners, with the fields that decide where a pod can run."""

import msgspec

from tallygate.objects.core import ResourceList
from tallygate.objects.meta import LabelSelector, NodeSelector, ObjectMeta
from tallygate.objects.scheduling import Presence


class ClaimOwner(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of `metadata.ownerReferences`, with the owner's uid."""

    uid: str = ""
    controller: bool | None = None


class ClaimMeta(ObjectMeta, rename="camel", frozen=True, omit_defaults=True):
    """`metadata` of an object that another object may own."""

    owner_references: list[ClaimOwner] | None = None  # type: ignore[assignment]  # read-only, and read for another purpose


class VolumeClaimResources(msgspec.Struct, frozen=True, omit_defaults=True):
    """`resources` of a claim."""

    requests: ResourceList | None = None


class VolumeClaimSpec(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`spec` of a PersistentVolumeClaim."""

    access_modes: list[str] | None = None
    selector: LabelSelector | None = None
    resources: VolumeClaimResources | None = None
    volume_name: str | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class VolumePhase(msgspec.Struct, frozen=True, omit_defaults=True):
    """`status` of a claim or a volume."""

    phase: str | None = None


class PersistentVolumeClaim(msgspec.Struct, frozen=True, omit_defaults=True):
    """A PersistentVolumeClaim."""

    metadata: ClaimMeta | None = None
    spec: VolumeClaimSpec | None = None
    status: VolumePhase | None = None


class VolumeClaimRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """`claimRef` of a volume: its claim."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class CsiSource(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`csi` of a volume."""

    driver: str = ""
    volume_handle: str = ""


class VolumeNodeAffinity(msgspec.Struct, frozen=True, omit_defaults=True):
    """`nodeAffinity` of a volume."""

    required: NodeSelector | None = None


class VolumeSpec(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`spec` of a PersistentVolume."""

    capacity: ResourceList | None = None
    access_modes: list[str] | None = None
    claim_ref: VolumeClaimRef | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiSource | None = None
    gce_persistent_disk: Presence | None = None
    aws_elastic_block_store: Presence | None = None
    azure_disk: Presence | None = None
    cinder: Presence | None = None
    portworx_volume: Presence | None = None


class PersistentVolume(msgspec.Struct, frozen=True, omit_defaults=True):
    """A PersistentVolume."""

    metadata: ObjectMeta | None = None
    spec: VolumeSpec | None = None
    status: VolumePhase | None = None


class TopologySelectorRequirement(msgspec.Struct, frozen=True, omit_defaults=True):
    """One expression of `allowedTopologies`: a label and the values that it may have."""

    key: str = ""
    values: list[str] | None = None


class TopologySelectorTerm(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """One of the terms of `allowedTopologies`; any of them may match."""

    match_label_expressions: list[TopologySelectorRequirement] | None = None


class StorageClass(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A StorageClass."""

    metadata: ObjectMeta | None = None
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologySelectorTerm] | None = None


class AttachLimit(msgspec.Struct, frozen=True, omit_defaults=True):
    """`allocatable` of a driver on a node."""

    count: int | None = None


class CsiNodeDriver(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of `spec.drivers` of a CSINode."""

    name: str = ""
    allocatable: AttachLimit | None = None


class CsiNodeSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """`spec` of a CSINode."""

    drivers: list[CsiNodeDriver] | None = None


class CsiNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """A CSINode: the drivers of a node, and the number of volumes that each attaches there."""

    metadata: ObjectMeta | None = None
    spec: CsiNodeSpec | None = None


class CsiDriverSpec(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`spec` of a CSIDriver."""

    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CsiDriver(msgspec.Struct, frozen=True, omit_defaults=True):
    """A CSIDriver."""

    metadata: ObjectMeta | None = None
    spec: CsiDriverSpec | None = None


class CsiStorageCapacity(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A CSIStorageCapacity: the free capacity of a class in one part of the cluster.

    Absent quantities are empty here.
    """

    metadata: ObjectMeta | None = None
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: msgspec.Raw = msgspec.Raw()
    maximum_volume_size: msgspec.Raw = msgspec.Raw()


class VolumeAttachmentSource(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`source` of an attachment."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`spec` of a VolumeAttachment."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource | None = None


class VolumeAttachment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A VolumeAttachment: a volume that is attached, or will be attached, to a node."""

    metadata: ObjectMeta | None = None
    spec: VolumeAttachmentSpec | None = None
