"""`dofnerf render --path` and its like: where the camera goes, what the lens does, and the files that come out."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest
import torch
from looks import printed
from PIL import Image
from small_shots import CAMERA, FAR, HEIGHT, NEAR, WIDTH, card_and_wall, halves, write_run

from dofnerf.cli import main
from dofnerf.files import read_map
from dofnerf.scenes import Lens, Viewpoint
from dofnerf.studio import paths
from dofnerf.studio.keyframes import Moment, between, read_keyframes, write_keyframes

PIVOT = np.array([0.0, 0.0, -3.0])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filmed")
    write_run(folder / "run")
    return folder


@pytest.fixture
def film(made, tmp_path, monkeypatch, capfd):
    """Makes a film in an empty folder → its frames (N, H, W, 3), 0 … 1."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, out="out.gif") -> np.ndarray:
        printed(capfd, "render", made / "run", *arguments, "--out", out)
        with Image.open(out) as video:
            frames = []
            for i in range(video.n_frames):
                video.seek(i)
                frames.append(np.asarray(video.convert("RGB")).astype(float) / 255)
        return np.stack(frames)

    return run


def test_rack_focus_goes_from_near_to_far(film):
    frames = film("--rack-focus", "--aperture", 8, "--frames", 5, "--once")
    near, far = np.array([halves(frame) for frame in frames]).T
    assert near[0] > 2 * near[-1] and far[-1] > 2 * far[0]  # a GIF's dither is sharp everywhere
    assert np.argmax(near) == 0 and np.argmax(far) == 4


def test_an_aperture_sweep_opens_and_comes_back(film):
    frames = film("--aperture-to", 12, "--focus", NEAR, "--frames", 4)
    far = [halves(frame)[1] for frame in frames]
    assert far[0] > far[1] > far[2] and far[3] == pytest.approx(far[1], rel=0.1)
    near = [halves(frame)[0] for frame in frames]
    assert min(near) > 0.6 * max(near)


def test_autofocus_follows_a_pixel_or_a_point(film):
    wall = film("--path", "orbit", "--degrees", 4, "--frames", 3, "--aperture", 8, "--focus-at", "55,24")
    card = film("--path", "orbit", "--degrees", 4, "--frames", 3, "--aperture", 8, "--follow", f"-0.5,0,{-NEAR}")
    for one, other in zip(wall, card, strict=True):
        assert halves(one)[1] > 2 * halves(other)[1] and halves(other)[0] > 2 * halves(one)[0]


def test_an_mp4_that_browsers_play(made, film, tmp_path, capfd):
    printed(capfd, "render", made / "run", "--path", "spiral", "--frames", 3, "--fps", 12, "--out", "out.mp4")
    about = subprocess.run(
        [imageio_ffmpeg.get_ffmpeg_exe(), "-i", "out.mp4"], cwd=tmp_path, check=False, capture_output=True, text=True
    ).stderr
    assert "h264" in about and "yuv420p" in about and f"{WIDTH}x{HEIGHT}" in about and "12 fps" in about
    assert [path.name for path in tmp_path.iterdir()] == ["out.mp4"]


def test_a_stopped_film_goes_on(made, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    from dofnerf.studio import film as module

    shot, taken = module.photograph_moment, []

    def counted(*arguments):
        if len(taken) == 2:
            taken.append(None)
            raise KeyboardInterrupt
        taken.append(None)
        return shot(*arguments)

    monkeypatch.setattr(module, "photograph_moment", counted)
    arguments = ["render", str(made / "run"), "--rack-focus", "--frames", "4", "--out", "out.gif"]
    assert main(arguments) == 130
    assert sorted(path.name for path in (tmp_path / "out-frames").glob("*.png")) == ["00000.png", "00001.png"]
    assert not (tmp_path / "out.gif").exists()
    printed(capfd, *arguments)
    assert len(taken) == 3 + 2 and (tmp_path / "out.gif").exists() and not (tmp_path / "out-frames").exists()
    (tmp_path / "out-frames").mkdir()
    (tmp_path / "out-frames" / "00000.png").write_bytes(b"mine")
    assert main(arguments) == 2
    assert "is not of a film" in capfd.readouterr().err


@pytest.mark.parametrize(("flags", "unit", "words"), [([], 1.0, "scene units"), (["--unit", "0.5"], 0.5, "metres")])
def test_every_frame_has_its_depth(made, tmp_path, monkeypatch, capfd, flags, unit, words):
    """Each is that of a still from the frame's camera; a stopped film keeps what is done, another one starts over."""
    monkeypatch.chdir(tmp_path)
    from dofnerf.studio import film as module

    common = ["render", str(made / "run"), "--path", "dolly-zoom", "--once", "--frames", "3", "--aperture", "4"]
    arguments = [*common, *flags, "--depth", "exr", "--out", "out.gif"]
    shot = module.photograph_moment

    def stops(source, moment, *rest):
        if (tmp_path / "out-depth" / "00001.exr").exists():
            raise KeyboardInterrupt
        return shot(source, moment, *rest)

    monkeypatch.setattr(module, "photograph_moment", stops)
    assert main(arguments) == 130
    names = ["00000.exr", "00001.exr"]
    assert sorted(path.name for path in (tmp_path / "out-depth").glob("*.exr")) == names
    monkeypatch.setattr(module, "photograph_moment", shot)
    before = [(tmp_path / "out-depth" / name).stat().st_mtime_ns for name in names]
    assert words in printed(capfd, *arguments)
    assert before == [(tmp_path / "out-depth" / name).stat().st_mtime_ns for name in names]
    depths = [read_map(tmp_path / "out-depth" / f"{i:05d}.exr")[0] for i in range(3)]
    still = ["--view", "3", "--depth", "exr", "--out", "still.png"]
    printed(capfd, "render", made / "run", *still)
    np.testing.assert_allclose(depths[0], unit * read_map(tmp_path / "still-depth.exr")[0], rtol=1e-5)
    card, wall = (depths[2][HEIGHT // 2, x] - depths[0][HEIGHT // 2, x] for x in (20, 50))
    assert card == pytest.approx(wall, rel=0.02) and card > unit  # the camera moves away from both
    printed(capfd, *common[:-1], "6", *flags, "--depth", "npy", "--out", "out.gif")
    assert {path.suffix for path in (tmp_path / "out-depth").glob("0*")} == {".npy"}
    (tmp_path / "out-depth" / "film.json").unlink()
    assert main(arguments) == 2 and "give another --out" in capfd.readouterr().err


def test_a_dolly_zoom_keeps_the_pivot_and_presses_the_rest():
    points = PIVOT + np.array([[0.4, 0.2, 0.0], [0.4, 0.2, -2.0]])
    cameras = paths.dolly_zoom(CAMERA, PIVOT, 7, 2.0, once=True)
    pixels = np.stack([camera.project(points)[0] for camera in cameras])
    assert np.abs(pixels[:, 0] - pixels[0, 0]).max() < 1e-9
    middle = np.array([WIDTH / 2, HEIGHT / 2])
    grown = np.linalg.norm(pixels[:, 1] - middle, axis=1)
    assert (np.diff(grown) > 0).all() and cameras[-1].fx == pytest.approx(2 * CAMERA.fx)
    assert np.linalg.norm(cameras[-1].position - PIVOT) == pytest.approx(6.0)


@pytest.mark.parametrize("kind", ["spiral", "orbit", "circle", "ellipse"])
def test_paths_look_at_the_pivot_and_close(kind):
    others = [replace(CAMERA, camera_to_world=CAMERA.camera_to_world + np.array([[x, y, 0]]).T * np.eye(1, 4, 3))
              for x, y in ((-1, 0), (1, 0), (0, 0.5), (0, -0.5))]  # fmt: skip
    cameras = {
        "spiral": lambda: paths.spiral(CAMERA, PIVOT, 24, 0.2, False),
        "orbit": lambda: paths.orbit(CAMERA, PIVOT, 24, 40.0, False),
        "circle": lambda: paths.orbit(CAMERA, PIVOT, 24, 360.0, False),
        "ellipse": lambda: paths.ellipse(CAMERA, PIVOT, 24, others, False),
    }[kind]()
    places = np.stack([camera.position for camera in cameras])
    steps = np.linalg.norm(np.diff(np.concatenate([places, places[:1]]), axis=0), axis=1)
    assert steps[-1] < 1.5 * steps[:-1].max()
    for camera in cameras:
        pixel, depth = camera.project(PIVOT[None])
        assert np.allclose(pixel, [WIDTH / 2, HEIGHT / 2]) and depth > 0
        turn = camera.camera_to_world[:, :3]
        assert np.allclose(turn.T @ turn, np.eye(3)) and np.linalg.det(turn) == pytest.approx(1)
    if kind == "circle":
        assert np.allclose(np.linalg.norm(places - PIVOT, axis=1), 3) and np.ptp(places[:, 0]) == pytest.approx(
            6, rel=0.02
        )


def keyframe(time, x=0.0, aperture=None, depth=NEAR, blades=0, **more) -> Moment:
    pose = CAMERA.camera_to_world + np.array([[x], [0], [0]]) * np.eye(1, 4, 3)
    lens = None if aperture is None else Lens(aperture, depth)
    return Moment(Viewpoint("k", replace(CAMERA, camera_to_world=pose), lens), blades, time=time, **more)


def test_keyframes_pass_smoothly_through_every_moment(tmp_path):
    given = [
        keyframe(0, 0.0, 4.0, NEAR),
        keyframe(1, 0.3, 8.0, FAR, 6, rotation=30.0),
        keyframe(3, 0.1, None, exposure=1.0),
    ]
    write_keyframes(tmp_path / "k.json", given)
    moments = read_keyframes(tmp_path / "k.json")
    for moment, at in zip(moments, between(moments, [0, 1, 3]), strict=True):
        assert np.allclose(at.view.camera.camera_to_world, moment.view.camera.camera_to_world)
        assert (at.view.lens is None) is (moment.view.lens is None)
        assert (at.exposure, at.rotation) == pytest.approx((moment.exposure, moment.rotation))
        if moment.view.lens:
            assert at.view.lens.aperture == pytest.approx(moment.view.lens.aperture)
            assert at.view.lens.focus_depth == pytest.approx(moment.view.lens.focus_depth)
    times = np.linspace(0, 3, 601)
    row = between(moments, times.tolist())
    xs = np.array([moment.view.camera.position[0] for moment in row])
    focus = np.array([0.0 if m.view.lens is None else 1 / m.view.lens.focus_depth for m in row])
    mixes = np.array([moment.mix if moment.blades != moment.other and moment.blades == 0 else 0 for moment in row])
    for values in (xs, focus[:-1]):  # no jump in value, nor in speed
        assert np.abs(np.diff(values)).max() < 0.01 and np.abs(np.diff(values, 2)).max() < 2e-4
    assert mixes.max() > 0.95 and np.abs(np.diff(mixes[:200])).max() < 0.01
    wide = between(moments, [0.0], width=2 * WIDTH)[0]
    assert wide.view.camera.width == 2 * WIDTH and wide.view.lens.aperture == pytest.approx(8.0)


def test_a_film_of_keyframes(film, tmp_path):
    write_keyframes(tmp_path / "k.json", [keyframe(0, 0, 8.0, NEAR), keyframe(0.25, 0.05, 8.0, FAR, 5)])
    frames = film("--keyframes", "k.json", "--fps", 16)
    assert len(frames) == 5
    assert halves(frames[0])[0] > 2 * halves(frames[-1])[0] and halves(frames[-1])[1] > 2 * halves(frames[0])[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--frames", "9"], "--frames is for films"),
        (["--path", "orbit", "--out", "a.png"], "use one of .mp4 .gif"),
        (["--path", "orbit", "--zoom", "2"], "--zoom is for --path dolly-zoom"),
        (["--rack-focus", "--focus", "2"], "both say where the focus is"),
        (["--rack-focus", "--frames", "1"], "--frames must be 2"),
        (["--keyframes", "k.json", "--aperture", "3"], "leave --aperture away"),
        (["--keyframes", "k.json", "--blades", "5"], "leave --blades away"),
        (["--keyframes", "k.json", "--view", "1"], "leave --view away"),
        (["--keyframes", "k.json", "--height", "90"], "leave --height away"),
        (["--keyframes", "k.json", "--once"], "leave --once away"),
        (["--path", "still", "--alpha", "png"], "--alpha is for pictures"),
        (["--keyframes", "k.json"], "k.json"),
        (["--path", "still", "--as-shot"], "for pictures, not for films"),
        (["--aperture-to", "1e7", "--frames", "2", "--once"], "blurs the picture by up to"),
        (["--path", "orbit", "--follow", "0,0,5", "--aperture", "3", "--frames", "2"], "behind the camera"),
    ],
)
def test_refusals(made, tmp_path, monkeypatch, capfd, arguments, words):
    monkeypatch.chdir(tmp_path)
    assert main(["render", str(made / "run"), *arguments]) == 2
    err = capfd.readouterr().err
    assert words in err and err.count("\n") == 1
    assert not list(tmp_path.iterdir()) and not (made / "run" / "films").exists()


def test_frames_of_a_film_that_is_drawn_another_way_are_not_taken_over():
    from dofnerf.models.splat.raster import Style
    from dofnerf.studio.film import _state
    from dofnerf.studio.source import Source

    source = Source(Path("a.ply"), card_and_wall(), "")
    states = {_state(source), _state(replace(source, flat=True))}
    assert _state(replace(source)) in states and len(states) == 2
    source.model.style = Style(antialiased=True)
    states.add(_state(source))
    with torch.no_grad():
        source.model.opacity_logits[-1] += 1  # the last number of many
    states.add(_state(source))
    assert len(states) == 4


@pytest.mark.parametrize(
    ("moments", "words"),
    [
        ((keyframe(0), keyframe(1, exposure=1e5)), "exposure must be"),
        ((keyframe(0), keyframe(1e6)), "more than 10000 frames"),
    ],
)
def test_keyframes_that_no_film_holds(made, tmp_path, capfd, moments, words):
    write_keyframes(tmp_path / "k.json", moments)
    assert (
        main(["render", str(made / "run"), "--keyframes", str(tmp_path / "k.json"), "--out", str(tmp_path / "a.gif")])
        == 2
    )
    err = capfd.readouterr().err
    assert words in err and "k.json" in err and err.count("\n") == 1


def test_light_reaches_the_frames(film):
    lights = [
        film("--path", "still", "--aperture", 12, "--focus", NEAR, "--frames", 2, "--light", light) for light in (1, 4)
    ]
    assert (
        lights[1][0, 6:-6, 40:58].mean() > lights[0][0, 6:-6, 40:58].mean() + 0.02
    )  # bright splats win where light adds up


@pytest.mark.parametrize(("flag", "power"), [("fstop", 2), ("stops", 1), ("aperture", 1)])
def test_a_dolly_zoom_keeps_the_f_number_or_the_width_of_the_lens(made, flag, power):
    from dofnerf.studio.film import FilmFlags, settle
    from dofnerf.studio.flags import LensFlags
    from dofnerf.studio.render import RenderConfig
    from dofnerf.studio.source import open_source

    film = FilmFlags("dolly-zoom", frames=3, zoom=2.0, once=True)
    config = RenderConfig(made / "run", lens=LensFlags(**{flag: 4.0}, unit=1.0 if flag == "fstop" else None), film=film)
    moments = settle(config, open_source(made / "run", device="cpu"))
    first, last = (moments[i].view for i in (0, -1))
    assert last.camera.fx == pytest.approx(2 * first.camera.fx)
    assert last.lens.aperture / first.lens.aperture == pytest.approx(2**power)
