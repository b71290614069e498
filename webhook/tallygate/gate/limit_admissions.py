"""The admitted changes of annotations that set limits, until a watch shows them stored.

A review is no write: a later webhook may deny the request, and a stranger may send a review of his own. So nothing is
recorded of a change until the namespace with that UID has it. A replica that ends before that, within about a second,
leaves a stored annotation without a record.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Final, NamedTuple

from tallygate.admission.request import AdmissionRequest
from tallygate.review.limit_annotation_review import list_changed_limits
from tallygate.review.namespace_moves import decode_namespace
from tallygate.state.informers.named_stores import NamespaceRecord

_MAX_PENDING: Final = 1000  # changes, so that forged reviews take little memory; the oldest is dropped
_MAX_AGE_SECONDS: Final = 600.0  # longer than any request takes in the API server, and a watch to reconnect
_MAX_USER_LENGTH: Final = 253


class AdmittedLimit(NamedTuple):
    """An admitted change: the text that the annotation for a cap gets, or None for its removal, and the user."""

    namespace_uid: str
    namespace: str
    cap: str
    text: str | None
    user: str


class LimitAdmissions:
    """The pending changes; for any thread, with a `lock` of their own. `monotonic` returns seconds."""

    def __init__(self, monotonic: Callable[[], float], lock: AbstractContextManager[object]) -> None:
        self._monotonic = monotonic
        self._lock = lock
        self._added_at: OrderedDict[AdmittedLimit, float] = OrderedDict()

    def add(self, request: AdmissionRequest) -> None:
        """Add the changes that an admitted write of a namespace makes; a dry run makes none.

        Raises:
            ReviewError: if the object is not a namespace.
        """
        meta = decode_namespace(request.object)
        if request.dry_run or meta is None or not meta.uid or not meta.name:
            return
        user = request.user.name[:_MAX_USER_LENGTH]
        now = self._monotonic()
        with self._lock:
            for cap, text in list_changed_limits(request):
                change = AdmittedLimit(meta.uid, meta.name, cap, text, user)
                self._added_at[change] = now
                self._added_at.move_to_end(change)
            while len(self._added_at) > _MAX_PENDING:
                self._added_at.popitem(last=False)

    def list_stored(self, find_namespace: Callable[[str], NamespaceRecord | None]) -> list[AdmittedLimit]:
        """Return the changes that the namespaces show, in the order of their admission, and forget the old others."""
        now = self._monotonic()
        with self._lock:
            expired = [change for change, added_at in self._added_at.items() if now - added_at > _MAX_AGE_SECONDS]
            for change in expired:
                del self._added_at[change]
            pending = list(self._added_at)
        return [change for change in pending if _is_stored(change, find_namespace(change.namespace))]

    def remove(self, changes: Iterable[AdmittedLimit]) -> None:
        with self._lock:
            for change in changes:
                self._added_at.pop(change, None)


def _is_stored(change: AdmittedLimit, namespace: NamespaceRecord | None) -> bool:
    return (
        namespace is not None
        and namespace.uid == change.namespace_uid
        and namespace.limit_texts.get(change.cap) == change.text
    )
