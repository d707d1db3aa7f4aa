"""Caches on the path of a disk trial: proof of their state, flushes, and reports without proof."""

from dataclasses import replace

from iolab.experiment.model.measures import DiskMeasure
from iolab.messages.disks import (
    ProgramCache,
    VolumeCache,
)
from iolab.trial.disk.caches import Layer, Looked, program_proved, unflushed, unknown
from iolab.trial.disk.measure import FLUSHES, flushed
from iolab.trial.disk.own import OwnReport, Phase, Residency

PC2 = ProgramCache(machine="pc2")


def seen(state: str, resident: int = 0) -> Residency:
    """Return the cache state of a file of 1 MiB."""
    return Residency.model_validate({
        "wanted": "cold", "state": state, "how": "cachestat", "resident_bytes": resident, "of_bytes": 1 << 20,
    })  # fmt: skip


def looked(before: Residency | None, after: Residency | None) -> Looked:
    """Return a target's cache with its observed states."""
    return Looked(Layer(VolumeCache(code="target-cache", volume="lun0"), "", "/var/tmp/lun0"), before, after)


def measure(program: str, profile: str | None = None) -> DiskMeasure:
    """Return a measure."""
    asked = {"kind": "disk", "on": "pc2", "program": program, "profile": profile}
    return DiskMeasure.model_validate(asked)


def report(*states: str) -> OwnReport:
    """Return a report of phases that read."""
    about = {"name": "read", "block_bytes": 1, "bytes": 1, "operations": 1, "duration_ns": 1, "cpu_ns": 0}
    phases = [Phase.model_validate({**about, "slowest_ns": None, "cache": seen(state)}) for state in states]
    return OwnReport(phases=tuple(phases))


def phase_found(resident: int) -> Phase:
    """Return a phase that found that much of its file in memory [bytes]."""
    return report("partly").phases[0].model_copy(update={"cache": seen("partly", resident)})


def test_cache_that_is_empty_before_and_after_a_phase_counts_as_bypassed() -> None:
    """Report one that fills, or that cannot be read, as unknown."""
    assert unknown(PC2, True, [looked(seen("cold"), seen("cold"))]) == ()
    for before, after in (("cold", "warm"), ("partly", "cold"), ("cold", "unknown")):
        (warning,) = unknown(PC2, True, [looked(seen(before), seen(after))])
        assert warning.layers == (VolumeCache(code="target-cache", volume="lun0"),)
    assert unknown(PC2, False, [looked(None, seen("cold"))])[0].layers == (
        PC2,
        VolumeCache(code="target-cache", volume="lun0"),
    )


def test_cache_with_unwritten_bytes_after_a_flush_is_reported() -> None:
    """Report nothing if the kernel does not show it."""
    dirty, clean = (seen("warm").model_copy(update={"dirty_bytes": bytes_}) for bytes_ in (4096, 0))
    (warning,) = unflushed([looked(None, dirty)])
    assert (warning.layer, warning.dirty_bytes) == (VolumeCache(code="target-cache", volume="lun0"), 4096)
    assert unflushed([looked(dirty, clean), looked(None, None), looked(None, seen("warm"))]) == ()


def test_program_cache_state_must_match_the_declared_one_in_every_reading_phase() -> None:
    """Check cold and warm; skip a package's program."""
    assert program_proved(measure("thput-fsys", "honest"), report("cold", "cold"), None)
    assert not program_proved(measure("thput-fsys", "honest"), report("cold", "partly"), None)
    assert program_proved(measure("thput-fsys"), report("warm"), None)
    assert not program_proved(measure("bonnie++"), None, None)


def test_memory_limit_bounds_the_cached_part_of_a_file() -> None:
    """Rely on the kernel's limit without access to the program's cache."""
    half, legacy = 1 << 19, measure("bonnie++", "legacy-2006")
    within = report("partly").model_copy(update={"phases": (phase_found(half),)})
    beyond = within.model_copy(update={"phases": (phase_found(half + 1),)})
    assert program_proved(legacy, within, None, half)
    assert not program_proved(legacy, beyond, None, half)
    assert not program_proved(legacy, report("unknown"), None, half)
    assert program_proved(measure("bonnie++"), None, None, half)


def test_up_to_one_percent_of_a_mounted_device_may_be_in_the_cache_for_hdparm() -> None:
    """Allow no more."""
    assert program_proved(measure("hdparm"), None, seen("partly", 10_000))
    assert not program_proved(measure("hdparm"), None, seen("partly", 20_000))
    assert not program_proved(measure("hdparm"), None, None)


def test_figures_measured_with_an_unknown_cache_state_are_not_comparable() -> None:
    """Use the warning's own flag."""
    assert not unknown(PC2, False, [])[0].comparable


def test_user_space_export_is_judged_by_the_caches_below_it() -> None:
    """Ignore the export's own cache: opening a FUSE file empties it."""
    door = Looked(
        Layer(VolumeCache(code="door-cache", volume="lun0"), "", "/run/lun0.door"), seen("cold"), seen("cold")
    )
    for kept in (None, True):
        (warning,) = unknown(PC2, True, [replace(door, kept=kept)])
        assert warning.layers == (VolumeCache(code="door-cache", volume="lun0"),)
    assert unknown(PC2, True, [replace(door, kept=False)]) == ()


def flushed_by(dirty_bytes: int | None) -> Residency:
    """Return the flush state of a file of 1 MiB."""
    about = {"wanted": "as-left", "state": "warm", "how": "cachestat", "resident_bytes": 1 << 20}
    return Residency.model_validate({**about, "dirty_bytes": dirty_bytes, "of_bytes": 1 << 20})


def tried(*looks: int | None) -> tuple[int, list[Residency | None]]:
    """Return the number of flushes and the last observation, for given observations."""
    flushes: list[int] = []
    after = flushed(lambda: flushes.append(1), lambda: [flushed_by(looks[len(flushes) - 1]), None])
    return len(flushes), after


def test_single_flush_after_which_nothing_is_unwritten_suffices() -> None:
    """Accept a kernel that does not show it, too."""
    assert tried(0) == (1, [flushed_by(0), None])
    assert tried(None) == (1, [flushed_by(None), None])


def test_writes_between_a_flush_and_the_cache_check_are_covered_by_the_next_flush() -> None:
    """Report nothing."""
    assert tried(8192, 0) == (2, [flushed_by(0), None])


def test_layer_with_unwritten_bytes_after_every_flush_is_reported() -> None:
    """Check the last observation."""
    assert tried(*[4096] * FLUSHES) == (FLUSHES, [flushed_by(4096), None])
