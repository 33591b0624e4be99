"""What a fleet says of itself, by the door that is open."""

from __future__ import annotations

from dataclasses import replace

from streamfeat.config import load_settings
from streamfeat.inquiry import fleet_report
from tests.cluster import cluster


def test_the_admin_socket_is_asked_if_it_may_be_else_the_front() -> None:
    """The operator's report has what came to the doors; the client's, or that of an endpoint that is named, has not."""
    with cluster() as fleet:
        admin = f"ipc://{fleet.run_dir}/admin.sock"
        fleet.start_broker("--admin", admin)
        fleet.start_echo("echo")
        fleet.wait_ready("echo")
        settings = load_settings({"STREAMFEAT_FLEET__RUN_DIR": str(fleet.run_dir)})
        whole = fleet_report(settings)
        assert whole["endpoint"] == admin
        assert "turned_away" in whole
        assert [worker["name"] for worker in whole["workers"]] == ["echo"]
        elsewhere = replace(settings, fleet=replace(settings.fleet, admin=f"ipc://{fleet.run_dir}/none.sock"))
        for report in (fleet_report(elsewhere), fleet_report(settings, fleet.front)):
            assert report["endpoint"] == fleet.front
            assert "turned_away" not in report
            assert [worker["name"] for worker in report["workers"]] == ["echo"]
