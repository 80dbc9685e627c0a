"""What programs of others make of our splat files, and we of theirs.

plyfile comes with the tests. The others are npm's, and are used only where they are installed already: in node_modules
of the checkout, or in the folder that DOFNERF_NODE names (npm install --prefix FOLDER gltf-validator
@playcanvas/splat-transform). Nothing is fetched by the tests.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial import cKDTree

from dofnerf.files.ply import Drawing, Splats, write_splats
from dofnerf.files.splats import read_splat_file, to_opacities
from dofnerf.files.splats.compressed_ply import write_compressed_ply
from dofnerf.files.splats.gltf import write_glb
from dofnerf.files.splats.sog import write_sog
from dofnerf.files.splats.splat import write_splat
from dofnerf.files.splats.spz import write_spz
from dofnerf.files.splats.turning import turned

ROOT = Path(__file__).parents[2]
# Largest errors of places, log sizes, rotations, opacities and harmonics that the bits of each format allow.
NEAR = {
    "ply": (1e-5, 1e-5, 1e-5, 1e-5, 1e-5), "compressed.ply": (0.02, 0.01, 0.003, 0.004, 0.02),
    "spz": (1e-3, 0.04, 0.003, 0.003, 0.02), "splat": (1e-5, 1e-5, 0.02, 0.003, 0.01),
    "sog": (2e-3, 0.06, 0.012, 0.005, 0.05), "glb": (1e-5, 1e-5, 1e-5, 1e-5, 1e-5),
}  # fmt: skip


@pytest.fixture(scope="module")
def splats():
    dice, count = np.random.default_rng(0), 700
    turn = dice.normal(size=(count, 4))
    arrays = (
        3 * dice.normal(size=(count, 3)), dice.uniform(-6, -1, (count, 3)),
        turn / np.linalg.norm(turn, axis=1, keepdims=True), 2 * dice.normal(size=count),
        dice.uniform(-0.9, 0.9, (count, 9, 3)),
    )  # fmt: skip
    return Splats(*(array.astype(np.float32) for array in arrays))


def node_program(package: str, *inside: str) -> list[str]:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    for folder in filter(None, (os.environ.get("DOFNERF_NODE"), ROOT)):
        found = Path(folder) / "node_modules" / package
        if found.is_dir():
            return ["node", str(found.joinpath(*inside))]
    pytest.skip(f"{package} is not installed: npm install --prefix FOLDER {package}, and DOFNERF_NODE=FOLDER")


def write(path: Path, splats: Splats) -> Path:
    kind, drawing = path.name.partition(".")[2], Drawing()
    {
        "ply": lambda: write_splats(path, splats, drawing),
        "compressed.ply": lambda: write_compressed_ply(path, splats),
        "spz": lambda: write_spz(path, splats), "splat": lambda: write_splat(path, splats),
        "sog": lambda: write_sog(path, splats, drawing), "glb": lambda: write_glb(path, splats, drawing),
    }[kind]()  # fmt: skip
    return path


def assert_near(found: Splats, splats: Splats, kind: str) -> None:
    """The same splats in any order."""
    _, order = cKDTree(found.means).query(splats.means)
    sign = np.sign((found.rotations[order] * splats.rotations).sum(1, keepdims=True))
    bases = found.harmonics.shape[1]
    pairs = (
        (found.means[order], splats.means), (found.log_scales[order], splats.log_scales),
        (found.rotations[order] * sign, splats.rotations),
        (to_opacities(found.opacities[order]), to_opacities(splats.opacities)),
        (found.harmonics[order][:, :1], splats.harmonics[:, :1]) if kind in ("splat", "sog")
        else (found.harmonics[order], splats.harmonics[:, :bases]),
    )  # fmt: skip
    for (one, other), most in zip(pairs, NEAR[kind], strict=True):
        clipped = np.clip(other, *((-1.78, 1.78) if kind == "splat" and other is pairs[4][1] else (-1e9, 1e9)))
        assert np.abs(one - clipped).max() <= most


@pytest.mark.parametrize("kind", [*NEAR])
def test_there_and_back(tmp_path, splats, kind):
    assert_near(read_splat_file(write(tmp_path / f"a.{kind}", splats))[0], splats, kind)


@pytest.mark.parametrize("kind", [kind for kind in NEAR if kind != "glb"])
def test_splat_transform_reads_ours(tmp_path, splats, kind):
    program = node_program("@playcanvas/splat-transform", "bin", "cli.mjs")
    ours = write(tmp_path / f"a.{kind}", splats)
    subprocess.run([*program, "-q", "-w", ours, tmp_path / "b.ply"], check=True, capture_output=True)
    assert_near(read_splat_file(tmp_path / "b.ply")[0], splats, kind)


@pytest.mark.parametrize("kind", ["compressed.ply", "spz", "glb"])
def test_we_read_those_of_splat_transform(tmp_path, splats, kind):
    program = node_program("@playcanvas/splat-transform", "bin", "cli.mjs")
    if kind == "spz":
        pytest.importorskip("zstandard", reason="zstandard is not installed (pip install 'dofnerf[spz]')")
    write_splats(tmp_path / "a.ply", splats)
    command = [*program, "-q", "-w", "-g", "cpu", tmp_path / "a.ply", tmp_path / f"b.{kind}"]
    subprocess.run(command, check=True, capture_output=True)
    found, _ = read_splat_file(tmp_path / f"b.{kind}")
    if kind == "glb":  # it turns splats by half about z, for y is up in glTF
        found = turned(found, (0.0, 0.0, 0.0, 1.0))
    if kind == "spz":  # its harmonics have 4 and 5 bits
        found = Splats(*(getattr(found, name) for name in list(vars(found))[:4]), found.harmonics[:, :1])
    assert_near(found, splats, kind)


def test_khronos_finds_no_fault(tmp_path, splats):
    """Its validator of 2024 does not know the extension, and complains of the names of its attributes; of nothing
    else."""
    program = Path(node_program("gltf-validator")[1])
    write(tmp_path / "a.glb", splats)
    words = "const bytes = new Uint8Array(require('fs').readFileSync(process.argv[1]));"
    words += "require('gltf-validator').validateBytes(bytes).then(report => console.log(JSON.stringify(report)))"
    command = ["node", "-e", words, tmp_path / "a.glb"]
    report = json.loads(subprocess.run(command, cwd=program.parents[1], check=True, capture_output=True).stdout)
    others = [
        message
        for message in report["issues"]["messages"]
        if message["severity"] < 2 and "KHR_gaussian_splatting:" not in message["pointer"]
    ]
    assert not others and not report["issues"]["truncated"]
    assert report["info"]["totalVertexCount"] == len(splats)


def test_plyfile_reads_ours(tmp_path, splats):
    plyfile = pytest.importorskip("plyfile", reason="plyfile is not installed (pip install plyfile)")
    table = plyfile.PlyData.read(str(write(tmp_path / "a.ply", splats)))["vertex"]
    np.testing.assert_array_equal(np.stack([table[axis] for axis in "xyz"], 1), splats.means)
    np.testing.assert_array_equal(table["f_rest_8"], splats.harmonics[:, 1, 1])  # channel by channel, eight each
    packed = plyfile.PlyData.read(str(write(tmp_path / "a.compressed.ply", splats)))
    assert [len(packed[name].data) for name in ("chunk", "vertex", "sh")] == [3, 700, 700]


def test_nodes_that_multiply_are_refused(tmp_path, splats):
    """Each node has the next one twice as a child: 2^60 meshes in a small file."""
    some = Splats(*(values[:1] for values in vars(splats).values()))
    data = write(tmp_path / "a.glb", some).read_bytes()
    length = int.from_bytes(data[12:16], "little")
    asset = json.loads(data[20 : 20 + length])
    asset["nodes"] = [{"mesh": 0, "children": [i + 1, i + 1]} for i in range(60)] + [{"mesh": 0}]
    words = json.dumps(asset).encode()
    words += b" " * (-len(words) % 4)
    (tmp_path / "b.glb").write_bytes(
        data[:12] + len(words).to_bytes(4, "little") + data[16:20] + words + data[20 + length :]
    )
    with pytest.raises(ValueError, match=r"b\.glb.*(absurdly many|too often)"):
        read_splat_file(tmp_path / "b.glb")
