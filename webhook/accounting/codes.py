"""TG0xx: problems that Kubernetes finds itself, or that it should have found."""

from webhook.accounting import lenient_codes, resource_codes
from webhook.accounting.problem import Code

NAME_MALFORMED = Code(
    number="TG001",
    slug="name-malformed",
    what="A resource name is not a qualified name.",
    why="Resource names are label keys: an optional lower-case DNS domain and a slash, then up to 63 letters, digits, "
    "'-', '_' and '.', with a letter or digit at both ends. Kubernetes can store and count nothing else.",
    fails="resources:\n  limits:\n    Example.com/my gpu: 1",
    passes="resources:\n  limits:\n    example.com/my-gpu: 1",
)
NAME_NOT_ALLOWED = Code(
    number="TG002",
    slug="name-not-allowed",
    what="A resource name is not one that may stand here.",
    why="Names without a domain belong to Kubernetes, which knows a fixed set of them for containers, pods and quotas. "
    "Resources of your own need a domain.",
    fails="resources:\n  limits:\n    gpu: 1",
    passes="resources:\n  limits:\n    nvidia.com/gpu: 1",
)
NAME_NOT_EXTENDED = Code(
    number="TG003",
    slug="name-not-extended",
    what="A name with a domain is no extended resource.",
    why="An extended resource must still be a qualified name when a quota puts `requests.` before it. So it cannot "
    "begin with `requests.` itself, and its domain has 244 bytes at most.",
    fails="resources:\n  limits:\n    requests.nvidia.com/gpu: 1",
    passes="resources:\n  limits:\n    nvidia.com/gpu: 1",
)
UNREADABLE_QUANTITY = Code(
    number="TG004",
    slug="unreadable-quantity",
    what="A value is not a quantity.",
    why="A quantity is a number with an optional suffix: n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent. Blanks, "
    "thousands separators, and suffixes like K, KB or GiB are none.",
    fails="resources:\n  limits:\n    memory: 1GB",
    passes="resources:\n  limits:\n    memory: 1G",
)
NEGATIVE_QUANTITY = Code(
    number="TG005",
    slug="negative-quantity",
    what="A quantity is below zero.",
    why="Nothing can be asked for, held or allowed in a negative amount.",
    fails='resources:\n  limits:\n    nvidia.com/gpu: "-1"',
    passes="resources:\n  limits:\n    nvidia.com/gpu: 1",
)
NOT_AN_INTEGER = Code(
    number="TG006",
    slug="not-an-integer",
    what="A resource that is counted in whole units has a fraction.",
    why="Extended resources and object counts are whole things to Kubernetes: after rounding up to thousandths, the "
    "quantity must be an integer. 3, 3000m and 3Ki are; 0.5 and 1500m are not.",
    fails="resources:\n  limits:\n    nvidia.com/gpu: 1500m",
    passes="resources:\n  limits:\n    nvidia.com/gpu: 2",
)
TOO_LARGE = Code(
    number="TG007",
    slug="too-large",
    what="A quantity is larger than Kubernetes can hold.",
    why="Kubernetes counts in 64 bits and wraps around beyond 9223372036854775807 without an error: 10E of something "
    "is 0 to the scheduler.",
    fails="resources:\n  limits:\n    example.com/tokens: 10E",
    passes="resources:\n  limits:\n    example.com/tokens: 9E",
)

CODES: tuple[Code, ...] = (
    NAME_MALFORMED,
    NAME_NOT_ALLOWED,
    NAME_NOT_EXTENDED,
    UNREADABLE_QUANTITY,
    NEGATIVE_QUANTITY,
    NOT_AN_INTEGER,
    TOO_LARGE,
    *resource_codes.CODES,
    *lenient_codes.CODES,
)
