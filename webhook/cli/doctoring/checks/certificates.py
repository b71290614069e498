"""Whether who calls the gate trusts it, and for how long."""

import base64
from collections.abc import Iterator
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from cryptography import x509

from webhook.cli.doctoring.chains import ChainError, certificates, distrust
from webhook.cli.doctoring.facts import Facts, Unseen
from webhook.cli.doctoring.mending import kubectl, own, patched, tallygate
from webhook.cli.doctoring.records import Configuration, Deployment, Webhook
from webhook.cli.doctoring.rights import Feature, features
from webhook.cli.doctoring.verdict import Check, Said, failed, named, passed, together, unknown, warned

SOON = timedelta(days=7)
"""Of a certificate that lives long; of one that does not, a tenth of its life."""
_PARTS = 10
_DAY = 86400.0
_APART = 2.0  # seconds; both are whole
_FOLDER = "certs.d/"  # as deploy/README.md calls it

_Found = tuple[str, Configuration, Webhook]


def _webhooks(facts: Facts) -> list[_Found]:
    return [(kind, found, webhook) for kind, found in facts.configurations() for webhook in found.webhooks]


def _chain(facts: Facts) -> list[x509.Certificate] | Unseen:
    """What the gate shows, as far as it can be had: where it is called by URL that, else what its Secret holds."""
    if facts.served is not None:
        pem = facts.served
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
    if not found:
        return unknown("nothing of the gate is registered")
    chain = _chain(facts)
    if isinstance(chain, Unseen):
        empty = [webhook.name for _, _, webhook in found if not webhook.client_config.ca_bundle]
        if empty and not facts.is_called_by_url:
            return failed(f"{named(empty)} has no caBundle", _publish(facts))
        return unknown(f"what the gate shows cannot be seen: {chain.why}")
    wrong = [(each, why) for each in found if (why := _distrust(facts, each[2], chain))]
    said = [failed(f"{each[2].name}: {why}", _mend(facts, each, chain)) for each, why in wrong]
    return together(said, passed(f"all {len(found)} webhooks trust what the gate shows"))


def _distrust(facts: Facts, webhook: Webhook, chain: list[x509.Certificate]) -> str:
    client = webhook.client_config
    if not client.ca_bundle:
        return "" if client.url and facts.served is not None and _is_public(chain) else "caBundle is empty"
    try:
        trusted = certificates(client.ca_bundle)
    except ChainError as error:
        return f"caBundle is {error}"
    return distrust(chain, trusted, _host(webhook), facts.now)


def _is_public(chain: list[x509.Certificate]) -> bool:
    """Whether it may be signed by one of the world's authorities, whom an API server trusts where it has no bundle."""
    return chain[0].issuer != chain[0].subject and len(chain) > 1


def _host(webhook: Webhook) -> str:
    service = webhook.client_config.service
    if service:
        return f"{service.name}.{service.namespace}.svc"
    return urlsplit(webhook.client_config.url or "").hostname or ""


def _mend(facts: Facts, each: _Found, chain: list[x509.Certificate]) -> str:
    """The bundle of another webhook, or of the Secret, where one is right; else that of the folder of certificates."""
    kind, found, webhook = each
    others = [other.client_config.ca_bundle for _, _, other in _webhooks(facts)]
    if facts.secret is not None and not isinstance(facts.secret, Unseen):
        others.append(facts.secret.data.authorities)
    for bundle in filter(None, others):
        try:
            right = not distrust(chain, certificates(bundle), _host(webhook), facts.now)
        except ChainError:
            continue
        if right:
            trust = base64.b64encode(bundle).decode()
            return patched(facts.here, kind, found, webhook, "clientConfig/caBundle", trust)
    if chain[0].not_valid_after_utc < facts.now:
        return f"tallygate certs renew {_FOLDER}"
    return _publish(facts)


def _publish(facts: Facts) -> str:
    return tallygate(facts.here, "certs", "publish", _FOLDER)


def _certificate(facts: Facts) -> Said:
    chain = _chain(facts)
    said = list(_served(facts, chain))
    if isinstance(chain, Unseen):
        return together(said, unknown(f"what the gate shows cannot be seen: {chain.why}"))
    leaf = chain[0]
    said += _lasting(facts, "the certificate", leaf)
    said += _authorities(facts)
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
        yield failed(f"{what} has expired on {until}", *_renew(facts))
    elif left < soon:
        yield warned(f"{what} expires on {until}, in {_days(left)}", *_renew(facts))


def _days(left: timedelta) -> str:
    seconds = left.total_seconds()
    return f"{seconds / _DAY:.1f} days" if seconds >= _DAY else f"{seconds / 3600:.1f} hours"


def _renew(facts: Facts) -> tuple[str, ...]:
    """Made anew, put where the gate reads it, and trusted; a gate that does so by itself is asked to."""
    if isinstance(facts.deployment, Deployment) and Feature.CERTIFIES in features(facts.deployment.arguments):
        return (
            own(facts.here, "annotate", "secret", facts.here.secret, "tallygate.dev/renew=certificate", "--overwrite"),
        )
    renew = f"tallygate certs renew {_FOLDER}"
    if facts.is_called_by_url:
        return renew, _publish(facts)
    made = ("create", "secret", "tls", facts.here.secret, f"--cert={_FOLDER}tls.crt", f"--key={_FOLDER}tls.key")
    written = own(facts.here, *made, "--dry-run=client", "--output=yaml")
    return renew, _publish(facts), f"{written} | {kubectl(facts.here, 'apply', '--filename=-')}"


def _served(facts: Facts, chain: list[x509.Certificate] | Unseen) -> Iterator[Said]:
    """What replicas themselves say that they serve with."""
    if isinstance(facts.replicas, Unseen):
        return
    for replica in facts.replicas:
        if isinstance(replica.metrics, Unseen):
            continue
        ends = replica.metrics.value("certificate_not_after_timestamp_seconds")
        if not ends:
            continue
        if ends < facts.now.timestamp():
            yield failed(f"replica {replica.name} serves with a certificate that has expired", *_renew(facts))
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
