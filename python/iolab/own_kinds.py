"""iolab's own kinds of measure and instrument, for the registry below: whoever reads experiments provides them."""

from collections.abc import Sequence

from iolab.registry.registry import provide
from iolab.registry.rows import AnyInstrumentKind, AnyMeasureKind


def provide_own_kinds() -> None:
    """Let the registry have iolab's own kinds; they are loaded when one is asked for."""
    provide(_kinds)


def _kinds() -> tuple[Sequence[AnyMeasureKind], Sequence[AnyInstrumentKind]]:
    from iolab import instruments, measures

    return measures.KINDS, instruments.KINDS
