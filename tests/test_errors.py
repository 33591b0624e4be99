"""Every error has its own wire code and comes back from it as itself."""

from __future__ import annotations

import pytest

from streamfeat import errors


@pytest.mark.parametrize("code", errors.CODES)
def test_a_code_comes_back_as_its_class(code: str) -> None:
    """error_from_code is the inverse of the code attribute, and the message is kept."""
    error = errors.error_from_code(code, "needed that, got this", retry_after_ms=7)
    assert (error.code, error.reason) == (code, "needed that, got this")
    assert isinstance(error, errors.CallerError | errors.OperatorError | errors.InternalError)
    if isinstance(error, errors.Overloaded):
        assert error.retry_after_ms == 7


def test_a_newer_peers_code_is_not_lost() -> None:
    """An unknown code is told in the message rather than dropped."""
    error = errors.error_from_code("HALF_MOON", "tide is out")
    assert isinstance(error, errors.InternalError)
    assert str(error) == "HALF_MOON: tide is out"
