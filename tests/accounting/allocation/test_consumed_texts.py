"""What an allocated device consumes, as text: the one that the API server makes of the scheduler's."""

import msgspec
import pytest

from tallygate.accounting.allocation.allocations import ChosenDevice
from tallygate.accounting.devices.consumed_capacity import ConsumptionRules, PublishedCapacity, read_capacity
from tallygate.accounting.devices.device_meter import DeviceId
from tallygate.accounting.quantity import Quantity


@pytest.mark.parametrize(
    ("requested", "low", "step", "expected"),
    [
        ("2500M", "1G", "1G", "3G"),
        ("2500M", "1000M", "500M", "2500M"),
        ("2500000000", "1000000000", "1000000000", "3G"),
        ("25e8", "1e9", "1e9", "3e9"),
        ("2500Mi", "1Gi", "1Gi", "3Gi"),
        ("1G", "1G", "1Gi", "1G"),
        ("1", "1000000Ki", "1Ki", "1000000Ki"),
        ("500000001", "500M", "1Ki", "500001024"),
        ("2499999000", "1G", "512Ki", "2500512256"),
        ("2000000512", "1000000512", "1000000000", "2000000512"),
        ("2999999999", "1G", "1000000000Ki", "1025G"),
    ],
)
def test_the_text_has_the_format_that_the_api_server_reads(requested: str, low: str, step: str, expected: str) -> None:
    """Round as 1.37 does, which writes the sum in the format of the step; the API server reads that text again."""
    policy = f'{{"default":"{low}","validRange":{{"min":"{low}","step":"{step}"}}}}'
    published = f'{{"value":"4000G","requestPolicy":{policy}}}'
    capacity = read_capacity(msgspec.json.decode(published, type=PublishedCapacity))
    rules = ConsumptionRules(has_fractions=False, rejects_unreadable=True)
    amount = rules.compute_amount("memory", Quantity.parse(requested), capacity)
    chosen = ChosenDevice("r", DeviceId("d", "p", "x"), has_admin_access=False, is_shared=True, consumed={"m": amount})
    assert chosen.format_consumed() == {"m": expected}
