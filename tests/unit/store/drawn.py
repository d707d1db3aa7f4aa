"""Series and dimensions, drawn at random."""

import numpy as np
from hypothesis import strategies as st

from iolab.record.dimensions import Dimensions
from iolab.record.series import Over, Series

numbers = st.floats(allow_nan=True, allow_infinity=True)
texts = st.none() | st.text(max_size=8)
dimensions = st.builds(
    Dimensions,
    load_ratio=st.none() | st.floats(0, 2),
    flow=texts,
    direction=texts,
    machine=texts,
    port=texts,
    queue=st.none() | st.integers(0, 2**31),
    cpu=st.none() | st.integers(0, 8192),
    role=texts,
    thread=texts,
    window_ns=st.none() | st.integers(1, 10**12),
    part=texts,
)


@st.composite
def any_series(draw: st.DrawFn) -> Series:
    """Any series."""
    times = sorted(draw(st.sets(st.integers(0, 2**62), min_size=1, max_size=6)))
    values = draw(st.lists(numbers, min_size=len(times), max_size=len(times)))
    name, unit, source = draw(st.tuples(st.text(max_size=6), st.text(max_size=6), st.text(max_size=6)))
    over = draw(st.sampled_from(Over))
    at_ns = np.array(times, dtype=np.int64)
    return Series(name, unit, at_ns, np.array(values), draw(dimensions), over, source)
