"""Reviews that are sent as the API server sends them, and their recorded responses."""

import json
from pathlib import Path
from typing import Any

import httpx

CASES = Path(__file__).parent / "cases"
ANSWERS = Path(__file__).parent / "answers"
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, */*"}


def list_reviews() -> list[str]:
    """Return the names of all reviews, in the order in which they were sent."""
    return sorted(path.stem for path in CASES.glob("*.json"))


def send(client: httpx.Client, name: str) -> dict[str, Any]:
    """Post a review to the endpoint of its phase and return the whole response.

    The patch stays encoded as the server sends it.
    """
    phase = name.split("-")[1]
    reply = client.post(f"/v1/admit/{phase}?timeout=5s", content=(CASES / f"{name}.json").read_bytes(), headers=HEADERS)
    assert reply.status_code == 200, reply.text
    assert reply.headers["Content-Type"] == "application/json"
    answer: dict[str, Any] = reply.json()
    return answer


def read_answer(name: str) -> dict[str, Any]:
    """Return the recorded response of a review."""
    answer: dict[str, Any] = json.loads((ANSWERS / f"{name}.json").read_text())
    return answer


def write_answer(name: str, answer: dict[str, Any]) -> None:
    """Record the response to a review."""
    (ANSWERS / f"{name}.json").write_text(json.dumps(answer, indent=2) + "\n")
