"""The devices of slices: those of the newest generation, and those that no slice publishes any more."""

from tallygate.accounting.devices.device_meter import DeviceId, KnownDevice
from tallygate.state.informers import device_store
from tallygate.state.informers.device_store import DeviceStore
from tests.state.informers.slices import DRIVER, POOL, create_device, create_slice, slice_line, slice_page


def find(store: DeviceStore, name: str, pool: str = POOL) -> KnownDevice | None:
    """Return what a store knows of a device."""
    return store.find_device(DeviceId(DRIVER, pool, name))


def is_published(store: DeviceStore, name: str) -> bool:
    """Return whether a device is known and published."""
    found = find(store, name)
    assert found is not None
    return found.is_published


def test_a_device_is_known_by_driver_pool_and_name() -> None:
    store = DeviceStore()
    store.apply(slice_page(5, create_slice(5, create_device("gpu-0"))))
    assert is_published(store, "gpu-0")
    assert find(store, "gpu-1") is None
    assert find(store, "gpu-0", "node-2") is None
    assert store.find_device(DeviceId("other", POOL, "gpu-0")) is None


def test_the_slices_of_a_pool_publish_their_devices_together() -> None:
    store = DeviceStore()
    first, second = (create_slice(5, create_device(f"gpu-{index}"), name=f"slice-{index}") for index in range(2))
    store.apply(slice_page(5, first, second))
    assert is_published(store, "gpu-0")
    assert is_published(store, "gpu-1")


def test_only_the_newest_generation_counts() -> None:
    store = DeviceStore()
    old = create_slice(5, create_device("gpu-0", "a100"), create_device("gpu-1"), name="old")
    store.apply(slice_page(5, old))
    new = create_slice(6, create_device("gpu-0", "h100"), name="new", generation=2)
    store.apply(slice_line("ADDED", new))
    found = find(store, "gpu-0")
    assert found is not None
    assert b"h100" in found.content
    assert not is_published(store, "gpu-1")
    new["metadata"]["resourceVersion"] = "7"
    store.apply(slice_line("DELETED", new))
    assert is_published(store, "gpu-1")


def test_a_device_that_is_no_longer_published_stays_as_it_was() -> None:
    store = DeviceStore()
    published = create_slice(5, create_device("gpu-0"))
    store.apply(slice_page(5, published))
    published["metadata"]["resourceVersion"] = "6"
    store.apply(slice_line("DELETED", published))
    assert not is_published(store, "gpu-0")
    store.apply(slice_page(7))
    assert not is_published(store, "gpu-0")
    store.apply(slice_line("ADDED", create_slice(8, create_device("gpu-0", "a100"))))
    assert is_published(store, "gpu-0")


def test_a_slice_that_moves_to_another_pool_leaves_its_former_one() -> None:
    store = DeviceStore()
    store.apply(slice_page(5, create_slice(5, create_device("gpu-0"))))
    store.apply(slice_line("MODIFIED", create_slice(6, create_device("gpu-0"), pool="node-2")))
    assert not is_published(store, "gpu-0")
    found = find(store, "gpu-0", "node-2")
    assert found is not None
    assert found.is_published


def test_unpublished_devices_are_dropped_unless_a_claim_has_them_or_they_are_recent() -> None:
    used = DeviceId(DRIVER, POOL, "gpu-0")
    store = DeviceStore(lambda: [used])
    limit = device_store._MAX_UNPUBLISHED  # noqa: SLF001  # the bound of the store
    devices = [create_device(f"gpu-{index}") for index in range(2 * limit + 1)]
    store.apply(slice_page(5, create_slice(5, *devices)))
    store.apply(slice_page(6))
    assert find(store, "gpu-0") is not None
    assert find(store, "gpu-1") is None
    assert find(store, f"gpu-{2 * limit}") is not None


def test_a_change_of_other_fields_notifies_no_listener() -> None:
    store = DeviceStore()
    changes: list[frozenset[str]] = []
    store.apply(slice_page(5, create_slice(5, create_device("gpu-0"))))
    store.add_listener(changes.append)
    store.apply(slice_line("MODIFIED", create_slice(6, create_device("gpu-0"))))
    assert not changes
    store.apply(slice_line("MODIFIED", create_slice(7, create_device("gpu-0", "a100"))))
    assert changes == [frozenset({"slice-1"})]


def test_the_listed_slices_are_the_same_object_until_one_changes() -> None:
    store = DeviceStore()
    assert store.list_slices() is None
    store.apply(slice_page(5, create_slice(5, create_device("gpu-0"))))
    listed = store.list_slices()
    assert listed is not None
    assert [each.name for each in listed] == ["slice-1"]
    store.apply(slice_line("BOOKMARK", {"kind": "ResourceSlice", "metadata": {"resourceVersion": "7"}}))
    store.apply(slice_line("MODIFIED", create_slice(8, create_device("gpu-0"))))  # with the same devices
    assert store.list_slices() is listed
    store.apply(slice_line("MODIFIED", create_slice(9, create_device("gpu-1"))))
    assert store.list_slices() is not listed


def test_slices_of_former_generations_are_not_listed_and_none_is_while_a_pool_is_incomplete() -> None:
    store = DeviceStore()
    old, new = (create_slice(5, create_device("gpu-0"), name=f"slice-{each}", generation=each) for each in (1, 2))
    store.apply(slice_page(5, old, new))
    assert [each.name for each in store.list_slices() or ()] == ["slice-2"]
    new["spec"]["pool"]["resourceSliceCount"] = 2
    new["metadata"]["resourceVersion"] = "6"
    store.apply(slice_line("MODIFIED", new))
    assert store.list_slices() is None
