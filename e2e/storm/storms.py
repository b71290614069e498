"""Every storm by its name, in the order in which they come."""

from collections.abc import Callable

from e2e.storm.crowds import Gates, Size, crowd, quota_crowd
from e2e.storm.ground import Ground
from e2e.storm.outcome import Outcome

_SIZE = Size()

STORMS: dict[str, Callable[[Ground], Outcome]] = {
    "killed": lambda ground: crowd(ground, _SIZE, Gates()),
    "quota": lambda ground: quota_crowd(ground, _SIZE),
    "memory": lambda ground: crowd(ground, _SIZE, Gates(count=1, ledgers="memory", killed=False)),
}
