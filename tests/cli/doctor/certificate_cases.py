"""What may be wrong with what the gate serves with, and with who trusts it."""

from datetime import timedelta

from certs.authority import create_ca
from tests.cli.doctor.changes import FAIL, UNKNOWN, UNSEEN, WARN, Cases, only, trusting
from tests.cli.doctor.world import NOW, leaf, metrics, pem, secret

CASES: Cases = {
    "another authority is trusted": (trusting(pem(create_ca(NOW))), {"trusted": FAIL}),
    "nobody is trusted": (trusting(b""), {"trusted": FAIL}),
    "what is trusted is no certificate": (trusting(b"-----BEGIN"), {"trusted": FAIL}),
    "the certificate is for another Service": (
        {"secret": secret(pem(leaf(service="other")))},
        {"trusted": FAIL},
    ),
    "the Secret cannot be read": ({"secret": UNSEEN}, {"trusted": UNKNOWN, "certificate": UNKNOWN}),
    "there is no Secret": ({"secret": None}, {"trusted": UNKNOWN, "certificate": UNKNOWN}),
    "the Secret holds no certificate": ({"secret": secret(b"")}, {"trusted": UNKNOWN, "certificate": UNKNOWN}),
    "the certificate has expired": (
        {"secret": secret(pem(leaf(NOW - timedelta(days=200))))},
        {"trusted": FAIL, "certificate": FAIL},
    ),
    "the certificate expires within a week": (
        {"secret": secret(pem(leaf(NOW - timedelta(days=85))))},
        {"certificate": WARN},
    ),
    "a replica serves with another certificate": (
        only(told=metrics(certificate_not_after_timestamp_seconds=NOW.timestamp() + 86400 * 10)),
        {"certificate": WARN},
    ),
    "a replica serves with one that has expired": (
        only(told=metrics(certificate_not_after_timestamp_seconds=NOW.timestamp() - 60)),
        {"certificate": FAIL},
    ),
}
