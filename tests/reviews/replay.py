"""Sending a review as the API server would, and its answer in the form it is kept in."""

import json
from pathlib import Path
from typing import Any

import httpx

CASES = Path(__file__).parent / "cases"
ANSWERS = Path(__file__).parent / "answers"
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, */*"}


def names() -> list[str]:
    """All reviews, in the order in which they were sent."""
    return sorted(path.stem for path in CASES.glob("*.json"))


def send(client: httpx.Client, name: str) -> dict[str, Any]:
    """Post a review to the endpoint of its phase; the whole answer.

    The patch of a mutating answer is written out, so that a difference can be read.
    """
    phase = name.split("-")[1]
    reply = client.post(f"/v1/admit/{phase}?timeout=5s", content=(CASES / f"{name}.json").read_bytes(), headers=HEADERS)
    assert reply.status_code == 200, reply.text
    assert reply.headers["Content-Type"] == "application/json"
    answer: dict[str, Any] = reply.json()
    return answer


def kept(name: str) -> dict[str, Any]:
    """The answer on disk."""
    answer: dict[str, Any] = json.loads((ANSWERS / f"{name}.json").read_text())
    return answer


def keep(name: str, answer: dict[str, Any]) -> None:
    """Write an answer to disk."""
    (ANSWERS / f"{name}.json").write_text(json.dumps(answer, indent=2) + "\n")
