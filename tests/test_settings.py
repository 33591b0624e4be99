"""The broker's settings."""

from __future__ import annotations

import pytest

from streamfeat.errors import ConfigError
from streamfeat.wire.settings import BrokerSettings


def test_settings_that_cannot_be_are_refused() -> None:
    """A limit of zero or a limit over the one that contains it is a ConfigError."""
    with pytest.raises(ConfigError, match="credit_items must be more than 0, got 0"):
        BrokerSettings(credit_items=0)
    with pytest.raises(ConfigError, match="item_bytes <= message_bytes <= max_retained_bytes"):
        BrokerSettings(item_bytes=10**9)
    with pytest.raises(ConfigError, match="max_retained_bytes must be 4/3 of item_bytes at least"):
        BrokerSettings(item_bytes=10**6, message_bytes=10**6, max_retained_bytes=10**6)
