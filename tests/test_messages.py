"""Arrays and items on their way."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.errors import CODES, InvalidArgument, Overloaded
from streamfeat.wire import messages
from streamfeat.wire.messages import Array, Item, failed_item


@pytest.mark.parametrize("dtype", sorted(messages.ITEM_SIZE))
def test_every_dtype_comes_back_little_endian_and_read_only(dtype: str) -> None:
    """An array is the same numbers after the journey, native to read, and cannot be written to."""
    sent = np.array([[0, 1, 2], [3, 100, 127]]).astype(dtype)
    array = Array(dtype, sent.shape, sent.tobytes()).to_numpy()
    np.testing.assert_array_equal(array, sent)
    assert array.dtype == sent.dtype.newbyteorder("<")
    assert array.dtype.str in messages.LITTLE_ENDIAN
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 1


def test_of_copies_nothing_that_is_ready() -> None:
    """`Array.of` shares the memory of a little-endian C-ordered array, and `to_numpy` shares it again."""
    sent = np.arange(12, dtype="<f4").reshape(3, 4)
    assert np.shares_memory(Array.of(sent).to_numpy(), sent)


@pytest.mark.parametrize("sent", [np.arange(12, dtype=">i2")[::3], np.arange(12, dtype="<f8").reshape(3, 4).T])
def test_of_makes_strided_and_big_endian_arrays_ready(sent: NDArray[Any]) -> None:
    """Strides and byte order of the sender do not change the numbers."""
    array = Array.of(sent)
    assert array.dtype.startswith("<")
    np.testing.assert_array_equal(array.to_numpy(), sent)


def test_an_unaligned_frame_is_copied_to_an_aligned_array() -> None:
    """Kernels get aligned memory even when the frame starts at an odd address."""
    sent = np.array([1.5, -2.5], "<f8")
    array = Array("<f8", (2,), memoryview(b"x" + sent.tobytes())[1:]).to_numpy()
    assert array.flags.aligned
    assert not array.flags.writeable
    np.testing.assert_array_equal(array, sent)


@pytest.mark.parametrize(
    "bad",
    [
        np.array(["a"]),
        np.array([None]),
        np.zeros(0, "<i2"),
        np.zeros((2, 0), "<f4"),
        np.zeros((), "<f4"),
        np.zeros((1,) * 5, "<f4"),
        np.zeros(2, "<c8"),
        np.zeros(2, "?"),
        np.zeros(2, "<f2"),
    ],
)
def test_what_does_not_travel_is_refused_where_it_is_made(bad: NDArray[Any]) -> None:
    """Objects, text, empty arrays, scalars, five dimensions and rare dtypes never reach the wire."""
    with pytest.raises(InvalidArgument, match="an array must"):
        Array.of(bad)


def test_n_bytes_counts_payload() -> None:
    """Credit is counted in payload bytes, of all arrays."""
    item = Item({"id": 1}, (Array.of(np.zeros((3, 4), "<f4")), Array.of(np.zeros(5, "|u1"))))
    assert item.n_bytes == 3 * 4 * 4 + 5


def test_failed_item_carries_code_reason_and_when_to_retry() -> None:
    """An error travels as its code, a reason of bounded length, and a time to come back."""
    item = failed_item(7, Overloaded("x" * 5000, retry_after_ms=20))
    assert item.fields == {
        "id": 7,
        "ok": False,
        "error": {"code": "OVERLOADED", "reason": "x" * messages.REASON_LENGTH, "retry_after_ms": 20},
    }
    assert "retry_after_ms" not in failed_item(7, InvalidArgument("no")).fields["error"]


def test_schema_and_code_name_the_same_things() -> None:
    """The dtypes, verbs, codes and lengths of the schema are those of the code."""
    text = resources.files("streamfeat.schemas").joinpath("messages.schema.json").read_text("utf-8")
    definitions = json.loads(text)["definitions"]
    assert {name for name in definitions if name.isupper()} == messages.VERBS
    assert tuple(definitions["array"]["properties"]["dtype"]["enum"]) == messages.LITTLE_ENDIAN + messages.BIG_ENDIAN
    assert definitions["reason"]["maxLength"] == messages.REASON_LENGTH
    assert all(len(code) <= 32 for code in CODES)
    passed_on = set(definitions["RESULT"]["properties"]["items"]["items"]["properties"])
    assert passed_on <= set(definitions["REPLY"]["properties"]["items"]["items"]["properties"])
