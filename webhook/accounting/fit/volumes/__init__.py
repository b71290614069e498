"""Where the volumes of a pod let it run: VolumeRestrictions, NodeVolumeLimits, VolumeBinding and VolumeZone.

The rule of this room: one module follows one plugin of Kubernetes 1.36, or a step of one. Refusals are of the whole
pod and in the scheduler's words; filters ask all nodes at once. Where the cluster's storage is not known, nothing that
depends on it is said (`unknown` in `claims`).
"""
