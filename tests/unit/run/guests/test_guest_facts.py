"""Facts of guests: those of the image are read once, the others of each machine."""

import json
from pathlib import Path
from typing import Any

from tests.fake_agent.agent import FakeAgent, FakeHost

from iolab.agent.client import Agent
from iolab.image.cache import Cache
from iolab.run.guests.guests import GuestFacts


class Asked(FakeAgent):
    """An agent that records requested facts, and reports features as given."""

    def __init__(self, features: dict[str, bool | None]) -> None:
        super().__init__(FakeHost())
        self.asked: list[dict[str, Any]] = []
        self._found = features

    def _facts(self, params: dict[str, Any]) -> Any:
        self.asked.append(params)
        wanted = params.get("features", True)
        programs = {name: f"{name} 1" for name in params["programs"]}
        return {**super()._facts(params), "programs": programs, "features": self._found if wanted else {}}


def read(facts: GuestFacts, image: str, **features: bool | None) -> tuple[Any, dict[str, Any]]:
    """Return the facts of a guest, and the requested ones."""
    transport = Asked(features)
    with Agent(transport) as agent:
        found = facts.read(agent, image)
    (asked,) = transport.asked
    return found, asked


def test_image_facts_are_read_from_the_first_guest_only(tmp_path: Path) -> None:
    """Read programs and features per image, settings and machine facts per guest."""
    facts = GuestFacts(Cache(tmp_path))
    first, asked_first = read(facts, "a", fq=True)
    second, asked_second = read(facts, "a", fq=False)
    assert (first["features"], first["programs"]) == (second["features"], second["programs"])
    assert first["features"] == {"fq": True}
    assert len(asked_first["programs"]) > 10
    assert (asked_second["programs"], asked_second["features"]) == ([], False)
    assert asked_first["settings"] == asked_second["settings"]
    other, _ = read(facts, "b", fq=False)
    assert other["features"] == {"fq": False}


def test_feature_that_could_not_be_probed_is_probed_in_the_next_guest(tmp_path: Path) -> None:
    """Store nothing of a guest that had no CPU time for it, or of an unknown image."""
    facts = GuestFacts(Cache(tmp_path))
    assert read(facts, "a", fq=None)[0]["features"] == {"fq": None}
    assert read(facts, "a", fq=True)[0]["features"] == {"fq": True}
    assert read(facts, "", fq=True)[1].get("features", True)
    assert read(facts, "", fq=True)[1].get("features", True)


def test_image_facts_are_kept_with_the_image(tmp_path: Path) -> None:
    """Store them next to the image; read them again if an older iolab stored fewer programs."""
    cache = Cache(tmp_path)
    (cache.images / "a").mkdir(parents=True)
    kept = cache.images / "a" / "facts.json"
    kept.write_text(json.dumps({"features": {"fq": True}, "programs": {"ip": "ip 1"}}))
    assert read(GuestFacts(cache), "a", fq=False)[0]["features"] == {"fq": False}
    known, _ = read(GuestFacts(cache), "b", fq=True)
    kept.write_text(json.dumps({name: known[name] for name in ("features", "programs")}))
    assert read(GuestFacts(cache), "a", fq=False)[1]["features"] is False
    kept.write_text("torn {")
    assert read(GuestFacts(cache), "a", fq=False)[0]["features"] == {"fq": False}
