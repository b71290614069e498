"""The selections of policies: namespaces, objects and users; and the amounts and labels that several kinds write."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from tallygate.accounting.quantity import Quantity
from tallygate.policy.written import UNIQUE, Written

WrittenQuantity = Annotated[
    Quantity,
    Meta(
        description="A Kubernetes quantity, not negative: 8, 1500m, 64Gi, 1e3. Read exactly as written.",
        examples=[8, "64Gi", "1500m"],
        extra_json_schema={
            "type": ["number", "string"],
            "format": "quantity",
            "pattern": "^[+]?[0-9.]+([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]+)?$",
            "minimum": 0,
            "maxLength": 64,
        },
    ),
]
QuantityItem = Annotated[WrittenQuantity, Meta(title="Quantity")]
Limits = Annotated[
    Mapping[str, QuantityItem],
    Meta(
        description="Counted names with the largest amount of each: resources ('nvidia.com/gpu', or 'requests.cpu', "
        "the same as 'cpu'), their limits ('limits.memory'; a pod without that limit is denied), and 'pods'.",
        min_length=1,
        max_length=100,
        examples=[{"nvidia.com/gpu": 8, "requests.cpu": "32", "limits.memory": "64Gi", "pods": 50}],
        extra_json_schema={"propertyNames": {"format": "counted-name"}},
    ),
]
"""Amounts by counted name; the prefix `requests.` is removed."""

LabelKey = Annotated[str, Meta(extra_json_schema={"format": "label-key"})]
LabelValue = Annotated[str, Meta(title="Label value", extra_json_schema={"format": "label-value"})]
Labels = Annotated[
    Mapping[
        str,
        Annotated[
            LabelValue,
            Meta(
                description="The value, a text: put numbers, and words that YAML may parse as another type, in quotes.",
                examples=["vision", "yes", "1"],
            ),
        ],
    ],
    Meta(
        description="Label keys with the values they must have.",
        max_length=100,
        examples=[{"team": "vision"}],
        extra_json_schema={"propertyNames": {"format": "label-key"}},
    ),
]
_NamespacePattern = Annotated[
    str,
    Meta(
        title="Namespace pattern",
        description="The name of a namespace or a glob: '*' matches any run of characters, '?' one.",
        max_length=63,
        examples=["team-*"],
        extra_json_schema={"format": "name-pattern", "pattern": "^[a-z0-9*?-]+$"},
    ),
]
NamespacePatterns = Annotated[
    tuple[_NamespacePattern, ...], Meta(min_length=1, max_length=1000, extra_json_schema=UNIQUE)
]
_SubjectPattern = Annotated[str, Meta(max_length=253, extra_json_schema={"format": "subject-pattern"})]


class Operator(StrEnum):
    """The operators of a label selector (apimachinery metav1.LabelSelectorOperator)."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class LabelRequirement(Written, frozen=True):
    """One entry of `matchExpressions`."""

    key: Annotated[LabelKey, Meta(examples=["team", "example.com/tier"])]
    """The label key."""
    operator: Annotated[Operator, Meta(examples=["In"])]
    """In and NotIn need values, Exists and DoesNotExist have none."""
    values: Annotated[
        frozenset[Annotated[LabelValue, Meta(description="A value, a text.", examples=["vision"])]],
        Meta(max_length=1000, examples=[["vision", "speech"]]),
    ] = frozenset()
    """The values for In and NotIn."""


class PolicyLabelSelector(Written, frozen=True):
    """A Kubernetes label selector; an empty one matches everything."""

    match_labels: Labels = msgspec.field(default_factory=dict)
    """Labels that must exist with exactly these values."""
    match_expressions: Annotated[
        tuple[
            Annotated[
                LabelRequirement,
                Meta(
                    title="Requirement",
                    description="A requirement on one label key. NotIn and DoesNotExist also match if the key is "
                    "missing.",
                    examples=[{"key": "team", "operator": "In", "values": ["vision", "speech"]}],
                    extra_json_schema={
                        "allOf": [
                            {
                                "if": {"properties": {"operator": {"enum": ["In", "NotIn"]}}, "required": ["operator"]},
                                "then": {"required": ["values"], "properties": {"values": {"minItems": 1}}},
                            },
                            {
                                "if": {
                                    "properties": {"operator": {"enum": ["Exists", "DoesNotExist"]}},
                                    "required": ["operator"],
                                },
                                "then": {"properties": {"values": {"maxItems": 0}}},
                            },
                        ]
                    },
                ),
            ],
            ...,
        ],
        Meta(max_length=100, examples=[[{"key": "team", "operator": "Exists"}]]),
    ] = ()
    """Requirements on single label keys; all must match."""


LABEL_SELECTOR = Meta(
    description="A label selector of Kubernetes: all of matchLabels and all of matchExpressions must match; an "
    "empty one selects everything.",
    examples=[{"matchLabels": {"team": "vision"}}],
    extra_json_schema={"written": {"default": {}}},
)


class NamespaceSelector(Written, frozen=True):
    """A selection of namespaces: a name in one of `include` (empty: all) and none of `exclude`, and matching labels.

    `include` and `exclude` are globs.
    """

    include: Annotated[NamespacePatterns, Meta(examples=[["team-*"]])] = ()
    """Names or globs; left out: all."""
    exclude: Annotated[NamespacePatterns, Meta(examples=[["kube-*", "team-infra"]])] = ()
    """Names or globs of excluded namespaces; left out: none."""
    selector: Annotated[PolicyLabelSelector | None, LABEL_SELECTOR] = None
    """The namespace's labels. While the gate does not know them, a rule that needs them is reported as not evaluated,
    and a pod that a cap with this selector may count gets no decision (HTTP 500)."""


NAMESPACES = Meta(
    examples=[{"include": ["team-*"], "selector": {"matchLabels": {"gpu": "yes"}}}],
    extra_json_schema={"written": {"default": {}}},
)


class Subjects(Written, frozen=True):
    """A selection of users: any of these users, groups, or service accounts (`namespace/name`), all of them globs."""

    users: Annotated[
        tuple[
            Annotated[
                _SubjectPattern,
                Meta(title="User", description="A user name or glob.", examples=["alice@example.com", "system:node:*"]),
            ],
            ...,
        ],
        Meta(max_length=1000, examples=[["alice@example.com"]], extra_json_schema=UNIQUE),
    ] = ()
    """User names or globs."""
    groups: Annotated[
        tuple[
            Annotated[
                _SubjectPattern,
                Meta(title="Group", description="A group name or glob.", examples=["system:nodes", "platform-admins"]),
            ],
            ...,
        ],
        Meta(max_length=1000, examples=[["system:nodes"]], extra_json_schema=UNIQUE),
    ] = ()
    """Group names or globs."""
    service_accounts: Annotated[
        tuple[
            Annotated[
                str,
                Meta(
                    title="Service account",
                    description="namespace/name, globs.",
                    max_length=317,
                    examples=["ci/deployer", "kube-system/*"],
                    extra_json_schema={"format": "service-account-pattern", "pattern": "^[a-z0-9*?-]+/[a-z0-9.*?-]+$"},
                ),
            ],
            ...,
        ],
        Meta(max_length=1000, examples=[["ci/deployer"]], extra_json_schema=UNIQUE),
    ] = ()
    """Service accounts as namespace/name; both halves may be globs."""


SUBJECTS = Meta(
    examples=[{"groups": ["platform-admins"], "serviceAccounts": ["ci/deployer"]}],
    extra_json_schema={"written": {"default": {}}},
)
