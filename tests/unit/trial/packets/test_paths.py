"""Choice of the sending path if the file leaves it open, and the requests to the agent."""

from dataclasses import replace

import pytest
from tests.fake_agent.traffic import Passed
from tests.unit.trial.load_trials import ENDS, lab, site
from tests.wording import in_words

from iolab.agent.messages import Json
from iolab.errors import TrialFailed
from iolab.experiment.model.packets import Forwarding, Latency
from iolab.lab.packets.placement import place, ways
from iolab.lab.topology import make_topology
from iolab.results.packets import Choice
from iolab.trial.lab_access import Alone, Calibration
from iolab.trial.packets import paths
from iolab.trial.packets.forwarding import highest_fps
from iolab.trial.packets.paths import ABOVE_ALL_FPS, Sent, choice_of, compare, may_choose, settled
from iolab.trial.packets.requests import open_params, run_params


def late(ns: int) -> Json:
    """Return a histogram of equally late frames."""
    bucket = ns if ns < 256 else ns >> (ns.bit_length() - 8) << (ns.bit_length() - 8)
    return {"count": 9, "sum": 9 * ns, "min": ns, "max": ns, "above": 0, "buckets": [[bucket, 9]]}


def chosen(live_fps: float, live_late_ns: int, max_burst: int, usual_late_ns: int = 900) -> Choice:
    """Return the choice if AF_XDP sends 1 Mpps."""

    def send(path: str, fps: float, duration_ns: int) -> Sent:
        ceiling = {"af_xdp": 1e6, "bpf_live": live_fps}[path]
        return Sent(min(fps, ceiling), 9, late({"af_xdp": usual_late_ns, "bpf_live": live_late_ns}[path]))

    return compare(send, max_burst)


def test_bpf_live_is_chosen_if_it_sends_more_frames_and_bursts_are_allowed() -> None:
    """Allow 126 us for 64 frames per burst at 500 kpps."""
    found = chosen(4e6, 60_000, max_burst=64)
    assert found.path == "bpf_live"
    assert "AF_XDP reaches 1000000 frames/s and BPF live frames reach 4000000" in in_words(found.reasons)
    assert "`max_burst: 64` allows 126 µs" in in_words(found.reasons)
    assert [one.late_p90_ns for one in found.tried] == [900, 60_000]


@pytest.mark.parametrize(
    ("live_fps", "live_late_ns", "max_burst"),
    [(4e6, 6000, 1), (4e6, 140_000, 64), (1.04e6, 100, 64), (0.0, 0, 64)],
)
def test_af_xdp_is_kept_if_bpf_live_is_not_faster_or_spaces_frames_less_evenly(
    live_fps: float, live_late_ns: int, max_burst: int
) -> None:
    """Check single frames, excessive lateness, a small gain, and a far end that loses them."""
    assert chosen(live_fps, live_late_ns, max_burst).path == "af_xdp"


def test_failed_path_is_reported_with_its_reason() -> None:
    """Check a missing permission to load a program."""

    def send(path: str, fps: float, duration_ns: int) -> Sent:
        if path == "bpf_live":
            raise TrialFailed("opening port 'p0': not permitted")
        return Sent(1e6, 9, late(900))

    found = compare(send, 64)
    assert found.path == "af_xdp"
    assert "failed on this host: opening port 'p0': not permitted" in in_words(found.reasons)


def test_bpf_live_is_not_chosen_if_its_frames_are_lost_in_transit() -> None:
    """Compare interface counters of a far end without NAPI."""

    def send(path: str, fps: float, duration_ns: int) -> Sent:
        return Sent(min(fps, {"af_xdp": 1e6, "bpf_live": 9e6}[path]), 9 if path == "af_xdp" else 0, late(100))

    found = compare(send, 64)
    assert (found.path, "are lost in transit" in in_words(found.reasons)) == ("af_xdp", True)


def test_path_comparison_is_made_once_for_all_trials_on_the_same_ports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Send its loads once."""
    monkeypatch.setattr(paths, "COPIED", "simulated")
    loads: list[float] = []

    def forwards(fps: float, duration_ns: int) -> Passed:
        loads.append(fps)
        frames = round(min(fps, 2e6) * duration_ns / 1e9)
        return Passed(round(fps * duration_ns / 1e9), frames, frames)

    measure = Forwarding.model_validate({"kind": "forwarding", **ENDS, "max_burst": 64})
    here = replace(site(measure, forwards), choices={})
    for _ in range(2):
        settled(here, measure)
    assert loads == [*ABOVE_ALL_FPS.values(), 1000.0], (
        "what both can send, not faster; then a slow load, whole"
    )
    choice = choice_of(here, measure)
    assert choice is not None
    assert choice.path == "af_xdp"


def one_by_one(live_late_ns: int | None) -> Calibration:
    """Return a host on which single frames are 900 ns late by AF_XDP, at half of its 1 Mpps."""
    fps = {"af_xdp": {64: 1e6}, "bpf_live": {64: 4e6}}
    return Calibration(generator_fps=fps, receiver_fps={}, alone=Alone(5e5, 900, live_late_ns))


@pytest.mark.parametrize("live_late_ns", [9000, None])
def test_paths_are_not_compared_if_the_calibration_favours_af_xdp_for_single_frames(
    monkeypatch: pytest.MonkeyPatch, live_late_ns: int | None
) -> None:
    """Report the figures of the host's calibration, and send nothing."""
    monkeypatch.setattr(paths, "COPIED", "simulated")

    def refuses(fps: float, duration_ns: int) -> Passed:
        raise AssertionError(f"{fps} frames/s were sent")

    measure = Forwarding.model_validate({"kind": "forwarding", **ENDS})
    here = replace(site(measure, refuses), choices={}, calibration=one_by_one(live_late_ns))
    assert settled(here, measure) is measure
    choice = choice_of(here, measure)
    assert choice is not None
    assert choice.path == "af_xdp"
    assert "from this host's calibration" in in_words(choice.reasons)
    assert "AF_XDP reaches 1000000 frames/s and BPF live frames reach 4000000" in in_words(choice.reasons)
    assert [one.late_p90_ns for one in choice.tried] == [900, live_late_ns]


def test_paths_are_compared_on_the_ports_if_both_were_equally_even_in_the_calibration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Check the trial's ports before choosing."""
    monkeypatch.setattr(paths, "COPIED", "simulated")
    loads: list[float] = []

    def forwards(fps: float, duration_ns: int) -> Passed:
        loads.append(fps)
        frames = round(fps * duration_ns / 1e9)
        return Passed(frames, frames, frames)

    measure = Forwarding.model_validate({"kind": "forwarding", **ENDS})
    here = replace(site(measure, forwards), choices={}, calibration=one_by_one(800))
    settled(here, measure)
    assert loads[:2] == list(ABOVE_ALL_FPS.values())


def test_paths_are_not_compared_for_a_known_load_or_a_configured_path() -> None:
    """Prevent a latency measure at 1 kpps from flooding the device."""

    def refuses(fps: float, duration_ns: int) -> Passed:
        raise AssertionError(f"{fps} frames/s were sent")

    known = Latency.model_validate({"kind": "latency", **ENDS, "rate": "1kpps"})
    said = Forwarding.model_validate({"kind": "forwarding", **ENDS, "path": "af_packet"})
    several = Forwarding.model_validate(
        {"kind": "forwarding", **ENDS, "flows": 4, "senders": 2, "max_burst": 64}
    )
    single = Forwarding.model_validate({"kind": "forwarding", **ENDS})
    for measure in (known, said, single):
        assert settled(replace(site(measure, refuses), choices={}), measure) is measure
    here = replace(site(several, refuses), choices={})
    assert here.placement is not None
    here = replace(here, placement=replace(here.placement, further={"tester.p0": (1,)}))
    assert settled(here, several) is several


def test_maximum_rate_of_several_senders_is_a_multiple_of_that_of_one_sender() -> None:
    """Use one sender for live frames."""
    calibrated = Calibration(
        generator_fps={"af_xdp": {64: 1e6}, "bpf_live": {64: 4e6}}, receiver_fps={"af_xdp": 9e5}
    )
    one, three = (calibrated.ceilings("AF_XDP copy", "AF_XDP native copy", 64, n) for n in (1, 3))
    assert (one.generator_fps, one.live_fps, one.receiver_fps) == (1e6, 4e6, 9e5)
    assert (three.generator_fps, three.live_fps, three.receiver_fps) == (3e6, None, 9e5)
    measure = Forwarding.model_validate({"kind": "forwarding", **ENDS, "flows": 3, "senders": 3})
    here = replace(site(measure, lambda fps, ns: Passed(0, 0, 0)), calibration=calibrated)
    assert here.placement is not None
    several = replace(here, placement=replace(here.placement, further={"tester.p0": (1, 2)}))
    assert several.senders == 3
    assert highest_fps(measure, several) == pytest.approx(3 * highest_fps(measure, here))


@pytest.mark.parametrize(("keys", "line"), [({}, None), ({"spacing": "gap-frames"}, {"line_bps": 10**9})])
def test_request_to_a_sender_contains_the_line_rate_only_for_gap_frames(
    keys: dict[str, object], line: dict[str, int] | None
) -> None:
    """Send none with clock spacing, even if a line bounds the loads."""
    measure = Latency.model_validate(
        {"kind": "latency", "rate": "10kpps", "line_rate": "1Gbit"} | ENDS | keys
    )
    made = lab()
    directions = ways(made, make_topology(made), measure)
    macs = {way.name: "02:00:00:00:00:02" for way in directions}
    asked = run_params(measure, made, directions, macs, fps=10_000, duration_ns=10**9, number=1)
    senders = asked["senders"]
    assert isinstance(senders, list)
    assert [one.get("gap_frames") for one in senders if isinstance(one, dict)] == [line]
    assert not (line and may_choose(measure, 1))


def frames(**keys: object) -> dict[str, Json]:
    """Return the agent's request for the frames of a measure."""
    measure = Latency.model_validate({"kind": "latency", "rate": "10kpps"} | ENDS | keys)
    made = lab()
    directions = ways(made, make_topology(made), measure)
    macs = {way.name: "02:00:00:00:00:02" for way in directions}
    asked = run_params(measure, made, directions, macs, fps=10_000, duration_ns=10**9, number=1)
    found: dict[str, Json] = asked["senders"][0]["frames"]
    return found


def test_default_frames_are_requested_without_optional_fields() -> None:
    """Support agents without the newer headers."""
    assert not {"transport", "tunnel", "payload", "flow_order"} & frames().keys()


def test_header_and_payload_settings_are_sent_to_the_agent() -> None:
    """Add a tunnel between the ends around the packets of the flows."""
    rules = {"order": "random", "seed": 4}
    asked = frames(
        protocol="tcp", tunnel="vxlan", vni=9, payload="0xab", frame_size=128, flow_rules=rules, flows=8
    )
    assert asked["transport"] == "tcp"
    assert asked["tunnel"] == {"kind": "vxlan", "source": "198.18.0.1", "destination": "198.18.0.3", "vni": 9}
    assert asked["payload"] == {"kind": "bytes", "hex": "ab"}
    assert asked["flow_order"] == {"kind": "seeded", "seed": 4}


@pytest.mark.parametrize(("spacing", "longest"), [("clock", 64), ("gap-frames", 1518)])
def test_port_buffers_have_room_for_gap_frames(spacing: str, longest: int) -> None:
    """Allow 1518 B between short frames."""
    measure = Latency.model_validate(
        {"kind": "latency", "rate": "10kpps", "line_rate": "1Gbit", "spacing": spacing} | ENDS
    )
    made = lab()
    directions = ways(made, make_topology(made), measure)
    ports = open_params(measure, directions, place(directions, (0, 1)))["ports"]
    assert isinstance(ports, list)
    assert {one["frame_bytes"] for one in ports if isinstance(one, dict)} == {longest}
