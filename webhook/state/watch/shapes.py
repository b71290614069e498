"""Shapes: what pods have in common, kept once for all pods that have it, and gone with the last of them."""

from weakref import WeakValueDictionary

from webhook.objects.pods import Pod
from webhook.state.watch.pods import read_shape


class Shape:
    """One shape; compared by identity, since there is only one of each."""

    __slots__ = ("__weakref__", "content")

    def __init__(self, content: bytes) -> None:
        self.content = content

    def pod(self) -> Pod:
        """The pod that it describes, decoded now: whoever needs it often keeps what follows from it instead."""
        return read_shape(self.content)


class Shapes:
    """Hands out the one shape for equal contents."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[bytes, Shape] = WeakValueDictionary()

    def of(self, content: bytes) -> Shape:
        """The shape of this content."""
        shape = self._known.get(content)
        if shape is None:
            shape = self._known[content] = Shape(content)
        return shape

    def __len__(self) -> int:
        return len(self._known)
