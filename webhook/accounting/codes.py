"""TG0xx: problems that Kubernetes finds itself, or that it should have found."""

from webhook.accounting import lenient_codes, resource_codes
from webhook.accounting.problem import Code

NAME_MALFORMED = Code(
    number="TG001",
    slug="name-malformed",
    summary="A resource name is not a qualified name.",
    explanation="Resource names are label keys: an optional lower-case DNS domain and a slash, then up to 63 "
    "letters, digits, "
    "'-', '_' and '.', with a letter or digit at both ends. Kubernetes can store and count nothing else.",
    invalid_example="resources:\n  limits:\n    Example.com/my gpu: 1",
    valid_example="resources:\n  limits:\n    example.com/my-gpu: 1",
)
NAME_NOT_ALLOWED = Code(
    number="TG002",
    slug="name-not-allowed",
    summary="A resource name is not one that may stand here.",
    explanation="Names without a domain belong to Kubernetes, which knows a fixed set of them for containers, pods "
    "and quotas. "
    "Resources of your own need a domain.",
    invalid_example="resources:\n  limits:\n    gpu: 1",
    valid_example="resources:\n  limits:\n    nvidia.com/gpu: 1",
)
NAME_NOT_EXTENDED = Code(
    number="TG003",
    slug="name-not-extended",
    summary="A name with a domain is no extended resource.",
    explanation="An extended resource must still be a qualified name when a quota puts `requests.` before it. So it "
    "cannot "
    "begin with `requests.` itself, and its domain has 244 bytes at most.",
    invalid_example="resources:\n  limits:\n    requests.nvidia.com/gpu: 1",
    valid_example="resources:\n  limits:\n    nvidia.com/gpu: 1",
)
UNREADABLE_QUANTITY = Code(
    number="TG004",
    slug="unreadable-quantity",
    summary="A value is not a quantity.",
    explanation="A quantity is a number with an optional suffix: n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an "
    "exponent. Blanks, "
    "thousands separators, and suffixes like K, KB or GiB are none.",
    invalid_example="resources:\n  limits:\n    memory: 1GB",
    valid_example="resources:\n  limits:\n    memory: 1G",
)
NEGATIVE_QUANTITY = Code(
    number="TG005",
    slug="negative-quantity",
    summary="A quantity is below zero.",
    explanation="Nothing can be asked for, held or allowed in a negative amount.",
    invalid_example='resources:\n  limits:\n    nvidia.com/gpu: "-1"',
    valid_example="resources:\n  limits:\n    nvidia.com/gpu: 1",
)
NOT_AN_INTEGER = Code(
    number="TG006",
    slug="not-an-integer",
    summary="A resource that is counted in whole units has a fraction.",
    explanation="Extended resources and object counts are whole things to Kubernetes: after rounding up to "
    "thousandths, the "
    "quantity must be an integer. 3, 3000m and 3Ki are; 0.5 and 1500m are not.",
    invalid_example="resources:\n  limits:\n    nvidia.com/gpu: 1500m",
    valid_example="resources:\n  limits:\n    nvidia.com/gpu: 2",
)
TOO_LARGE = Code(
    number="TG007",
    slug="too-large",
    summary="A quantity is larger than Kubernetes can hold.",
    explanation="Kubernetes counts in 64 bits and wraps around beyond 9223372036854775807 without an error: 10E of "
    "something "
    "is 0 to the scheduler.",
    invalid_example="resources:\n  limits:\n    example.com/tokens: 10E",
    valid_example="resources:\n  limits:\n    example.com/tokens: 9E",
)

CODES: tuple[Code, ...] = (
    NAME_MALFORMED,
    NAME_NOT_ALLOWED,
    NAME_NOT_EXTENDED,
    UNREADABLE_QUANTITY,
    NEGATIVE_QUANTITY,
    NOT_AN_INTEGER,
    TOO_LARGE,
    *resource_codes.RESOURCE_CODES,
    *lenient_codes.CODES,
)
