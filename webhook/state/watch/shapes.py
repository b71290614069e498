"""Shapes: what pods have in common, kept once for all pods that have it, and gone with the last of them."""

from weakref import WeakValueDictionary

import msgspec

from webhook.objects.core import Pod

_POD = msgspec.json.Decoder(Pod)


class Shape:
    """One shape, as canonical JSON; compared by identity, since there is only one of each."""

    __slots__ = ("__weakref__", "_content")

    def __init__(self, content: bytes) -> None:
        self._content = content

    def pod(self) -> Pod:
        """The pod as far as its shape says: labels, what it asks for, what it was promised; no name and no phase.

        It is decoded now: whoever needs it often keeps what follows from it instead.
        """
        return _POD.decode(self._content)


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
