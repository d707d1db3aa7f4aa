"""Which path frames take where the file leaves it open, and what the agent is asked to send."""

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
    """Return a histogram of frames that are all so late."""
    bucket = ns if ns < 256 else ns >> (ns.bit_length() - 8) << (ns.bit_length() - 8)
    return {"count": 9, "sum": 9 * ns, "min": ns, "max": ns, "above": 0, "buckets": [[bucket, 9]]}


def chosen(live_fps: float, live_late_ns: int, max_burst: int, usual_late_ns: int = 900) -> Choice:
    """Return what is chosen where AF_XDP sends 1 Mpps."""

    def send(path: str, fps: float, duration_ns: int) -> Sent:
        ceiling = {"af_xdp": 1e6, "bpf_live": live_fps}[path]
        return Sent(min(fps, ceiling), 9, late({"af_xdp": usual_late_ns, "bpf_live": live_late_ns}[path]))

    return compare(send, max_burst)


def test_live_frames_are_taken_where_more_leave_as_evenly_as_asked() -> None:
    """At 500 kpps 64 frames that leave together are at most 126 us late."""
    found = chosen(4e6, 60_000, max_burst=64)
    assert found.path == "bpf_live"
    assert "AF_XDP reaches 1000000 frames/s and BPF live frames reach 4000000" in in_words(found.reasons)
    assert "`max_burst: 64` allows 126 µs" in in_words(found.reasons)
    assert [one.late_p90_ns for one in found.tried] == [900, 60_000]


@pytest.mark.parametrize(
    ("live_fps", "live_late_ns", "max_burst"),
    [(4e6, 6000, 1), (4e6, 140_000, 64), (1.04e6, 100, 64), (0.0, 0, 64)],
)
def test_af_xdp_is_kept_where_live_frames_are_less_even_or_not_faster(
    live_fps: float, live_late_ns: int, max_burst: int
) -> None:
    """Each frame by itself, later than the burst takes, hardly more, and a far end where they vanish."""
    assert chosen(live_fps, live_late_ns, max_burst).path == "af_xdp"


def test_a_path_that_does_not_work_is_told_with_its_reason() -> None:
    """No right to load a program, for example."""

    def send(path: str, fps: float, duration_ns: int) -> Sent:
        if path == "bpf_live":
            raise TrialFailed("opening port 'p0': not permitted")
        return Sent(1e6, 9, late(900))

    found = compare(send, 64)
    assert found.path == "af_xdp"
    assert "failed on this host: opening port 'p0': not permitted" in in_words(found.reasons)


def test_live_frames_that_vanish_are_not_taken() -> None:
    """The far end has no NAPI: the interface counts what nobody gets."""

    def send(path: str, fps: float, duration_ns: int) -> Sent:
        return Sent(min(fps, {"af_xdp": 1e6, "bpf_live": 9e6}[path]), 9 if path == "af_xdp" else 0, late(100))

    found = compare(send, 64)
    assert (found.path, "are lost in transit" in in_words(found.reasons)) == ("af_xdp", True)


def test_one_comparison_is_made_for_all_trials_on_the_same_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its loads are sent once; the measure then has its path."""
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
    """A host on which single frames are 900 ns late by AF_XDP, at half of its 1 Mpps."""
    fps = {"af_xdp": {64: 1e6}, "bpf_live": {64: 4e6}}
    return Calibration(generator_fps=fps, receiver_fps={}, alone=Alone(5e5, 900, live_late_ns))


@pytest.mark.parametrize("live_late_ns", [9000, None])
def test_single_frames_that_live_frames_send_later_stay_with_af_xdp_and_nothing_is_sent(
    monkeypatch: pytest.MonkeyPatch, live_late_ns: int | None
) -> None:
    """The calibration of the host says so, and the report says by which figures."""
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


def test_single_frames_are_compared_on_the_ports_where_the_calibration_finds_live_frames_as_even(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What holds on the bare pair is seen on the ports of the trial before it is taken."""
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


def test_nothing_is_compared_where_the_load_is_known_or_the_path_is_said() -> None:
    """A latency measure at 1 kpps never floods the device."""

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


def test_the_ceiling_of_several_senders_is_that_of_one_as_often() -> None:
    """A search may ask for as much, and the generator is the limit there; live frames have one sender."""
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
def test_a_sender_is_told_of_the_line_that_gap_frames_keep_full(
    keys: dict[str, object], line: dict[str, int] | None
) -> None:
    """Of no line where the clock spaces frames, even if a line bounds the loads."""
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
    """Return what the agent is asked for of the frames of a measure."""
    measure = Latency.model_validate({"kind": "latency", "rate": "10kpps"} | ENDS | keys)
    made = lab()
    directions = ways(made, make_topology(made), measure)
    macs = {way.name: "02:00:00:00:00:02" for way in directions}
    asked = run_params(measure, made, directions, macs, fps=10_000, duration_ns=10**9, number=1)
    found: dict[str, Json] = asked["senders"][0]["frames"]
    return found


def test_usual_frames_are_what_the_agent_sends_without_being_asked() -> None:
    """An agent of before the other headers takes them."""
    assert not {"transport", "tunnel", "payload", "flow_order"} & frames().keys()


def test_headers_and_payload_are_what_the_file_says() -> None:
    """Around the packets of the flows stands a tunnel between the ends."""
    rules = {"order": "random", "seed": 4}
    asked = frames(
        protocol="tcp", tunnel="vxlan", vni=9, payload="0xab", frame_size=128, flow_rules=rules, flows=8
    )
    assert asked["transport"] == "tcp"
    assert asked["tunnel"] == {"kind": "vxlan", "source": "198.18.0.1", "destination": "198.18.0.3", "vni": 9}
    assert asked["payload"] == {"kind": "bytes", "hex": "ab"}
    assert asked["flow_order"] == {"kind": "seeded", "seed": 4}


@pytest.mark.parametrize(("spacing", "longest"), [("clock", 64), ("gap-frames", 1518)])
def test_a_port_has_room_for_the_frames_between_its_frames(spacing: str, longest: int) -> None:
    """Gap frames are up to 1518 B long, however short those are that they space."""
    measure = Latency.model_validate(
        {"kind": "latency", "rate": "10kpps", "line_rate": "1Gbit", "spacing": spacing} | ENDS
    )
    made = lab()
    directions = ways(made, make_topology(made), measure)
    ports = open_params(measure, directions, place(directions, (0, 1)))["ports"]
    assert isinstance(ports, list)
    assert {one["frame_bytes"] for one in ports if isinstance(one, dict)} == {longest}
