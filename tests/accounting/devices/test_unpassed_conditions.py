"""The condition that no published device passes: none is found if kube-scheduler could allocate a device."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.devices.device_values import AttributeValue, Device
from tallygate.accounting.devices.expression import UndecidedMatchError, compile_selector
from tallygate.accounting.devices.least_amounts import MAX_OWN_WORK, MAX_SHARED_WORK, LeastAmounts
from tallygate.accounting.devices.slice_devices import WorkLimitError
from tallygate.accounting.devices.unpassed_conditions import UnpassedCondition, find_unpassed_condition
from tallygate.state.informers.device_store import DeviceStore
from tests.state.informers.slices import DRIVER, Object, create_device, create_slice, slice_page

MODEL, MEMORY = f'device.attributes["{DRIVER}"].model', f'device.capacity["{DRIVER}"].memory'
IS_DRIVER = f'device.driver == "{DRIVER}"'
NOTHING = f'device.attributes["{DRIVER}"].nothing'
SMALL = create_device("small", "a100", "40Gi")
LARGE = create_device("large", "h100", "80Gi")


def find_no_class(_: str) -> tuple[str, ...] | None:
    """Return no selectors: the tests give those of classes."""
    return None


def find(class_selectors: list[str], own: list[str], *slices: Object) -> UnpassedCondition | None:
    """Return the condition that no device of these slices passes."""
    store = DeviceStore()
    store.apply(slice_page(9, *slices))
    review = LeastAmounts(store.list_slices, find_no_class).start_review()
    return find_unpassed_condition(review, class_selectors, own)


def describe(found: UnpassedCondition | None) -> str:
    """Return a condition as one line."""
    if found is None:
        return ""
    place = "class" if found.selector is None else str(found.selector)
    values = ",".join(sorted(each.text for each in found.values) or found.names)
    return f"{place}{'*' if found.is_narrowed else ''}: {found.text} [{values}]"


@pytest.mark.parametrize(
    ("class_selectors", "own", "expected"),
    [
        pytest.param([IS_DRIVER], [], "", id="a device of the class is published"),
        pytest.param([IS_DRIVER], [f'{MODEL} == "h100"'], "", id="a device passes"),
        pytest.param(
            ['device.driver == "nic"'], [], 'class: device.driver == "nic" [gpu.example.com]', id="another driver"
        ),
        pytest.param(
            [IS_DRIVER], [f'{MODEL} == "h200"'], f'0: {MODEL} == "h200" [a100,h100]', id="no device has the model"
        ),
        pytest.param(
            [],
            ["true", f'true && {MODEL} == "a100" && {MEMORY}.compareTo(quantity("80Gi")) >= 0'],
            f'1*: {MEMORY}.compareTo(quantity("80Gi")) >= 0 [40Gi]',
            id="the conditions before narrow the devices",
        ),
        pytest.param(
            [f'{MODEL} == "h100"'], [f'{MODEL} == "a100"'], f'0: {MODEL} == "a100" [h100]', id="the class narrows"
        ),
        pytest.param(
            [],
            [f'device.attributes["{DRIVER}"].modle == "a100"'],
            f'0: device.attributes["{DRIVER}"].modle == "a100" [model]',
            id="no device has the attribute",
        ),
        pytest.param(
            [],
            [f'device.attributes["{DRIVER}"].nothing'],
            f'0: device.attributes["{DRIVER}"].nothing [model]',
            id="an evaluation that fails on every device allocates none",
        ),
        pytest.param([], [f'{MODEL}.startsWith("b")'], f'0: {MODEL}.startsWith("b") []', id="no comparison"),
        pytest.param([], ["format.uuid().validate('x').hasValue()"], "", id="an expression that is not supported here"),
        pytest.param([], ["true" + " && true" * 400 + " && false"], "", id="an expression that is too long here"),
    ],
)
def test_the_first_condition_without_devices_is_found(
    class_selectors: list[str], own: list[str], expected: str
) -> None:
    found = find(class_selectors, own, create_slice(1, SMALL), create_slice(1, LARGE, name="slice-2", pool="node-2"))
    assert describe(found) == expected


def test_no_slices_have_no_condition() -> None:
    assert find([IS_DRIVER], [MODEL]) == find([], [], create_slice(1)) == UnpassedCondition(None)


def test_nothing_is_found_before_the_first_list_and_while_a_pool_is_incomplete() -> None:
    store = DeviceStore()
    least = LeastAmounts(store.list_slices, find_no_class)
    assert find_unpassed_condition(least.start_review(), [], ["false"]) is None
    incomplete = create_slice(1, SMALL)
    incomplete["spec"]["pool"]["resourceSliceCount"] = 2
    store.apply(slice_page(9, incomplete))
    assert find_unpassed_condition(least.start_review(), [], ["false"]) is None


LOOPS = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].all(a, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].all(b, a != b || true)) && false"


def create_many(devices: int = 128, slices: int = 40) -> LeastAmounts:
    """Return the amounts of a cluster with equal devices in slices of their own pools."""
    listed = [create_device(f"d{number}") for number in range(devices)]
    store = DeviceStore()
    store.apply(slice_page(9, *(create_slice(1, *listed, name=f"s{each}", pool=f"p{each}") for each in range(slices))))
    return LeastAmounts(store.list_slices, find_no_class)


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(LOOPS, id="a costly expression"),
        pytest.param("(" * 30 + "false" + ")" * 30, id="many brackets"),
        pytest.param(" && ".join(["true"] * 250 + ["false"]), id="many conditions"),
    ],
)
def test_a_hostile_expression_costs_no_more_than_the_limit(expression: str) -> None:
    review = create_many().start_review()
    with pytest.raises(WorkLimitError):
        find_unpassed_condition(review, [], [expression])
    assert -MAX_OWN_WORK < review.get_work(is_own=True).remaining < 0
    assert review.get_work(is_own=False).remaining >= MAX_SHARED_WORK - 40


def test_known_results_cost_work_too() -> None:
    least = create_many(devices=1, slices=200)
    assert find_unpassed_condition(least.start_review(), [], ["1 == 0"]) is not None
    review = least.start_review()
    review.get_work(is_own=False).spend(MAX_SHARED_WORK - 199)
    with pytest.raises(WorkLimitError):
        find_unpassed_condition(review, [], ["1 == 0"])


def test_later_reviews_continue() -> None:
    least, found = create_many(slices=20), None
    for _ in range(4):
        with suppress(WorkLimitError):
            found = find_unpassed_condition(least.start_review(), [], [f'{MODEL} == "h200"'])
    assert describe(found) == f'0: {MODEL} == "h200" [h100]'


def test_the_values_of_too_many_devices_are_examples() -> None:
    least = create_many(slices=10)
    review = least.start_review()
    review.get_work(is_own=False).spend(MAX_SHARED_WORK - 100)
    found = find_unpassed_condition(review, [], [f'{MODEL} == "h200"'])
    assert found is not None
    assert [each.text for each in found.values] == ["h100"]
    assert not found.has_all_values


CONDITIONS = [
    *(f'{MODEL} {operator} "{model}"' for operator in ("==", "!=") for model in "ab"),
    f'{MODEL} in ["a", "c"]',
    f'!({MODEL} == "a")',
    f"has({MODEL})",
    f'device.attributes["{DRIVER}"].?model.orValue("") == "a"',
    f'device.attributes["{DRIVER}"].cores >= 2',
    f'device.attributes["{DRIVER}"].cores < 2',
    IS_DRIVER,
    "true",
]
SELECTORS = st.lists(
    st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=3).flatmap(
        lambda parts: st.sampled_from([" && ".join(parts), " || ".join(parts), f"({' && '.join(parts)})"])
    ),
    max_size=3,
)
DEVICES = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "model": st.sampled_from("abc").map(lambda model: {"string": model}),
            "cores": st.integers(1, 3).map(lambda number: {"int": number}),
        },
    ),
    max_size=4,
)


def allocates(device: Object, selectors: list[str]) -> bool:
    """Return whether each expression is true on a device, each evaluated as a whole."""
    attributes = {
        name: AttributeValue(integer=value.get("int"), text=value.get("string")) for name, value in device.items()
    }
    try:
        return all(compile_selector(each).matches(Device(DRIVER, attributes)) for each in selectors)
    except UndecidedMatchError:
        return False


@given(devices=DEVICES, class_selectors=SELECTORS, own=SELECTORS)
def test_a_condition_is_found_if_and_only_if_no_device_passes_all(
    devices: list[Object], class_selectors: list[str], own: list[str]
) -> None:
    listed = [{"name": f"d{index}", "attributes": each} for index, each in enumerate(devices)]
    found = find(class_selectors, own, create_slice(1, *listed))
    assert (found is None) == any(allocates(each, [*class_selectors, *own]) for each in devices)
    if found is not None and found.text:
        texts = class_selectors if found.selector is None else [own[found.selector]]
        assert any(found.text in each for each in texts)
        before = [*class_selectors, *own[: found.selector or 0]]
        assert not any(allocates(each, [*before, found.text]) for each in devices) or found.is_narrowed
