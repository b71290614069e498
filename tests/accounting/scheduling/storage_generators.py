"""Random claims, volumes, classes and CSI objects, and pods that mount them, as stored JSON objects."""

from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]

NODES = ("n0", "n1", "n2")
CLAIMS = ("a", "b", "c")
_VOLUMES = ("v0", "v1", "v2", "v3")
_CLASSES = ("", "late", "late", "late", "zoned", "none", "none", "measured", "now", "missing")
_ZONE = "topology.kubernetes.io/zone"
_OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
_REGION = "topology.kubernetes.io/region"
_WAIT_FOR_CONSUMER = "WaitForFirstConsumer"
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_sizes = st.sampled_from(["1Gi", "1024Mi", "2Gi", "5Gi"])
_modes = st.sampled_from(
    [["ReadWriteOnce"], ["ReadWriteOnce"], ["ReadWriteOncePod"], ["ReadWriteOnce", "ReadOnlyMany"]]
)


@st.composite
def nodes(draw: st.DrawFn) -> list[Json]:
    """Draw up to three nodes, in zones or not."""
    found = []
    for name in draw(st.lists(st.sampled_from(NODES), min_size=1, unique=True)):
        zone = draw(st.dictionaries(st.sampled_from([_ZONE, _OLD_ZONE, _REGION]), st.sampled_from(["a", "b"])))
        labels = {"host": name} | zone
        found.append({"metadata": {"name": name, "labels": labels}, "status": {"allocatable": {"pods": "3"}}})
    return found


@st.composite
def storage_objects(draw: st.DrawFn) -> list[Json]:
    """Draw all storage objects of a cluster."""
    found = [*_classes(), *draw(st.lists(_csi_nodes(), max_size=2, unique_by=_name))]
    found += [draw(_claims(name)) for name in draw(st.lists(st.sampled_from(CLAIMS), unique=True, min_size=1))]
    found += [draw(_volumes(name)) for name in draw(st.lists(st.sampled_from(_VOLUMES), unique=True))]
    found += draw(st.lists(_capacities(), max_size=2, unique_by=_name))
    found += draw(st.lists(_attachments(), max_size=2, unique_by=_name))
    measured = {"storageCapacity": True, "preventPodSchedulingIfMissing": draw(st.booleans())}
    found += [{"kind": "CSIDriver", "metadata": {"name": "measured.io"}, "spec": measured}]
    return found


@st.composite
def existing_pods(draw: st.DrawFn) -> list[Json]:
    """Draw pods that are bound to a node or have a nominated node, and mount claims and disks."""
    return [draw(_pods(f"p{number}")) for number in range(draw(st.integers(0, 5)))]


@st.composite
def incoming_pods(draw: st.DrawFn) -> Json:
    """Draw a pod that mounts claims and disks, and may preempt others."""
    return {
        "metadata": {"name": "new", "namespace": "default", "uid": "new"},
        "spec": {"volumes": draw(_mounts(1)), "priority": draw(st.sampled_from([0, 100])), "containers": []},
    }


@st.composite
def _pods(draw: st.DrawFn, name: str) -> Json:
    namespace = draw(st.sampled_from(["default", "default", "other"]))
    on = draw(st.sampled_from(NODES))
    is_nominated = draw(st.integers(0, 4)) == 0
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": name},
        "spec": {
            "volumes": draw(_mounts(0)),
            "priority": draw(st.sampled_from([0, 0, 100])),
            "containers": [],
            **({} if is_nominated else {"nodeName": on}),
        },
        "status": {"phase": "Running", **({"nominatedNodeName": on} if is_nominated else {})},
    }


@st.composite
def _mounts(draw: st.DrawFn, min_size: int) -> list[Json]:
    sources = draw(st.lists(_sources, min_size=min_size, max_size=2))
    return [{"name": f"m{number}", **source} for number, source in enumerate(sources)]


_sources = st.one_of(
    st.builds(lambda name: {"persistentVolumeClaim": {"claimName": name}}, st.sampled_from(CLAIMS)),
    st.builds(lambda name: {"persistentVolumeClaim": {"claimName": name}}, st.sampled_from(CLAIMS)),
    st.sampled_from(
        [
            {"iscsi": {"iqn": "iqn.2001", "lun": 0}},
            {"iscsi": {"iqn": "iqn.2001", "lun": 0, "readOnly": True}},
            {"rbd": {"monitors": ["m1", "m2"], "image": "i", "pool": "p"}},
            {"rbd": {"monitors": ["m2"], "image": "i", "pool": "p", "readOnly": True}},
            {"rbd": {"monitors": ["m3"], "image": "i", "pool": "p"}},
            {"ephemeral": {"volumeClaimTemplate": {}}},
        ]
    ),
)


def _classes() -> list[Json]:
    def create(name: str, provisioner: str, mode: str, **more: Any) -> Json:
        storage_class = {"kind": "StorageClass", "metadata": {"name": name}, "provisioner": provisioner}
        return storage_class | {"volumeBindingMode": mode, **more}

    zone = [{"matchLabelExpressions": [{"key": _ZONE, "values": ["a"]}]}, {"matchLabelExpressions": []}]
    return [
        create("late", "csi.io", _WAIT_FOR_CONSUMER),
        create("zoned", "csi.io", _WAIT_FOR_CONSUMER, allowedTopologies=zone),
        create("none", "kubernetes.io/no-provisioner", _WAIT_FOR_CONSUMER),
        create("measured", "measured.io", _WAIT_FOR_CONSUMER),
        create("now", "csi.io", "Immediate"),
    ]


@st.composite
def _claims(draw: st.DrawFn, name: str) -> Json:
    annotations, spec = {}, {"accessModes": draw(_modes), "resources": {"requests": {"storage": draw(_sizes)}}}
    spec["storageClassName"] = draw(st.sampled_from(_CLASSES))
    if draw(st.integers(0, 9)) == 0:
        annotations[_BETA_CLASS] = draw(st.sampled_from(_CLASSES))
    if draw(st.integers(0, 9)) == 0:
        annotations["volume.kubernetes.io/selected-node"] = draw(st.sampled_from([*NODES, "missing"]))
    if draw(st.booleans()):
        spec["volumeName"] = draw(st.sampled_from(_VOLUMES))
        annotations["pv.kubernetes.io/bind-completed"] = "yes"
    if draw(st.integers(0, 9)) == 0:
        spec["volumeMode"] = "Block"
    if draw(st.integers(0, 5)) == 0:
        spec["selector"] = {"matchLabels": {"tier": "fast"}}
    phase = draw(st.sampled_from(["Pending"] * 19 + ["Lost"]))
    owner = draw(st.sampled_from([{}, {}, {"ownerReferences": [{"uid": "new", "controller": True}]}]))
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"c-{name}", "annotations": annotations, **owner},
        "spec": spec,
        "status": {"phase": phase},
    }


@st.composite
def _volumes(draw: st.DrawFn, name: str) -> Json:
    spec: Json = {"capacity": {"storage": draw(_sizes)}, "accessModes": draw(_modes)}
    spec["storageClassName"] = draw(st.sampled_from(_CLASSES))
    if draw(st.integers(0, 9)) == 0:
        spec["volumeMode"] = "Block"
    if draw(st.integers(0, 3)) == 0:
        reference = {"name": draw(st.sampled_from(CLAIMS)), "namespace": draw(st.sampled_from(["default", "other"]))}
        spec["claimRef"] = reference | draw(
            st.sampled_from([{}, {"uid": f"c-{reference['name']}"}, {"uid": "another"}])
        )
    if draw(st.booleans()):
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": draw(st.lists(_terms, min_size=1, max_size=2))}}
    if draw(st.booleans()):
        spec["csi"] = {"driver": "csi.io", "volumeHandle": draw(st.sampled_from(["h0", "h1", name]))}
    labels = draw(
        st.dictionaries(st.sampled_from([_ZONE, _OLD_ZONE, _REGION]), st.sampled_from(["a", "b", "a__b", "a__"]))
    )
    return {
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels | draw(st.sampled_from([{}, {"tier": "fast"}]))},
        "spec": spec,
        "status": {"phase": draw(st.sampled_from(["Available"] * 4 + ["Bound"]))},
    }


_terms = st.one_of(
    st.builds(
        lambda key, operator, value: {"matchExpressions": [{"key": key, "operator": operator, "values": [value]}]},
        st.sampled_from(["host", _ZONE]),
        st.sampled_from(["In", "In", "NotIn"]),
        st.sampled_from([*NODES, "a", "b"]),
    ),
    st.sampled_from(
        [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]},
            {"matchFields": [{"key": "metadata.name", "operator": "Exists"}]},
            {},
        ]
    ),
)


def _csi_nodes() -> st.SearchStrategy[Json]:
    def create(name: str, count: int | None) -> Json:
        driver: Json = {"name": "csi.io", "nodeID": name} | ({} if count is None else {"allocatable": {"count": count}})
        return {"kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": [driver]}}

    return st.builds(create, st.sampled_from(NODES), st.sampled_from([None, 0, 1, 2, 3]))


def _capacities() -> st.SearchStrategy[Json]:
    def create(name: str, topology: Json | None, size: str, largest: str | None) -> Json:
        kind = {"kind": "CSIStorageCapacity", "metadata": {"name": name, "namespace": "default"}}
        limits = {"capacity": size} | ({} if largest is None else {"maximumVolumeSize": largest})
        return kind | {"storageClassName": "measured", "nodeTopology": topology, **limits}

    topologies = st.sampled_from([None, {}, {"matchLabels": {"host": "n0"}}, {"matchLabels": {_ZONE: "a"}}])
    return st.builds(create, st.sampled_from(["c0", "c1"]), topologies, _sizes, st.one_of(st.none(), _sizes))


def _attachments() -> st.SearchStrategy[Json]:
    def create(name: str, node: str, volume: str) -> Json:
        spec = {"attacher": "csi.io", "nodeName": node, "source": {"persistentVolumeName": volume}}
        return {"kind": "VolumeAttachment", "metadata": {"name": name}, "spec": spec}

    return st.builds(create, st.sampled_from(["at0", "at1"]), st.sampled_from(NODES), st.sampled_from(_VOLUMES))


def _name(thing: Json) -> str:
    return str(thing["metadata"]["name"])
