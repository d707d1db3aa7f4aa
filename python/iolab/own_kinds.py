"""Register iolab's own kinds of measures and instruments; every program that reads experiments must call
`provide_own_kinds` first."""

from collections.abc import Sequence

from iolab.registry.registry import provide
from iolab.registry.rows import AnyInstrumentKind, AnyMeasureKind


def provide_own_kinds() -> None:
    """Register iolab's own kinds, which are imported on first use."""
    provide(_kinds)


def _kinds() -> tuple[Sequence[AnyMeasureKind], Sequence[AnyInstrumentKind]]:
    from iolab import instruments, measures

    return measures.KINDS, instruments.KINDS
