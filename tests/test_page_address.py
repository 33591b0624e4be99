"""Where the page may listen."""

from __future__ import annotations

import pytest

from streamfeat.errors import ConfigError
from streamfeat.page.address import bind_page, page_hosts, page_url


def test_loopback_is_bound_and_named() -> None:
    """Port 0 is a free one; a browser may call it by either name of this machine."""
    with bind_page("127.0.0.1:0") as bound:
        port = bound.getsockname()[1]
        assert page_url(bound) == f"http://127.0.0.1:{port}/"
        assert page_hosts(bound, "127.0.0.1:0") == ["127.0.0.1", "localhost"]
        with pytest.raises(ConfigError, match="choose another"):
            bind_page(f"127.0.0.1:{port}")


@pytest.mark.parametrize("address", ["9672", "127.0.0.1:", "127.0.0.1:99999", "0.0.0.0:0", ":0", "*:0", "192.0.2.1:0"])
def test_other_places_are_refused(address: str) -> None:
    """No address, every address at once, or one that others reach, which wants --insecure."""
    with pytest.raises(ConfigError):
        bind_page(address)


def test_insecure_names_its_one_host() -> None:
    """127.0.0.2 stands for an address that others reach: bound when insisted on, and answering to no other name."""
    with pytest.raises(ConfigError, match="--insecure"):
        bind_page("127.0.0.2:0")
    with bind_page("127.0.0.2:0", insecure=True) as bound:
        assert set(page_hosts(bound, "127.0.0.2:0")) == {"127.0.0.2"}
