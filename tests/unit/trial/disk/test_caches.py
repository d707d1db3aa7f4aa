"""Caches on the path of a disk trial: what proves them, what is flushed, and what is reported where nothing does."""

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
    """Return what was seen of a file of 1 MiB."""
    return Residency.model_validate({
        "wanted": "cold", "state": state, "how": "cachestat", "resident_bytes": resident, "of_bytes": 1 << 20,
    })  # fmt: skip


def looked(before: Residency | None, after: Residency | None) -> Looked:
    """Return a target's cache, as it was seen."""
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
    """Return a phase that found so much of its file in memory [bytes]."""
    return report("partly").phases[0].model_copy(update={"cache": seen("partly", resident)})


def test_a_cache_that_is_empty_before_and_after_was_passed_by() -> None:
    """One that fills, or that nobody can look at, is unknown."""
    assert unknown(PC2, True, [looked(seen("cold"), seen("cold"))]) == ()
    for before, after in (("cold", "warm"), ("partly", "cold"), ("cold", "unknown")):
        (warning,) = unknown(PC2, True, [looked(seen(before), seen(after))])
        assert warning.layers == (VolumeCache(code="target-cache", volume="lun0"),)
    assert unknown(PC2, False, [looked(None, seen("cold"))])[0].layers == (
        PC2,
        VolumeCache(code="target-cache", volume="lun0"),
    )


def test_a_cache_with_bytes_that_no_disk_has_did_not_keep_a_flush() -> None:
    """Where the kernel does not say, nothing is said."""
    dirty, clean = (seen("warm").model_copy(update={"dirty_bytes": bytes_}) for bytes_ in (4096, 0))
    (warning,) = unflushed([looked(None, dirty)])
    assert (warning.layer, warning.dirty_bytes) == (VolumeCache(code="target-cache", volume="lun0"), 4096)
    assert unflushed([looked(dirty, clean), looked(None, None), looked(None, seen("warm"))]) == ()


def test_the_programs_own_cache_is_as_declared_in_every_phase_that_reads() -> None:
    """Cold or warm; a package's program is not looked into."""
    assert program_proved(measure("thput-fsys", "honest"), report("cold", "cold"), None)
    assert not program_proved(measure("thput-fsys", "honest"), report("cold", "partly"), None)
    assert program_proved(measure("thput-fsys"), report("warm"), None)
    assert not program_proved(measure("bonnie++"), None, None)


def test_with_a_limit_of_memory_a_phase_may_find_no_more_of_its_file_than_that() -> None:
    """The kernel keeps the limit where nobody looks into a program."""
    half, legacy = 1 << 19, measure("bonnie++", "legacy-2006")
    within = report("partly").model_copy(update={"phases": (phase_found(half),)})
    beyond = within.model_copy(update={"phases": (phase_found(half + 1),)})
    assert program_proved(legacy, within, None, half)
    assert not program_proved(legacy, beyond, None, half)
    assert not program_proved(legacy, report("unknown"), None, half)
    assert program_proved(measure("bonnie++"), None, None, half)


def test_a_mounted_file_system_may_hold_a_hundredth_of_hdparms_device() -> None:
    """And no more."""
    assert program_proved(measure("hdparm"), None, seen("partly", 10_000))
    assert not program_proved(measure("hdparm"), None, seen("partly", 20_000))
    assert not program_proved(measure("hdparm"), None, None)


def test_figures_with_an_unknown_cache_are_not_put_in_proportion() -> None:
    """Analysis asks the warning itself."""
    assert not unknown(PC2, False, [])[0].comparable


def test_a_door_is_proved_by_the_layers_below_alone() -> None:
    """To open a file of FUSE empties it: whoever looks finds it cold, whatever it kept."""
    door = Looked(
        Layer(VolumeCache(code="door-cache", volume="lun0"), "", "/run/lun0.door"), seen("cold"), seen("cold")
    )
    for kept in (None, True):
        (warning,) = unknown(PC2, True, [replace(door, kept=kept)])
        assert warning.layers == (VolumeCache(code="door-cache", volume="lun0"),)
    assert unknown(PC2, True, [replace(door, kept=False)]) == ()


def flushed_by(dirty_bytes: int | None) -> Residency:
    """Return what was seen of a file of 1 MiB."""
    about = {"wanted": "as-left", "state": "warm", "how": "cachestat", "resident_bytes": 1 << 20}
    return Residency.model_validate({**about, "dirty_bytes": dirty_bytes, "of_bytes": 1 << 20})


def tried(*looks: int | None) -> tuple[int, list[Residency | None]]:
    """Return how often was flushed, and what was seen last, where the looks one by one show this."""
    flushes: list[int] = []
    after = flushed(lambda: flushes.append(1), lambda: [flushed_by(looks[len(flushes) - 1]), None])
    return len(flushes), after


def test_one_flush_that_leaves_nothing_unwritten_is_enough() -> None:
    """Or a kernel that does not say."""
    assert tried(0) == (1, [flushed_by(0), None])
    assert tried(None) == (1, [flushed_by(None), None])


def test_what_a_file_system_writes_between_flush_and_look_accuses_nobody() -> None:
    """The next flush covers it."""
    assert tried(8192, 0) == (2, [flushed_by(0), None])


def test_a_layer_that_has_unwritten_bytes_after_every_flush_is_found() -> None:
    """It has them at the last look."""
    assert tried(*[4096] * FLUSHES) == (FLUSHES, [flushed_by(4096), None])
