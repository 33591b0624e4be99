"""Hypothesis strategies that several tests draw from."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

int16_samples = hnp.arrays(np.int16, st.integers(1, 400))
"""Mono samples of 16 bits, at least one."""

int16_frames = hnp.arrays(
    np.int16, st.tuples(st.integers(1, 300), st.integers(1, 2)), elements=st.integers(-2000, 2000)
)
"""Samples by channels, one or two channels; small, so that packed forms of them stay small."""

field_names = st.from_regex(r"[a-z][a-z_0-9]{0,15}", fullmatch=True).filter(lambda name: name != "end_head")
"""Names that a SPHERE header may hold."""
