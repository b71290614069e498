"""Conditions on objects of other projects: the names of resources in the text of an object, wherever its pods are.

Their kinds have pods at many paths and in many forms (`policy.workload_kinds`), and their fields may have any type when
a webhook is asked, so that a path could not be followed without errors. So the fields with the pods are written as one
text, which never fails: `'%s'.format` of cel-go writes maps as `{"key":value, "key":value}`, each text with quotes and
escapes (ext/formatting.go, v0.17 to v0.29). A name of a policy has no character that is escaped.

A mapping of requests, limits or overhead is *plain* if it has names of Kubernetes alone. A text in which each such
mapping is plain requests nothing else: but for the GPUs of a Spark pod, which have their name in a field, and for the
patch of a pod of Argo, which is a text in the text, with escapes of its own.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from tallygate.accounting.gpu_annotations import CONTAINER_MEMORY_PREFIX, KEYS
from tallygate.admission.cel_texts import FALSE, TRUE, join_all, join_any, quote
from tallygate.policy.globs import WILDCARDS, is_literal
from tallygate.policy.matching import FAMILY_PATTERNS

NATIVE_NAMES: Final = ("cpu", "memory", "ephemeral-storage", "pods", "storage")
"""The names of Kubernetes itself; hugepages and attachable volumes have rare ones, which are none here."""

MAX_TEXT: Final = 20_000
"""The number of characters above which an object passes: those of its fields with pods, of an update both versions."""

PATCHES: Final = "s.contains('podSpecPatch')"
"""The test of patches of pods in Argo, whose texts may escape a name."""
CLAIMS: Final = "s.contains('resourceClaim')"
"""The test of claims of pods, which have a name or that of a template, in all forms."""
GPU_ANNOTATIONS: Final = join_any(f"s.contains({quote(key)})" for key in (*sorted(KEYS), CONTAINER_MEMORY_PREFIX))
"""The test of annotations that request parts of GPUs."""

_AMOUNTS = ("requests", "limits", "overhead")
_ENTRY = f'"({"|".join(NATIVE_NAMES)})":("[^"]*"|[-+.0-9a-zA-Z]*)'
_PLAIN = f'"({"|".join(_AMOUNTS)})":[{{]({_ENTRY}(, {_ENTRY})*)?[}}]'
_COUNT = " + ".join(f"s.split('\"{name}\":').size()" for name in _AMOUNTS)
_HAS_OTHERS = f"(s.contains('\"gpu\":') || s.findAll('{_PLAIN}').size() + {len(_AMOUNTS)} != {_COUNT})"
_UNESCAPED = re.compile(r"[-A-Za-z0-9._/]+", re.ASCII)
_CONTAINED = re.compile(r"\.contains\('([^']*)'\)")
_WILDCARDS = re.compile(f"[{re.escape(''.join(WILDCARDS))}]")


def create_name_tests(patterns: Iterable[str]) -> tuple[str, ...]:
    """Return tests of the text `s` of which one is true if it has a name that one of these patterns matches."""
    return tuple(dict.fromkeys(_create_name_test(pattern) for pattern in patterns if not pattern.startswith("!")))


def _create_name_test(pattern: str) -> str:
    """Return the test of a name, or of the longest text in all names that a glob matches."""
    piece = max(_WILDCARDS.split(pattern), key=len)
    if pattern in FAMILY_PATTERNS or not _UNESCAPED.fullmatch(piece):
        return TRUE
    text = f'"{piece}"' if is_literal(pattern) else piece
    return f"s.contains({quote(text)})"


def create_text_condition(selections: Sequence[str], scope: str, texts: Iterable[str], names: str) -> str:
    """Return the condition of the fields that these selections of an object in a scope have.

    It is true if one of the tests `texts` of the text `s` is, or the test `names` and a name is not one of Kubernetes.
    """
    test = join_any((*texts, join_all((names, _HAS_OTHERS))))
    if test == FALSE:
        return FALSE
    fields = [f"object{selection}.orValue(null)" for selection in selections]
    fields += [f"request.operation == 'UPDATE' ? oldObject{selection}.orValue(null) : null" for selection in selections]
    text = f"'%s'.format([[{', '.join(fields)}]])"
    return join_all((scope, f"[{text}].exists(s, s.size() > {MAX_TEXT} || {test})"))


def estimate_text_cost(condition: str) -> int:
    """Return the most that the tests of a text cost, in which each character is compared with each of the test.

    Both cost a tenth, and a pattern a quarter (interpreter/runtimecost.go in cel-go, v0.26).
    """
    in_tests = sum(-(-len(text) // 10) for text in _CONTAINED.findall(condition))
    in_patterns = condition.count(_PLAIN) * (len(_PLAIN) // 4 + 10 * len(_AMOUNTS))
    return (in_tests + in_patterns) * MAX_TEXT // 10
