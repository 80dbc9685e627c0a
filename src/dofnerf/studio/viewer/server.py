"""The viewer's HTTP server: who is answered, and with what.

Any web page may send requests to this machine, so a request is answered only if its Host is a name of ours (loopback
names, the bound address, what --allow-origin adds) and its Origin, if it has one, is the same. Everything else gets
403: another site can neither read pictures, nor start films, nor get in by giving its own name our address (DNS
rebinding).

Memory is bounded: the page, the packed scene and the photos are kept once for all visitors, and drawn pictures of other
fields in a small cache. Each connection has a thread and a time limit, so that a slow visitor slows nobody.
"""

from __future__ import annotations

import contextlib
import io
import ipaddress
import json
import os
import re
import shutil
import socket
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import numpy as np
from PIL import Image

from dofnerf.camera import Camera
from dofnerf.files.guard import LARGEST_NUMBER
from dofnerf.files.pictures import to_bytes
from dofnerf.optics import Blades, Disc, Lens, Shape
from dofnerf.optics.lens import inverse
from dofnerf.scenes import Viewpoint
from dofnerf.studio.flags import ShapeFlags
from dofnerf.studio.keyframes import Moment
from dofnerf.studio.source import Source
from dofnerf.studio.viewer.films import LONGEST, MOST_KEYFRAMES, Films
from dofnerf.studio.viewer.renderer import LAYERS, Drawn, Settings, draw, photograph
from dofnerf.studio.viewpoints import photos_of
from dofnerf.studio.walk import packed
from dofnerf.web.walk_page import Walk, lens_facts, page

LOOPBACK = ("localhost", "127.0.0.1", "::1")
SECONDS = 30  # that a connection may be silent
CONNECTIONS = 128  # at once; more are closed
LARGEST_BODY = 1 << 18  # bytes of a question
KEPT = 3  # drawn pictures of other fields than splats
WIDEST = 8192  # pixels of a page
LEVELS = (8, 4, 2, 1)  # in which such pictures get finer when the camera rests
OVERLAYS = ("none", "focus peaking", "depth")
FILM = re.compile(r"film-[0-9]{1,9}\.mp4")


class Refused(ValueError):
    """A request that makes no sense."""


class Viewer:
    """What is served: the page of `walk` with its `poster`, the source's scene, and `photos` (JPEG by name). Pictures
    that the server draws have at most `longest` pixels along a side. `reload` opens the source again, if it can have
    changed: `changed` says when it did."""

    def __init__(
        self, source: Source, walk: Walk, poster: np.ndarray, photos: Mapping[str, bytes], longest: int,
        changed: Callable[[], float] = lambda: 0.0, reload: Callable[[], Source] | None = None,
    ) -> None:  # fmt: skip
        self.source, self.photos, self.longest = source, photos, longest
        self.changed, self.reload, self.version = changed, reload, changed()
        self.scene, self.films = packed(source), Films(source, longest)
        self.lock, self.kept = threading.Lock(), OrderedDict[str, Drawn]()
        self.names = [view.name for view in walk.photos]
        shape = walk.lens.shape
        self.shape = None if isinstance(shape, Disc | Blades) else shape
        facts = walk.facts() | {"served": True, "drawn": self.scene is None, "version": self.version}
        for i, photo in enumerate(facts["photos"]):
            if photo["name"] in photos:
                photo["file"] = f"photos/{i}.jpg"
        self.facts, self.poster = facts, poster

    def page(self) -> bytes:
        return page(self.facts | {"version": self.version}, self.poster, None).encode()

    def status(self) -> dict[str, Any]:
        """Which state of the scene there is, and the films. A run that is still training is read again."""
        with self.lock:
            now = self.changed()
            if self.reload is not None and now != self.version:
                with contextlib.suppress(OSError, ValueError):  # being written
                    self.source = self.reload()
                    self.films.source, self.scene, self.version = self.source, packed(self.source), now
                    self.kept.clear()
        return {
            "version": self.version,
            "films": self.films.facts(),
            "training": self.training(),
            "lenses": self.lenses(),
        }

    def training(self) -> dict[str, int] | None:
        """How far a run is that is not finished."""
        run = self.source.run
        if run is None or run.learner.progress.step >= run.config.method.total:
            return None
        return {"step": run.learner.progress.step, "steps": run.config.method.total}

    def lenses(self) -> list[dict[str, float]]:
        """The lens of each of the page's photos, as far as it is known by now."""
        known = {view.name: lens_facts(view) for view in photos_of(self.source)}
        return [known.get(name, {}) for name in self.names]

    def picture(self, asked: dict[str, Any]) -> tuple[bytes, bool]:
        """(a JPEG, or PNG, of a camera through a lens, whether it is as fine as there is)."""
        camera, level = self._sized(camera_of(asked["camera"])), int(number(asked, "level"))
        level = min(max(level, 0), len(LEVELS) - 1)
        times = LEVELS[level]
        small = camera.resized(max(8, camera.width // times), max(8, camera.height // times))
        drawn, settings = self._drawn(small), settings_of(asked, self.shape)
        image = Image.fromarray(to_bytes(photograph(drawn, settings, self.source.light)))
        file = io.BytesIO()
        if asked.get("png") is True:
            image.save(file, "PNG")
        else:
            image.save(file, "JPEG", quality=80 + 4 * level)
        return file.getvalue(), times == 1

    def depth(self, asked: dict[str, Any]) -> float | None:
        """The disparity at a pixel, or None where nothing is."""
        camera = self._sized(camera_of(asked["camera"]))
        small = camera.resized(max(8, camera.width // 4), max(8, camera.height // 4))
        ratio = small.width / asked["camera"]["width"]
        x, y = int(number(asked, "column") * ratio), int(number(asked, "row") * ratio)
        try:
            return self._drawn(small).picture.disparity_at(x, y)
        except ValueError:
            return None

    def _sized(self, camera: Camera) -> Camera:
        scale = min(1.0, self.longest / max(camera.width, camera.height))
        return camera.resized(max(8, round(camera.width * scale)), max(8, round(camera.height * scale)))

    def _drawn(self, camera: Camera) -> Drawn:
        key = f"{camera.camera_to_world.tobytes().hex()} {camera.fx} {camera.width} {camera.height}"
        with self.lock:
            if key in self.kept:
                self.kept.move_to_end(key)
                return self.kept[key]
        drawn = draw(self.source.model, camera, LAYERS, self.source.cut)
        with self.lock:
            self.kept[key] = drawn
            while len(self.kept) > KEPT:
                self.kept.popitem(last=False)
        return drawn

    def film(self, asked: dict[str, Any]) -> str:
        """Begin a film of keyframes; returns its name."""
        entries, seconds = asked.get("keyframes"), number(asked, "seconds")
        if not isinstance(entries, list) or not 2 <= len(entries) <= MOST_KEYFRAMES or not 0.1 <= seconds <= 60:
            raise Refused(f"a film has 2 to {MOST_KEYFRAMES} keyframes, up to 60 seconds apart")
        if (len(entries) - 1) * seconds > LONGEST:
            raise Refused(f"a film has {LONGEST} seconds at the most")
        moments = []
        for i, entry in enumerate(entries):
            camera = camera_of(entry["camera"])
            if max(camera.width, camera.height) > 10 * min(camera.width, camera.height):
                raise Refused("a film is at most ten times as wide as high, or as high as wide")
            settings = settings_of(entry, self.shape)
            lens = Lens(settings.radius * camera.fx, inverse(settings.disparity)) if settings.radius > 0 else None
            view = Viewpoint("keyframe", camera, lens)
            shape = settings.shape.name if settings.shape is not None else None
            told = settings.blades, settings.rotation, settings.exposure
            moments.append(Moment(view, *told, i * seconds, shape))
        return self.films.start(moments).path.name


def number(values: Mapping[str, Any], key: str) -> float:
    """A number of a request, as large as a scene's file may have it."""
    value = values.get(key, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST_NUMBER:
        raise Refused(f"{key} is no number")
    return float(value)


def camera_of(told: Any) -> Camera:
    """The camera that a page tells of."""
    if not isinstance(told, dict):
        raise Refused("camera is missing")
    values: dict[str, list[float]] = {}
    for key, count in (("position", 3), ("axes", 9)):
        numbers = told.get(key)
        if not isinstance(numbers, list) or len(numbers) != count:
            raise Refused(f"{key} must have {count} numbers")
        values[key] = [number({key: value}, key) for value in numbers]
    axes = np.array(values["axes"]).reshape(3, 3).T
    if np.abs(axes.T @ axes - np.eye(3)).max() > 1e-3:
        raise Refused("axes must be a rotation")
    pose = np.concatenate([axes, np.array(values["position"])[:, None]], axis=1)
    fx, fy, cx, cy, width, height = (number(told, key) for key in ("fx", "fy", "cx", "cy", "width", "height"))
    if not (min(width, height) >= 1 and max(width, height) <= WIDEST and min(fx, fy) >= 1e-3):
        raise Refused("no such camera")
    return Camera(pose, fx, fy, cx, cy, int(width), int(height))


def settings_of(asked: Mapping[str, Any], shape: Shape | None) -> Settings:
    """Lens, shape, exposure and overlay that a page asks for; the lens is told before the page's own camera. `shape`:
    what the page calls -1 blades."""
    told, lens = asked.get("camera"), asked.get("lens")
    if not isinstance(lens, dict) or not isinstance(told, dict):
        raise Refused("lens is missing")
    aperture, focus, blades = number(lens, "aperture"), number(lens, "focus"), int(number(asked, "blades"))
    overlay, exposure = int(number(asked, "overlay")), number(asked, "exposure")
    if aperture < 0 or focus < 0 or abs(exposure) > 32 or not 0 <= overlay < len(OVERLAYS):
        raise Refused("no such lens")
    rotation = number(asked, "rotation")
    ShapeFlags(None, max(blades, 0), rotation).check()
    radius = aperture / number(told, "fx")
    own = shape if blades < 0 else None
    return Settings(radius, focus, max(blades, 0), rotation, exposure, OVERLAYS[overlay], own)  # type: ignore[arg-type]


class Guard:
    """Which Host and Origin are ours: loopback names, the bound `host`, and `origins` (--allow-origin). Bound to every
    address, names of this machine and plain addresses are ours too: another site's name never is."""

    def __init__(self, host: str, origins: Collection[str] = ()) -> None:
        self.origins = {origin.rstrip("/").lower() for origin in origins}
        self.names = {*LOOPBACK, host.lower(), *(urlsplit(origin).hostname or "" for origin in self.origins)}
        self.everywhere = host in ("0.0.0.0", "::", "")
        if self.everywhere:
            self.names |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    def allows(self, host: str | None, origin: str | None, site: str | None, is_page: bool) -> bool:
        """Whether a request with these headers (Host, Origin, Sec-Fetch-Site) is answered."""
        name = _name(host or "")
        if name is None or not (name in self.names or (self.everywhere and _is_address(name))):
            return False
        if origin is not None:
            return origin.lower() == f"http://{(host or '').lower()}" or origin.lower() in self.origins
        return site in (None, "same-origin", "none") or is_page  # a link from elsewhere may open the page


def _name(host: str) -> str | None:
    found = re.fullmatch(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?", host.lower())
    return found[1].strip("[]") if found else None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Handler(BaseHTTPRequestHandler):
    """One request, one answer."""

    server: Server
    server_version, sys_version = "dofnerf", ""
    timeout = SECONDS

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_HEAD(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def do_DELETE(self) -> None:
        self._answer(self._delete)

    def _answer(self, act: Callable[[str], None]) -> None:
        path = urlsplit(self.path).path
        headers = self.headers
        allowed = self.server.guard.allows(
            headers.get("Host"), headers.get("Origin"), headers.get("Sec-Fetch-Site"), path == "/"
        )
        hosts = headers.get_all("Host") or []
        if (
            not allowed
            or len(hosts) != 1
            or (act == self._post and headers.get("Origin") is None and _foreign(headers))
        ):
            return self._send(403, "text/plain", b"This page is not yours.\n")
        try:
            act(path)
        except (Refused, KeyError, TypeError, ValueError, OverflowError) as error:
            self._send(400, "text/plain", f"{error}\n".encode())

    def _get(self, path: str) -> None:
        viewer = self.server.viewer
        if path == "/":
            self._send(200, "text/html; charset=utf-8", viewer.page())
        elif path == "/scene.bin" and viewer.scene is not None:
            self._send(200, "application/octet-stream", viewer.scene)
        elif path == "/status":
            self._send_json(viewer.status())
        elif (found := re.fullmatch(r"/photos/([0-9]{1,6})\.jpg", path)) and int(found[1]) < len(viewer.names):
            data = viewer.photos.get(viewer.names[int(found[1])])
            self._send(404 if data is None else 200, "image/jpeg", data or b"")
        elif (film := self._film(path)) is not None and (file := film[0].open(film[1])) is not None:
            with file:
                self._send(200, "video/mp4", file)
        else:
            self._send(404, "text/plain", b"There is nothing here.\n")

    def _post(self, path: str) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if not 0 < length <= LARGEST_BODY:
            return self._send(413, "text/plain", b"Too much, or nothing.\n")
        try:
            asked = json.loads(self.rfile.read(length))
        except RecursionError:
            raise Refused("not JSON that makes sense") from None
        if not isinstance(asked, dict):
            raise Refused("expected an object")
        viewer = self.server.viewer
        if path == "/picture":
            data, finest = viewer.picture(asked)
            kind = "image/png" if asked.get("png") is True else "image/jpeg"
            self._send(200, kind, data, {"X-Finest": "1"} if finest else {})
        elif path == "/depth":
            self._send_json({"disparity": viewer.depth(asked)})
        elif path == "/films":
            self._send_json({"name": viewer.film(asked)})
        else:
            self._send(404, "text/plain", b"There is nothing here.\n")

    def _delete(self, path: str) -> None:
        film = self._film(path)
        if film is not None:
            film[0].cancel(film[1])
        self._send_json({})

    def _film(self, path: str) -> tuple[Films, str] | None:
        name, films = path.removeprefix("/films/"), getattr(self.server.viewer, "films", None)  # none while it trains
        return (films, name) if films is not None and FILM.fullmatch(name) else None

    def _send_json(self, data: Any) -> None:
        self._send(200, "application/json", json.dumps(data, allow_nan=False).encode())

    def _send(self, code: int, kind: str, data: bytes | BinaryIO, extra: Mapping[str, str] | None = None) -> None:
        self.send_response(code)
        length = len(data) if isinstance(data, bytes) else os.fstat(data.fileno()).st_size
        fixed = {
            "Content-Type": kind, "Content-Length": str(length), "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin",
            "Content-Security-Policy": "frame-ancestors 'self'", "Referrer-Policy": "no-referrer", **(extra or {}),
        }  # fmt: skip
        for key, value in fixed.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if isinstance(data, bytes):
            self.wfile.write(data)
        else:
            shutil.copyfileobj(data, self.wfile)  # a film need not fit into memory for each visitor

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """Nothing: whoever looks at pictures is not written down."""

    def log_message(self, format: str, *args: Any) -> None:
        words = re.sub(r"[^\x20-\x7e]", "?", format % args)[:200]
        print(f"dofnerf: {self.client_address[0]}: {words}", file=sys.stderr, flush=True)


def _foreign(headers: Any) -> bool:
    return headers.get("Sec-Fetch-Site") not in (None, "same-origin", "none")


class Server(ThreadingHTTPServer):
    """Serves a viewer on the first free port from `port` on."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, viewer: Viewer, host: str, port: int, origins: Collection[str] = ()) -> None:
        self.viewer, self.guard = viewer, Guard(host, origins)
        self.room = threading.BoundedSemaphore(CONNECTIONS)
        if ":" in host:
            self.address_family = socket.AF_INET6
        for candidate in range(port, port + 50 if port else 1):
            try:
                super().__init__((host, candidate), Handler)
                break
            except OSError as error:
                if candidate == port + 49 or error.errno not in (98, 48, 10048):
                    raise OSError(error.errno, f"cannot serve there: {error.strerror}", f"{host}:{candidate}") from None

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self.room.acquire(blocking=False):
            return self.shutdown_request(request)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """One line; a visitor who leaves in the middle is none."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError | TimeoutError):
            words = " ".join(str(error).split())[:200]
            print(f"dofnerf: {client_address[0]}: {type(error).__name__}: {words}", file=sys.stderr, flush=True)

    def start(self) -> None:
        """Serve in a thread; returns at once."""
        threading.Thread(target=self.serve_forever, name="dofnerf-view", daemon=True).start()

    def stop(self) -> None:
        self.shutdown()
        self.server_close()


def jpeg(photo: np.ndarray) -> bytes:
    """A photo (H, W, 3), display values, as the page shows it."""
    file = io.BytesIO()
    Image.fromarray(to_bytes(photo)).save(file, "JPEG", quality=88)
    return file.getvalue()
