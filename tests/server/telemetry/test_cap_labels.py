"""The names of caps as labels."""

from tallygate.server.telemetry.metrics import CapLabels


def test_caps_beyond_the_limit_share_a_label() -> None:
    names = CapLabels(2)
    assert [names.get_label(cap) for cap in ("a", "b", "c", "a", "c")] == ["a", "b", "other", "a", "other"]
