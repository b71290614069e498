"""Shapes: what pods have in common, kept once for all pods that have it, and gone with the last of them."""

from weakref import WeakValueDictionary

import msgspec

from webhook.objects.core import Pod

_POD_DECODER = msgspec.json.Decoder(Pod)


class ChargeGroup:
    """One shape, as canonical JSON; compared by identity, since there is only one of each."""

    __slots__ = ("__weakref__", "_content")

    def __init__(self, content: bytes) -> None:
        self._content = content

    def to_pod(self) -> Pod:
        """The pod as far as its shape says: labels, what it asks for, what it was promised; no name and no phase.

        It is decoded now: whoever needs it often keeps what follows from it instead.
        """
        return _POD_DECODER.decode(self._content)


class ChargeGroupInterner:
    """Hands out the one shape for equal contents."""

    def __init__(self) -> None:
        self._groups: WeakValueDictionary[bytes, ChargeGroup] = WeakValueDictionary()

    def intern(self, content: bytes) -> ChargeGroup:
        """The shape of this content."""
        group = self._groups.get(content)
        if group is None:
            group = self._groups[content] = ChargeGroup(content)
        return group

    def __len__(self) -> int:
        return len(self._groups)
