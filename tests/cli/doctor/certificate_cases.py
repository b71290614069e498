"""Cases of the serving certificate and of the CA bundles."""

from datetime import timedelta

from tallygate_certs.authority import create_ca
from tests.cli.doctor.fact_changes import FAIL, UNAVAILABLE, UNKNOWN, WARN, Cases, change_first_replica, replace_bundle
from tests.cli.doctor.healthy_gate import NOW, encode_pem, leaf, metrics, secret

CASES: Cases = {
    "another CA is trusted": (replace_bundle(encode_pem(create_ca(NOW))), {"trusted": FAIL}),
    "the CA bundle is empty": (replace_bundle(b""), {"trusted": FAIL}),
    "the CA bundle is invalid": (replace_bundle(b"-----BEGIN"), {"trusted": FAIL}),
    "the certificate is for another Service": (
        {"secret": secret(encode_pem(leaf(service="other")))},
        {"trusted": FAIL},
    ),
    "the Secret cannot be read": ({"secret": UNAVAILABLE}, {"trusted": UNKNOWN, "certificate": UNKNOWN}),
    "the Secret is missing": ({"secret": None}, {"trusted": UNKNOWN, "certificate": UNKNOWN}),
    "the Secret has no certificate": ({"secret": secret(b"")}, {"trusted": UNKNOWN, "certificate": UNKNOWN}),
    "the certificate has expired": (
        {"secret": secret(encode_pem(leaf(NOW - timedelta(days=200))))},
        {"trusted": FAIL, "certificate": FAIL},
    ),
    "the certificate expires within a week": (
        {"secret": secret(encode_pem(leaf(NOW - timedelta(days=85))))},
        {"certificate": WARN},
    ),
    "a replica serves another certificate": (
        change_first_replica(samples=metrics(certificate_not_after_timestamp_seconds=NOW.timestamp() + 86400 * 10)),
        {"certificate": WARN},
    ),
    "a replica serves an expired certificate": (
        change_first_replica(samples=metrics(certificate_not_after_timestamp_seconds=NOW.timestamp() - 60)),
        {"certificate": FAIL},
    ),
}
