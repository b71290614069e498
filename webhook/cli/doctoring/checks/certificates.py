"""Whether who calls the gate trusts it, and for how long."""

import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from cryptography import x509

from webhook.cli.doctoring.chains import ChainError, certificates, distrust
from webhook.cli.doctoring.facts import Facts, Shown, Unseen
from webhook.cli.doctoring.issuing import publish, renew
from webhook.cli.doctoring.mending import own, patched
from webhook.cli.doctoring.records import Configuration, Secret, Webhook
from webhook.cli.doctoring.verdict import Check, Said, failed, named, passed, together, unknown, warned

SOON = timedelta(days=7)
"""Of a certificate that lives long; of one that does not, a tenth of its life."""
_PARTS = 10
_DAY = 86400.0
_APART = 2.0  # seconds; both are whole
_NEVER = datetime(9999, 1, 1, tzinfo=UTC).timestamp()

_Found = tuple[str, Configuration, Webhook]


def _webhooks(facts: Facts) -> list[_Found]:
    return [(kind, found, webhook) for kind, found in facts.configurations() for webhook in found.webhooks]


def _chain(facts: Facts) -> list[x509.Certificate] | Unseen:
    """What the gate shows, as far as it can be had: where it is called by URL that, else what its Secret holds."""
    if isinstance(facts.served, Unseen):
        return facts.served
    if facts.served is not None:
        pem: bytes | Unseen = facts.served.certificate
    elif facts.secret is None:
        return Unseen(f"there is no Secret {facts.here.namespace}/{facts.here.secret}")
    else:
        pem = facts.secret if isinstance(facts.secret, Unseen) else facts.secret.data.certificate
    if isinstance(pem, Unseen):
        return pem
    try:
        return certificates(pem)
    except ChainError as error:
        return Unseen(f"what the gate should serve with is {error}")


def _trusted(facts: Facts) -> Said:
    found = _webhooks(facts)
    if facts.unregistered:
        return unknown(facts.unregistered)
    chain = _chain(facts)
    if isinstance(chain, Unseen):
        empty = [webhook.name for _, _, webhook in found if not webhook.client_config.ca_bundle]
        if empty and not facts.is_called_by_url:
            return failed(f"no caBundle, so that nobody is trusted: {named(empty)}", *publish(facts))
        return unknown(f"what the gate shows cannot be seen: {chain.why}")
    wrong = [(each, why) for each in found if (why := _distrust(facts, each[2], chain))]
    said = [failed(f"{each[2].name}: {why}", *_mend(facts, each, chain)) for each, why in wrong]
    return together(said, passed(f"all {len(found)} webhooks trust what the gate shows"))


def _distrust(facts: Facts, webhook: Webhook, chain: list[x509.Certificate]) -> str:
    bundle = webhook.client_config.ca_bundle
    if isinstance(facts.served, Shown) and webhook.client_config.url:
        return facts.served.refusals.get(bundle, "")
    if not bundle:
        return "caBundle is empty"
    try:
        trusted = certificates(bundle)
    except ChainError as error:
        return f"caBundle is {error}"
    return distrust(chain, trusted, _host(webhook), facts.now)


def _host(webhook: Webhook) -> str:
    service = webhook.client_config.service
    if service:
        return f"{service.name}.{service.namespace}.svc"
    return urlsplit(webhook.client_config.url or "").hostname or ""


def _mend(facts: Facts, each: _Found, chain: list[x509.Certificate]) -> tuple[str, ...]:
    """The bundle of another webhook, or of the Secret, where one is right; else have it published, or made anew."""
    kind, found, webhook = each
    others = [other.client_config.ca_bundle for _, _, other in _webhooks(facts)]
    if isinstance(facts.secret, Secret):
        others.append(facts.secret.data.authorities)
    for bundle in filter(None, others):
        try:
            right = not distrust(chain, certificates(bundle), _host(webhook), facts.now)
        except ChainError:
            continue
        if right:
            trust = base64.b64encode(bundle).decode()
            return (patched(facts.here, kind, found, webhook, "clientConfig/caBundle", trust),)
    return renew(facts) if chain[0].not_valid_after_utc < facts.now else publish(facts)


def _certificate(facts: Facts) -> Said:
    chain = _chain(facts)
    if isinstance(chain, Unseen):
        return together([*_served(facts, chain)], unknown(f"what the gate shows cannot be seen: {chain.why}"))
    leaf = chain[0]
    said = [*_lasting(facts, "the certificate", leaf), *_authorities(facts), *_served(facts, chain)]
    days = (leaf.not_valid_after_utc - facts.now) / timedelta(days=1)
    return together(said, passed(f"{days:.0f} days left, until {leaf.not_valid_after_utc:%Y-%m-%d}"))


def _authorities(facts: Facts) -> Iterator[Said]:
    """A bundle may hold one that has been succeeded; what counts is the one that lasts longest."""
    for bundle in {webhook.client_config.ca_bundle for _, _, webhook in _webhooks(facts)} - {b""}:
        try:
            longest = max(certificates(bundle), key=lambda each: each.not_valid_after_utc)
        except (ChainError, ValueError):
            continue  # `trusted` tells of it
        yield from _lasting(facts, "the authority in caBundle", longest)


def _lasting(facts: Facts, what: str, found: x509.Certificate) -> Iterator[Said]:
    left = found.not_valid_after_utc - facts.now
    until = f"{found.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
    soon = min(SOON, (found.not_valid_after_utc - found.not_valid_before_utc) / _PARTS)
    if left < timedelta():
        yield failed(f"{what} has expired on {until}", *renew(facts))
    elif left < soon:
        yield warned(f"{what} expires on {until}, in {_days(left)}", *renew(facts))


def _days(left: timedelta) -> str:
    seconds = left.total_seconds()
    return f"{seconds / _DAY:.1f} days" if seconds >= _DAY else f"{seconds / 3600:.1f} hours"


def _served(facts: Facts, chain: list[x509.Certificate] | Unseen) -> Iterator[Said]:
    """What replicas themselves say that they serve with."""
    if isinstance(facts.replicas, Unseen):
        return
    for replica in facts.replicas:
        if isinstance(replica.metrics, Unseen):
            continue
        ends = replica.metrics.value("certificate_not_after_timestamp_seconds")
        if not ends or not 0 < ends < _NEVER:
            continue
        if ends < facts.now.timestamp():
            yield failed(f"replica {replica.name} serves with a certificate that has expired", *renew(facts))
        elif not isinstance(chain, Unseen) and abs(ends - _end(chain)) > _APART:
            told = f"replica {replica.name} serves with another certificate than it should, good until "
            yield warned(f"{told}{datetime.fromtimestamp(ends, facts.now.tzinfo):%Y-%m-%d}", *_restart(facts))


def _end(chain: list[x509.Certificate]) -> float:
    return chain[0].not_valid_after_utc.timestamp()


def _restart(facts: Facts) -> tuple[str, ...]:
    return () if facts.is_called_by_url else (own(facts.here, "rollout", "restart", "deployment/tallygate"),)


CHECKS = (
    Check(
        "trusted",
        "caBundle trusts what the gate shows",
        "FAIL: a webhook's caBundle is empty, or has not signed the gate's certificate, or not for its name",
        _trusted,
    ),
    Check(
        "certificate",
        "The certificate lasts",
        f"FAIL: it has expired, or its authority; WARN: less than {SOON.days} days or a tenth of its life left, or a "
        "replica serves with another one",
        _certificate,
    ),
)
