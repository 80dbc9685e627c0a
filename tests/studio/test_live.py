"""`train --live`: what a visitor gets while splats train, and what nobody costs."""

import http.client
import json
import threading

import numpy as np
import pytest

from dofnerf import cli
from dofnerf.scenes import DEMO
from dofnerf.studio import live as live_module
from dofnerf.studio.live import LiveViewer, live

FLAGS = ["--width", "48", "--splats", "500", "--which-frames", "0", "1", "2", "3", "4", "--hold-every", "0"]
FLAGS += ["--pinhole-steps", "3", "--lens-steps", "12", "--sub-aperture-steps", "0", "--refits"]


def ask(port, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(
        method, path, headers={"Host": f"localhost:{port}", **headers}, body="{}" if method == "POST" else None
    )
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def test_a_visitor_sees_scene_and_lenses_while_it_trains(tmp_path, monkeypatch, capsys):
    """The visitor asks at every step, which then waits for the answer."""
    seen, watch, server = [], LiveViewer.watch, []

    class Noted(live_module.Server):
        def __init__(self, *given):
            super().__init__(*given)
            server.append(self)

    def visited(self, learner, data, folder):
        if not seen:  # the page is asked for before there is anything, and gets it after this step
            page = threading.Thread(target=lambda: seen.append(ask(server[0].port, "/")))
            page.start()
            while self.asked < 0:
                pass
            watch(self, learner, data, folder)
            page.join()
        self.rest = 0.0
        status = json.loads(ask(server[0].port, "/status")[1])
        watch(self, learner, data, folder)
        seen.append(status)
        if learner.progress.step == 8:
            port = server[0].port
            assert ask(port, "/scene.bin")[0] == ask(port, "/photos/0.jpg")[0] == 200
            assert ask(port, "/films", "POST")[0] == ask(port, "/picture", "POST")[0] == 400
            assert ask(port, "/films/film-1.mp4")[0] == 404 and ask(port, "/films/film-1.mp4", "DELETE")[0] == 200
            assert ask(port, "/status", Host="evil.example")[0] == 403
            assert ask(port, "/status", Origin="http://evil.example")[0] == 403

    monkeypatch.setattr(live_module, "Server", Noted)
    monkeypatch.setattr(LiveViewer, "watch", visited)
    assert cli.main(["train", str(DEMO), "--out", str(tmp_path / "run"), "--live", *FLAGS]) == 0
    assert "live     http://localhost:" in capsys.readouterr().out
    (code, page), *statuses = seen
    assert code == 200 and b'"live": true' in page.replace(b'":true', b'": true')
    assert [one["training"]["step"] for one in statuses] == [1, *range(1, 15)]
    assert not statuses[2]["table"] and statuses[-1]["table"][0][0] == "Photo"
    assert len(statuses[-1]["table"]) == 6 and len({one["version"] for one in statuses}) == 14
    openings = np.array([[lens["opening"] for lens in one["lenses"]] for one in statuses[6:]])
    assert (np.ptp(openings, axis=0) > 0).any(), "the lenses move"


def test_nobody_costs_nothing(monkeypatch):
    monkeypatch.setattr(live_module, "source_of", lambda *given: pytest.fail("somebody looked"))
    with live(True, "splat", port=0) as viewer:

        class Step:
            config = type("C", (), {"method": type("M", (), {"total": 9})})
            progress = type("P", (), {"step": 9})

        viewer.watch(Step, None, None)
        assert viewer.seconds == 0


def test_other_fields_are_refused(tmp_path, capsys):
    assert cli.main(["train", str(DEMO), "--out", str(tmp_path / "run"), "--live", "--field", "hash"]) == 2
    assert "dofnerf view" in capsys.readouterr().err
