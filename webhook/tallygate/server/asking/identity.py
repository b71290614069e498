"""Who asks: the user of a bearer token, as the API server names him in a TokenReview.

A token counts for one of the audiences that are accepted. A review has audiences, and the API server returns those of
them for which the token is meant; without any, it is about the API server's own (k8s.io/api authentication/v1,
TokenReviewSpec and TokenReviewStatus, v1.36), whose names are not known here. So the two are two reviews.

Strangers send any token that they like. Each new one costs the API server up to two reviews, so that these are limited,
by address and together. Tokens that were accepted lately have limits of their own: strangers do not use them up.
"""

import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from threading import Lock
from typing import Any, Final

import msgspec

from tallygate.kube.client import ClientConfig
from tallygate.server.asking.api_reviews import CallLimit, KeptAnswers, ReviewClient
from tallygate.server.asking.ask_error import AskError
from tallygate.server.asking.rate import RateLimit
from tallygate.server.token_buckets import TokenRate

AUDIENCE: Final = "tallygate"
"""The audience of a token that is meant for this server alone: the API server itself does not accept it."""

MAX_TOKEN_LENGTH: Final = 16 * 1024
"""Characters. The largest tokens of identity providers have some thousand; a header of Go's servers has 1 MiB."""

NEW_TOKENS: Final = TokenRate(burst=100, interval=1 / 50)
NEW_TOKENS_OF_ADDRESS: Final = TokenRate(burst=50, interval=1 / 20)
ACCEPTED_TOKENS: Final = TokenRate(burst=200, interval=1 / 100)
"""The rates of reviews: of tokens that are new, all and by address, and of those that were accepted lately."""

MAX_REVIEWS_AT_A_TIME: Final = 16
"""Reviews in progress, of new tokens, and as many of accepted ones; each takes milliseconds."""

_MAX_ACCEPTED: Final = 4096
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # b64token of RFC 6750, section 2.1
_SCHEME: Final = "bearer"  # in any case (RFC 9110, section 11.1)


class Asker(msgspec.Struct, frozen=True):
    """A user as the API server authenticated him (authentication.k8s.io/v1 UserInfo); `extra` is sorted by its keys."""

    username: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class AcceptedAudiences:
    """The audiences of the tokens that are accepted: some by name, and the API server's own, if `of_api_server`."""

    names: tuple[str, ...] = (AUDIENCE,)
    of_api_server: bool = True

    def __str__(self) -> str:
        """Return them for a sentence."""
        own = ("the API server's own audience",) if self.of_api_server else ()
        return " or ".join((*own, *(f'the audience "{name}"' for name in self.names)))


class _TokenUser(msgspec.Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...] | None] | None = None


class _TokenReviewStatus(msgspec.Struct, frozen=True):
    """A status without `error`: its text is about the token, and belongs in the API server's log alone."""

    authenticated: bool = False
    user: _TokenUser = _TokenUser()
    audiences: tuple[str, ...] | None = None


class TokenAuthenticator:
    """The authentication of requests by their bearer tokens; for any thread. `monotonic` returns seconds.

    Answers are kept by the SHA-256 of their tokens. No token is kept, logged or part of an error.
    """

    def __init__(
        self,
        client_config: ClientConfig,
        monotonic: Callable[[], float],
        audiences: AcceptedAudiences = AcceptedAudiences(),
    ) -> None:
        group, resource, kind = "authentication.k8s.io", "tokenreviews", "TokenReview"
        self._client = ReviewClient(client_config, group, resource, kind, "who you are", _TokenReviewStatus)
        self._audiences = audiences
        self._answers: KeptAnswers[bytes, Asker | None] = KeptAnswers(monotonic)
        self._accepted = _AcceptedTokens()
        self._address_limit = RateLimit(NEW_TOKENS_OF_ADDRESS, "too many new tokens from your address", monotonic)
        self._new_limit = CallLimit(
            MAX_REVIEWS_AT_A_TIME, RateLimit(NEW_TOKENS, "too many new tokens", monotonic, max_keys=1)
        )
        self._accepted_limit = CallLimit(
            MAX_REVIEWS_AT_A_TIME, RateLimit(ACCEPTED_TOKENS, "too many tokens", monotonic, max_keys=1)
        )

    def authenticate(self, authorization: str | None, address: str) -> Asker:
        """Return the user of a request by its header `Authorization`, and the address from which it came.

        Raises:
            AskError: with 401 if the token is missing, invalid, or for another audience; with 429 over the limits of
                reviews; with 503 if the API server cannot be asked.
        """
        token = self._read_token(authorization)
        digest = sha256(token.encode("ascii")).digest()
        asker = self._answers.get(digest, lambda: self._review(token, digest, address))
        if asker is None:
            raise self._refuse("the API server does not accept this token, or it is for another audience")
        return asker

    def _read_token(self, authorization: str | None) -> str:
        if not authorization:
            raise self._refuse("no token: the header `Authorization` is missing")
        scheme, _, token = authorization.partition(" ")
        token = token.strip(" ")
        if scheme.lower() != _SCHEME or not token:
            raise self._refuse("no token: the header `Authorization` is not `Bearer TOKEN`")
        if len(token) > MAX_TOKEN_LENGTH:
            raise self._refuse(f"the token has more than {MAX_TOKEN_LENGTH} characters")
        if not _TOKEN.fullmatch(token):
            raise self._refuse("the token has characters that no bearer token has (RFC 6750, section 2.1)")
        return token

    def _refuse(self, reason: str) -> AskError:
        command = "kubectl create token SERVICEACCOUNT"
        if self._audiences.names:
            command += f" --audience={self._audiences.names[0]}"
        return AskError(
            HTTPStatus.UNAUTHORIZED,
            f"{reason}. Send `Authorization: Bearer TOKEN` with a valid token of this cluster for {self._audiences},"
            f" as of `{command}`",
        )

    def _review(self, token: str, digest: bytes, address: str) -> Asker | None:
        limit = self._accepted_limit
        if not self._accepted.has(digest):
            self._address_limit.take(address)
            limit = self._new_limit
        requests: list[tuple[str, ...]] = [()] if self._audiences.of_api_server else []
        requests += [self._audiences.names] if self._audiences.names else []
        for names in requests:
            spec: dict[str, Any] = {"token": token} | ({"audiences": names} if names else {})
            status = limit.run(None, partial(self._client.create, spec))
            if status.authenticated and (not names or not set(names).isdisjoint(status.audiences or ())):
                asker = _create_asker(status.user)
                self._accepted.add(digest)
                return asker
        self._accepted.remove(digest)
        return None


def _create_asker(user: _TokenUser) -> Asker:
    """Create an asker.

    Raises:
        AskError: with 503 if the user has no name: no authenticator of Kubernetes answers so.
    """
    if not user.username:
        message = "the API server accepts the token and names no user. Ask again in 1 s"
        raise AskError(HTTPStatus.SERVICE_UNAVAILABLE, message, 1)
    extra = tuple(sorted((key, values or ()) for key, values in (user.extra or {}).items()))
    return Asker(user.username, user.uid, user.groups or (), extra)


class _AcceptedTokens:
    """The digests of the tokens that were accepted last; for any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._digests: OrderedDict[bytes, None] = OrderedDict()

    def has(self, digest: bytes) -> bool:
        with self._lock:
            return digest in self._digests

    def add(self, digest: bytes) -> None:
        with self._lock:
            self._digests[digest] = None
            self._digests.move_to_end(digest)
            if len(self._digests) > _MAX_ACCEPTED:
                self._digests.popitem(last=False)

    def remove(self, digest: bytes) -> None:
        with self._lock:
            self._digests.pop(digest, None)
