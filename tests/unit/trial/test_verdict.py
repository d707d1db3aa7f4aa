"""Verdicts: what limited a trial, from figures that show it, and never a guess."""

from dataclasses import replace

import pytest
from tests.unit.trial.test_balance import RECEIVED, SENT, stall

from iolab.trial.balance import Balance, Drop
from iolab.trial.limits import CpuUse, Limit, Thread
from iolab.trial.search.types import LoadResult
from iolab.trial.site import Calibration, Ceilings
from iolab.trial.stalls import excused_frames, perturbations
from iolab.trial.verdict import judge


def test_frames_due_while_the_host_held_the_sender_up_are_not_the_generators_fault() -> None:
    """40 ms of a second: four frames in a hundred; being slow without a stall is."""
    held = replace(SENT, offered_frames=950, stalls=(stall(40_000_000),))
    assert excused_frames(held) == 40
    assert excused_frames(replace(SENT, offered_frames=990, stalls=(stall(40_000_000),))) == 10
    assert excused_frames(replace(SENT, offered_frames=950)) == 0
    assert excused_frames(replace(SENT, offered_frames=950, stalls=(stall(40_000_000, "no_room"),))) == 0


def test_a_schedule_that_the_host_held_up_for_long_was_no_load_of_its_rate() -> None:
    """Of 600 ms that were lost of a second a tenth is excused: 400 frames are not 1000 in a second."""
    assert excused_frames(replace(SENT, offered_frames=400, stalls=(stall(600_000_000),))) == 100


def result(lost: int = 100, unsent: int = 0, perturbed: tuple[str, ...] = ()) -> LoadResult:
    """Return a trial of 10 000 frames."""
    return LoadResult(
        intended_fps=10_000,
        duration_ns=10**9,
        intended_frames=10_000,
        offered_frames=10_000 - unsent,
        forwarded_frames=10_000 - unsent - lost,
        perturbations=perturbed,
    )


def dropped(place: str, frames: int, unexplained: int = 0) -> list[Balance]:
    """Return a balance with drops at one place."""
    return [Balance("a->b", 10_000, 10_000 - frames, (Drop(place, "ring full", frames),), unexplained)]


HELD_NS = 50_000_000
"""What a disturbed host held threads up for, here [ns]: 500 frames of a trial's 10 000."""
DEVICE = Thread("napi/eth0-1", "device", "dut.eth0", 1, 0.99)
BUSY, CALM = CpuUse(1, 1.0, 0.5, 0.0), CpuUse(1, 0.4, 0.2, 0.0)


@pytest.mark.parametrize(
    ("trial", "sheets", "cpus", "threads", "limit"),
    [
        (result(lost=0), [], [CALM], [], Limit.NONE),
        (result(lost=0, unsent=100), [], [CALM], [], Limit.GENERATOR),
        (result(perturbed=("2 ms of steal",)), dropped("dut.eth0", 100), [CALM], [DEVICE], Limit.HOST),
        (result(), dropped("receiver", 100), [CALM], [DEVICE], Limit.RECEIVER),
        (result(), dropped("dut.eth0", 100), [BUSY], [DEVICE], Limit.THREAD),
        (result(), dropped("dut.eth0", 100), [CALM], [replace(DEVICE, busy_ratio=0.4)], Limit.HOP),
        (result(), dropped("cpu1", 100), [CALM], [DEVICE], Limit.HOP),
        (
            result(),
            dropped("dut.eth0", 100),
            [BUSY],
            [replace(DEVICE, busy_ratio=0.6), Thread("receiver", "receiver", "tester.p1", 1, 0.3)],
            Limit.CPU,
        ),
        (
            result(),
            dropped("dut.eth0", 100),
            [BUSY],
            [replace(DEVICE, busy_ratio=0.2), Thread("receiver", "receiver", "tester.p1", 1, 0.7)],
            Limit.RECEIVER,
        ),
        (result(), dropped("dut.eth0", 20, unexplained=80), [BUSY], [DEVICE], Limit.UNEXPLAINED),
        (result(), [], [BUSY], [DEVICE], Limit.UNEXPLAINED),
    ],
)
def test_the_verdict_is_what_the_figures_show(
    trial: LoadResult, sheets: list[Balance], cpus: list[CpuUse], threads: list[Thread], limit: Limit
) -> None:
    """Each cause with its figures; without any it is unexplained, however busy a CPU was."""
    found = judge(trial, 1e-4, sheets, cpus, threads, held_ns=HELD_NS)
    assert found.limit is limit
    assert any(character.isdigit() for character in found.text)


HELD_UP = ("held up",)


@pytest.mark.parametrize(("held_ms", "limit"), [(50, Limit.HOST), (4, Limit.HOP)])
def test_a_disturbed_host_is_blamed_only_for_what_it_can_have_lost(held_ms: int, limit: Limit) -> None:
    """100 frames of 10 000/s take 10 ms, or 5 when they come in a burst; 4 ms do not explain them."""
    trial = result(perturbed=HELD_UP)
    found = judge(trial, 1e-4, dropped("dut.eth0", 100), [CALM], [], held_ns=held_ms * 1_000_000)
    assert found.limit is limit


@pytest.mark.parametrize(
    ("trial", "sheets", "ceilings", "limit"),
    [
        (result(unsent=500, perturbed=HELD_UP), [], Ceilings(9_000, None), Limit.GENERATOR),
        (result(unsent=500, perturbed=HELD_UP), [], Ceilings(11_000, None), Limit.HOST),
        (result(unsent=5, perturbed=HELD_UP), [], Ceilings(9_000, None), Limit.HOST),
        (result(lost=0), [], Ceilings(9_000, 9_000), Limit.NONE),
        (result(), dropped("dut.eth0", 100), Ceilings(None, 10_000), Limit.RECEIVER),
        (result(), dropped("dut.eth0", 100), Ceilings(None, 11_000), Limit.HOP),
        (result(), [], Ceilings(None, 9_900), Limit.RECEIVER),
        (result(), [], Ceilings(None, 20_000), Limit.UNEXPLAINED),
    ],
)
def test_the_verdict_knows_what_the_instrument_can_do(
    trial: LoadResult, sheets: list[Balance], ceilings: Ceilings, limit: Limit
) -> None:
    """A load above its ceiling limits the generator, disturbed host or not; at its own the receiver is the limit."""
    found = judge(trial, 1e-4, sheets, [CALM], [], ceilings, HELD_NS)
    assert found.limit is limit
    assert ("calibrat" in found.text) == (limit in (Limit.GENERATOR, Limit.RECEIVER))


def test_a_thread_that_ran_all_the_time_is_the_limit_whatever_the_receiver_can_do() -> None:
    """Its own CPU had no time left: that is seen, and the ceiling is only known."""
    found = judge(result(), 1e-4, dropped("dut.eth0", 100), [BUSY], [DEVICE], Ceilings(None, 9_000))
    assert found.limit is Limit.THREAD


def test_ceilings_are_those_of_the_paths_in_use() -> None:
    """Ports say what they use in words; sizes between two that were measured have the ceiling of the smaller."""
    known = Calibration({"af_xdp": {64: 2e6, 512: 1e6}, "af_packet": {64: 5e5}}, {"af_packet": 4e5})
    assert known.ceilings("AF_XDP native copy", "AF_PACKET rx-ring", 600) == Ceilings(1e6, 4e5)
    assert known.ceilings("AF_PACKET tx-ring", "AF_XDP native copy", 64) == Ceilings(5e5, None)


def test_only_what_held_a_thread_up_for_a_millisecond_is_a_disturbance() -> None:
    """A ring without room is load; a stall of 2 ms and two ticks of steal are the host's."""
    calm = replace(SENT, stalls=(stall(400_000), stall(5_000_000, "no_room")))
    assert perturbations([calm], [RECEIVED], 0) == ()
    (held,) = perturbations([replace(SENT, stalls=(stall(2_000_000),))], [RECEIVED], 0)
    assert "2.0 ms" in held
    (stolen,) = perturbations([SENT], [RECEIVED], 20_000_000)
    assert "20 ms" in stolen
