"""Names of caps as labels."""

from webhook.server.telemetry.metrics import CapLabels


def test_caps_keep_their_names_until_there_are_too_many() -> None:
    names = CapLabels(2)
    assert [names.get_label(cap) for cap in ("a", "b", "c", "a", "c")] == ["a", "b", "other", "a", "other"]
