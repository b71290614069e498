"""Formats: checks of texts that the JSON Schema cannot express, and their messages.

Each format is a function that raises a `FormatError` and is independent of files, positions and kinds. Formats apply to
texts only: the schema checks the type of a value.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from jsonschema import FormatChecker

from tallygate.accounting.name_rules import NameContext, find_advertised_name_problems, find_name_problems
from tallygate.accounting.names import (
    DEVICE_CLASS_PREFIX,
    DEVICES_SUFFIX,
    LIMITS_PREFIX,
    REQUESTS_PREFIX,
    find_qualified_name_errors,
)
from tallygate.accounting.percent import Percent, PercentError
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.documents.scalars import Number
from tallygate.documents.syntax_tree import truncate_text
from tallygate.errors import TallygateError
from tallygate.policy import policy_codes
from tallygate.policy.periods import PeriodError, parse_period, parse_run_time
from tallygate.policy.suggest import format_resource_suggestion
from tallygate.policy.times import TimeError, parse_end_time
from tallygate.policy.workload_kinds import MAX_COUNT, FieldPath, PathError

PODS_RESOURCE = "pods"
"""The counted name that is not a resource."""

MAX_WEIGHT = 1_000_000
"""The largest weight of a resource: amounts stay readable."""

_DOT_FIRST = re.compile(r"(?:^|/)\.")
_WEIGHT = re.compile(r"[0-9]{1,9}")
_NAME_PATTERN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_CAPACITY_NAME = re.compile(r"(?:[a-z0-9](?:[-a-z0-9.]{0,61}[a-z0-9])?/)?[A-Za-z_][A-Za-z0-9_]{0,31}")
_RESOURCE_GLOB = re.compile(r"[A-Za-z0-9._/*?-]+")
_CLASS_GLOB = re.compile(r"!?[a-z0-9.*?-]+")
_LABEL_GLOB = re.compile(r"[A-Za-z0-9._*?-]+")
_NAME_GLOB = re.compile(r"[a-z0-9*?-]+")
_ACCOUNT_GLOB = re.compile(r"[a-z0-9*?-]+/[a-z0-9.*?-]+")
_NUMBER = re.compile(r"\+?[0-9]{1,18}(?:\.[0-9]{1,9})?")
_HAS_DIGIT = re.compile(r"[-+]?\.?[0-9]")
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_KIND_NAME = re.compile(r"[A-Z][A-Za-z0-9]*")
_PLURAL_NAME = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")
_API_VERSION = re.compile(r"v[1-9][0-9]*(?:(?:alpha|beta)[1-9][0-9]*)?")
_NOUN = re.compile(r"[a-z][a-z -]*")
_POD_COUNT = re.compile(r"[0-9]{1,10}", re.ASCII)
_MAX_LABEL_VALUE_LENGTH = 63
_MAX_QUANTITY_LENGTH = 64
_OBJECT_COUNT_NAMES = frozenset({"services", "secrets", "configmaps", "persistentvolumeclaims", "resourcequotas"})


class FormatError(TallygateError):
    """A text that violates its format; `code` is the code of the finding."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


def quote_text(text: str) -> str:
    """Return the text in quotes, shortened if it is long."""
    shown = truncate_text(text)
    return f'"{shown}"' if shown == text else f'"{shown}" ({len(text):,} characters)'


def check_quantity(text: str) -> None:
    """Check a Kubernetes quantity: with a digit, not negative, within int64."""
    if len(text) > _MAX_QUANTITY_LENGTH:
        raise FormatError(
            policy_codes.BAD_QUANTITY,
            f"{quote_text(text)} is longer than {_MAX_QUANTITY_LENGTH} characters; write it shorter",
        )
    try:
        quantity = Quantity.parse(text)
    except QuantityError as error:
        raise FormatError(
            policy_codes.BAD_QUANTITY, f"{quote_text(text)} is not a quantity: {_explain_quantity_error(text, error)}"
        ) from error
    if not _HAS_DIGIT.match(text):  # Kubernetes reads it as 0, which is never the intention
        raise FormatError(
            policy_codes.BAD_QUANTITY, f"{quote_text(text)} has no digit before its suffix; write one as in 8 or 64Gi"
        )
    if quantity.sign < 0:
        raise FormatError(policy_codes.BAD_QUANTITY, f"{text} is negative; write 0 or more")
    if quantity.is_beyond_int64:
        raise FormatError(policy_codes.BAD_QUANTITY, f"{text} is more than Kubernetes can count (2^63-1); write less")


def check_percent(text: str) -> None:
    """Check a percentage: up to three decimals, as in 12.5%."""
    try:
        Percent.parse(text)
    except PercentError as error:
        raise FormatError(policy_codes.BAD_QUANTITY, f"{quote_text(text)} {error}") from error


def check_limit(text: str) -> None:
    """Check a limit of a cap: a quantity or a percentage."""
    if text.endswith("%"):
        check_percent(text)
    else:
        check_quantity(text)


_SUFFIX_CORRECTIONS = {"": "", "B": "", "K": "k", "G": "G", "T": "T", "KI": "Ki", "MI": "Mi", "GI": "Gi", "TI": "Ti"}
"""Frequent misspellings of suffixes, in capitals and without the `B` of bytes, and the correct suffix."""


def _explain_quantity_error(text: str, error: QuantityError) -> str:
    """Return the Kubernetes message without its regular expression, with a similar valid spelling if one exists."""
    correction = _suggest_quantity(text)
    if correction:
        return f"write {correction}"
    rule, _, regular_expression = str(error).partition(" must match the regular expression ")
    explanation = "a number with at most one suffix is expected" if regular_expression else rule
    return f"{explanation}; write one as in 8, 1500m, 64Gi or 1e3"


def _suggest_quantity(text: str) -> str:
    letters = text.lstrip("-+.0123456789")
    number, unit = text.removesuffix(letters), letters.strip().upper()
    suffix = _SUFFIX_CORRECTIONS.get(unit.removesuffix("B"), unit[:1] if unit == "MB" else None)
    if suffix is None or not _NUMBER.fullmatch(number):
        return ""
    binary = f', or "{number}{unit[0]}i" for powers of 1024' if unit in {"KB", "MB", "GB", "TB"} else ""
    return f'"{number}{suffix}"{binary}'


def check_policy_name(text: str) -> None:
    if not _NAME_PATTERN.fullmatch(text):
        advice = "use lowercase letters, digits, '-' and '.', with a letter or digit at both ends"
        raise FormatError(policy_codes.BAD_NAME, f"{quote_text(text)} is not a name; {advice}{_suggest_name(text)}")


def _suggest_name(text: str) -> str:
    suggestion = re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")
    return f', as in "{suggestion}"' if _NAME_PATTERN.fullmatch(suggestion) else ""


def check_resource_pattern(text: str) -> None:
    """Check a glob over resource names, the name of a family, or `!` before one of these."""
    glob = text.removeprefix("!")
    if not glob:
        raise FormatError(policy_codes.BAD_PATTERN, f"{quote_text(text)} names nothing; write a resource name or glob")
    if _DOT_FIRST.search(glob):
        suggestion = text.replace(".*", "*")
        advice = f'; this is a glob and no regular expression: write "{suggestion}"' if ".*" in glob else ""
        raise FormatError(
            policy_codes.BAD_PATTERN,
            f"{quote_text(text)} can match no name: no part of a name begins with a dot{advice}",
        )
    _check_glob(_RESOURCE_GLOB, text, glob, "letters, digits, '-', '_', '.' and '/'", "nvidia.com/*")


def check_name_pattern(text: str) -> None:
    """Check a glob over namespace names."""
    if text.startswith("!"):
        raise FormatError(
            policy_codes.BAD_PATTERN, f'{quote_text(text)}: "!" is for resources; put the name under exclude instead'
        )
    _check_glob(_NAME_GLOB, text, text, "lowercase letters, digits and '-'", "team-*")


def check_label_value_pattern(text: str) -> None:
    """Check a glob over the values of a label."""
    if text.startswith("!"):
        raise FormatError(
            policy_codes.BAD_PATTERN, f'{quote_text(text)}: "!" is for resources; name the groups that are meant'
        )
    _check_glob(_LABEL_GLOB, text, text, "letters, digits, '-', '_' and '.'", "vision")


def check_class_pattern(text: str) -> None:
    """Check a glob over names of DeviceClasses, or `!` before one."""
    if DEVICES_SUFFIX in text or DEVICE_CLASS_PREFIX in text:
        suggestion = text.replace(DEVICES_SUFFIX, "").replace(DEVICE_CLASS_PREFIX, "") or "gpu.example.com"
        raise FormatError(
            policy_codes.BAD_PATTERN, f'{quote_text(text)}: write the name of the class alone: "{suggestion}"'
        )
    _check_glob(_CLASS_GLOB, text, text, "lowercase letters, digits, '-' and '.'", "gpu.example.com")


def check_account_pattern(text: str) -> None:
    """Check a glob over service accounts."""
    if text.startswith("system:serviceaccount:"):
        suggestion = text.removeprefix("system:serviceaccount:").replace(":", "/")
        raise FormatError(
            policy_codes.BAD_PATTERN, f'{quote_text(text)}: write a service account as namespace/name: "{suggestion}"'
        )
    if text.count("/") != 1:
        raise FormatError(
            policy_codes.BAD_PATTERN, f"{quote_text(text)} is not namespace/name; write it as in ci/deployer or ci/*"
        )
    _check_glob(_ACCOUNT_GLOB, text, text, "lowercase letters, digits, '-' and '.'", "ci/deployer")


def check_subject_pattern(text: str) -> None:
    """Check a glob over user or group names, which may contain nearly any character."""
    if not text.strip() or not text.isprintable():
        raise FormatError(
            policy_codes.BAD_PATTERN, f"{quote_text(text)} is not a name; write a user or group, as in platform-admins"
        )


def _check_glob(pattern: re.Pattern[str], text: str, glob: str, letters: str, example: str) -> None:
    if not pattern.fullmatch(glob):
        advice = f"only {letters} may stand there, and * (any run) and ? (one character) are wild"
        raise FormatError(
            policy_codes.BAD_PATTERN, f"{quote_text(text)} can match no name: {advice}; write it as in {example}"
        )


def check_label_key(text: str) -> None:
    """Check a label or annotation key (apimachinery IsQualifiedName)."""
    errors = find_qualified_name_errors(text)
    if errors:
        advice = (
            "write letters, digits, '-', '_' and '.', with a domain and '/' before it or not, as in example.com/team"
        )
        raise FormatError(
            policy_codes.BAD_LABEL,
            f"{quote_text(text)} is not a label key: {errors[0].partition(' (e.g.')[0]}; {advice}",
        )


def check_label_value(text: str) -> None:
    """Check a label value (apimachinery IsValidLabelValue, v1.36)."""
    if len(text) > _MAX_LABEL_VALUE_LENGTH or not _LABEL_VALUE.fullmatch(text):
        advice = "at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"
        raise FormatError(
            policy_codes.BAD_LABEL,
            f"no object can carry the label value {quote_text(text)}; write {advice}, or nothing",
        )


def check_object_name(text: str) -> None:
    """Check the name of an object such as a PriorityClass."""
    if not _NAME_PATTERN.fullmatch(text):
        raise FormatError(
            policy_codes.BAD_NAME, f"no object can be called {quote_text(text)}; write its name, without globs"
        )


def split_counted_name(text: str) -> tuple[str, str]:
    """Return the prefix of a counted name (`requests.`, `limits.` or empty) and the name without it."""
    for prefix in (REQUESTS_PREFIX, LIMITS_PREFIX):
        if text.startswith(prefix):
            return prefix, text.removeprefix(prefix)
    return "", text


def check_counted_name(text: str) -> None:
    prefix, name = split_counted_name(text)
    if name == PODS_RESOURCE:
        if prefix:
            raise FormatError(
                policy_codes.BAD_COUNTED_NAME,
                f'{quote_text(text)}: pods have neither requests nor limits; write "pods"',
            )
        return
    if "*" in name or "?" in name or name.startswith("!"):
        raise FormatError(
            policy_codes.BAD_COUNTED_NAME,
            f"{quote_text(text)}: a cap counts names, not patterns; write one line per name",
        )
    if name in _OBJECT_COUNT_NAMES or name.startswith("count/") or "storageclass.storage.k8s.io/" in name:
        advice = "caps count the requests of pods; limit objects and storage with a ResourceQuota"
        raise FormatError(policy_codes.BAD_COUNTED_NAME, f"{quote_text(text)} is not counted here: {advice}")
    if problems := find_name_problems(name, NameContext.CONTAINER):
        hint = format_resource_suggestion(name, prefix)
        raise FormatError(
            policy_codes.BAD_COUNTED_NAME, f"no pod can request {quote_text(name)}: {problems[-1].message}{hint}"
        )


def check_allocatable_name(text: str) -> None:
    """Check the name of a resource that a node has."""
    if problems := find_advertised_name_problems(text):
        hint = format_resource_suggestion(text)
        raise FormatError(policy_codes.BAD_NAME, f"no pod can request {quote_text(text)}: {problems[-1].message}{hint}")


def check_capacity_name(text: str) -> None:
    """Check the name of a capacity: an identifier, with a domain before it or not (validateQualifiedName, v1.36)."""
    if not _CAPACITY_NAME.fullmatch(text):
        advice = "write an identifier as in a ResourceSlice, with a domain and '/' before it or not, as in memory"
        raise FormatError(policy_codes.BAD_NAME, f"no capacity can be called {quote_text(text)}; {advice}")


_GROUP_ADVICE = "write a domain, as in batch.example.com"


def check_api_group(text: str) -> None:
    """Check the API group of a custom resource."""
    if not _NAME_PATTERN.fullmatch(text) or "." not in text:
        group = text.partition("/")[0]
        advice = (
            f'write "{group}", since versions have a field of their own'
            if group != text and "." in group
            else _GROUP_ADVICE
        )
        raise FormatError(policy_codes.BAD_NAME, f"no custom resource has the group {quote_text(text)}; {advice}")


def check_kind_name(text: str) -> None:
    if not _KIND_NAME.fullmatch(text):
        advice = "a kind begins with a capital letter and has letters and digits only, as in Pod or GangJob"
        raise FormatError(policy_codes.BAD_NAME, f"{quote_text(text)} is not a kind; {advice}")


def check_plural_name(text: str) -> None:
    """Check the plural of a kind in the paths of its API."""
    if not _PLURAL_NAME.fullmatch(text):
        hint = f'; write "{text.lower()}"' if _PLURAL_NAME.fullmatch(text.lower()) else ""
        raise FormatError(
            policy_codes.BAD_NAME,
            f"{quote_text(text)} is not the plural of a kind: it has lowercase letters, digits and '-'{hint}",
        )


def check_api_version(text: str) -> None:
    """Check the version of an API, without its group."""
    if not _API_VERSION.fullmatch(text):
        last = text.rpartition("/")[2]
        is_version = _API_VERSION.fullmatch(last)
        advice = f'"{last}", since the group has a field of its own' if is_version else "it as in v1 or v1beta1"
        raise FormatError(policy_codes.BAD_NAME, f"{quote_text(text)} is not a version of an API; write {advice}")


def check_noun(text: str) -> None:
    """Check the name of pods in messages."""
    if not _NOUN.fullmatch(text):
        raise FormatError(
            policy_codes.BAD_NAME, f"{quote_text(text)} is not a noun; write lowercase letters, as in workers"
        )


def check_field_path(text: str) -> None:
    try:
        FieldPath.parse(text)
    except PathError as error:
        raise FormatError(
            policy_codes.BAD_PATH, f"{quote_text(text)} is not a path: at character {error.offset + 1}, {error}"
        ) from error


def check_pod_count(text: str) -> None:
    if not _POD_COUNT.fullmatch(text) or int(text) > MAX_COUNT:
        raise FormatError(
            policy_codes.BAD_QUANTITY, f"{quote_text(text)} is not a number of pods; write one from 0 to {MAX_COUNT}"
        )


def check_node_count(text: str) -> None:
    if not _POD_COUNT.fullmatch(text) or not 1 <= int(text) <= MAX_COUNT:
        raise FormatError(
            policy_codes.BAD_QUANTITY, f"{quote_text(text)} is not a number of nodes; write one from 1 on, as in 10"
        )


def check_weight(text: str) -> None:
    if not _WEIGHT.fullmatch(text) or not 1 <= int(text) <= MAX_WEIGHT:
        raise FormatError(
            policy_codes.BAD_QUANTITY,
            f"{quote_text(text)} is not a weight; write a whole number from 1 to {MAX_WEIGHT}",
        )


def check_default_amount(text: str) -> None:
    """Check the default of a factor: a whole number from 1 on."""
    if not _WEIGHT.fullmatch(text) or not 1 <= int(text) <= MAX_WEIGHT:
        message = f"{quote_text(text)} is not a default; write a whole number from 1 to {MAX_WEIGHT}"
        raise FormatError(policy_codes.BAD_QUANTITY, message)


def check_end_time(text: str) -> None:
    """Check the end of an override: a time with its zone, or a date."""
    try:
        parse_end_time(text)
    except TimeError as error:
        raise FormatError(policy_codes.BAD_TIME, f"{quote_text(text)} is not an end: {error}") from error


def check_period(text: str) -> None:
    """Check a period: whole hours, minutes and seconds, up to a day."""
    try:
        parse_period(text)
    except PeriodError as error:
        raise FormatError(policy_codes.BAD_QUANTITY, f"{quote_text(text)} {error}") from error


def check_run_time(text: str) -> None:
    """Check the time that a pod may run: whole hours, minutes and seconds, up to 30 days."""
    try:
        parse_run_time(text)
    except PeriodError as error:
        raise FormatError(policy_codes.BAD_QUANTITY, f"{quote_text(text)} {error}") from error


FORMAT_CHECKS: dict[str, Callable[[str], None]] = {
    "quantity": check_quantity,
    "policy-name": check_policy_name,
    "resource-pattern": check_resource_pattern,
    "name-pattern": check_name_pattern,
    "label-value-pattern": check_label_value_pattern,
    "class-pattern": check_class_pattern,
    "service-account-pattern": check_account_pattern,
    "subject-pattern": check_subject_pattern,
    "label-key": check_label_key,
    "label-value": check_label_value,
    "object-name": check_object_name,
    "counted-name": check_counted_name,
    "capacity-name": check_capacity_name,
    "weight": check_weight,
    "default-amount": check_default_amount,
    "limit": check_limit,
    "percent": check_percent,
    "end-time": check_end_time,
    "period": check_period,
    "run-time": check_run_time,
    "api-group": check_api_group,
    "kind-name": check_kind_name,
    "plural-name": check_plural_name,
    "api-version": check_api_version,
    "noun": check_noun,
    "field-path": check_field_path,
    "pod-count": check_pod_count,
    "allocatable-name": check_allocatable_name,
    "node-count": check_node_count,
}
NUMBER_CHECKS = {
    name: FORMAT_CHECKS[name] for name in ("quantity", "limit", "pod-count", "weight", "default-amount", "node-count")
}


def create_format_checker(
    text_checks: Mapping[str, Callable[[str], None]] = FORMAT_CHECKS,
    number_checks: Mapping[str, Callable[[str], None]] = NUMBER_CHECKS,
) -> FormatChecker:
    """Return a checker with exactly these formats: of texts, and of numbers, which are checked as they are written."""
    format_checker = FormatChecker(formats=())
    for name in {**text_checks, **number_checks}:
        is_valid = partial(_is_valid, text_checks.get(name), number_checks.get(name))
        format_checker.checks(name, raises=FormatError)(is_valid)
    return format_checker


def _is_valid(
    check_text: Callable[[str], None] | None, check_number: Callable[[str], None] | None, instance: Any
) -> bool:
    if isinstance(instance, str) and check_text is not None:
        check_text(instance)
    elif isinstance(instance, Number) and check_number is not None:
        check_number(instance.text)
    return True
