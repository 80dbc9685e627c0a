"""PSNR and SSIM against scikit-image; LPIPS against its reference values."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from dofnerf.evaluate import lpips
from dofnerf.evaluate.metrics import psnr, ssim
from dofnerf.files import read_image


@pytest.fixture
def pair():
    rng = np.random.default_rng(0)
    row, column = np.mgrid[:41, :57]
    truth = 0.5 + 0.4 * np.stack([np.sin(row / 3 + c) * np.cos(column / 5) for c in range(3)], axis=-1)
    return np.clip(truth + rng.normal(0, 0.08, truth.shape), 0, 1).astype(np.float32), truth.astype(np.float32)


def test_psnr_is_that_of_scikit_image(pair):
    assert psnr(*pair) == pytest.approx(peak_signal_noise_ratio(pair[1], pair[0], data_range=1.0), abs=1e-4)


def test_ssim_is_that_of_scikit_image(pair):
    theirs = structural_similarity(
        *pair, gaussian_weights=True, sigma=1.5, use_sample_covariance=False, data_range=1.0, channel_axis=2
    )
    assert theirs < 0.9
    assert ssim(*pair) == pytest.approx(theirs, abs=1e-5)


def test_values_beyond_white_count_as_white(pair):
    lamp = pair[0].copy()
    lamp[:5] = 7.0
    white = np.minimum(lamp, 1)
    assert psnr(lamp, pair[1]) == psnr(white, pair[1])
    assert ssim(lamp, pair[1]) == ssim(white, pair[1])


def test_a_mask_leaves_the_rest_out(pair):
    image, truth = pair
    left = np.zeros(truth.shape[:2], bool)
    left[:, :20] = True
    spoiled = image.copy()
    spoiled[:, 20:] = 0
    assert psnr(spoiled, truth, left) == pytest.approx(
        peak_signal_noise_ratio(truth[:, :20], image[:, :20], data_range=1.0)
    )
    assert psnr(spoiled, truth, ~left) < psnr(image, truth, ~left) - 3
    # A window reaches five pixels to the side: only those wholly on the left are as they were.
    left[:, 15:] = False
    assert ssim(spoiled, truth, left) == pytest.approx(ssim(image, truth, left))
    assert ssim(spoiled, truth, ~left) < ssim(image, truth, ~left) - 0.1
    assert math.isnan(psnr(image, truth, np.zeros_like(left)))
    assert math.isnan(ssim(image, truth, np.zeros_like(left)))


def test_ssim_refuses_what_is_smaller_than_its_window():
    with pytest.raises(ValueError, match="9×10"):
        ssim(np.zeros((10, 9, 3)), np.zeros((10, 9, 3)))


@pytest.fixture(scope="module")
def weights(captures):
    path = captures / "lpips" / "alexnet_lpips_v0.1.npz"
    if not path.is_file():
        pytest.skip("no weights of LPIPS among the captures")
    return path


def test_lpips_gives_the_reference_values(weights):
    distance = lpips.from_file(weights)
    reference, worse, better = (read_image(weights.parent / f"ex_{name}.png") for name in ("ref", "p0", "p1"))
    assert distance(worse, reference) == pytest.approx(0.7219, abs=6e-5)
    assert distance(better, reference) == pytest.approx(0.1376, abs=6e-5)
    assert distance(reference, reference) == 0


def test_lpips_reads_what_the_torch_hub_keeps(weights, tmp_path, monkeypatch):
    """The same numbers under torchvision's and lpips' names, in their files, from the hub's cache."""
    ours = lpips.from_file(weights)
    trunk = {"classifier.1.weight": torch.zeros(2)}
    for i, n in enumerate((0, 3, 6, 8, 10)):
        trunk |= {f"features.{n}.weight": ours.kernels[i], f"features.{n}.bias": ours.biases[i]}
    heads = {f"lin{i}.model.1.weight": head.reshape(1, -1, 1, 1) for i, head in enumerate(ours.heads)}
    cache = tmp_path / "hub" / "checkpoints"
    cache.mkdir(parents=True)
    torch.save(trunk, cache / "alexnet-owt-7be5be79.pth")
    torch.save(heads, cache / "lpips-v0.1-alex.pth")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.delenv("DOFNERF_LPIPS", raising=False)
    reference, worse = (read_image(weights.parent / f"ex_{name}.png") for name in ("ref", "p0"))
    assert lpips.find_weights()(worse, reference) == pytest.approx(0.7219, abs=6e-5)
    (cache / "alexnet-owt-7be5be79.pth").write_bytes(b"PK\3\4 half a file")
    with pytest.raises(lpips.NoWeights, match=r"alexnet-owt.*damaged"):
        lpips.find_weights()


def test_lpips_without_weights_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.delenv("DOFNERF_LPIPS", raising=False)
    with pytest.raises(lpips.NoWeights, match="--lpips-weights"):
        lpips.find_weights()
    monkeypatch.setenv("DOFNERF_LPIPS", str(tmp_path / "none.npz"))
    with pytest.raises(lpips.NoWeights, match=r"none\.npz: there is no such file"):
        lpips.find_weights()


@pytest.mark.parametrize("content", ["text", "others", "bomb", "shapes"])
def test_lpips_refuses_files_that_are_something_else(content, tmp_path):
    path = tmp_path / "weights.npz"
    if content == "text":
        path.write_text("not weights")
    elif content == "others":
        np.savez(path, something=np.zeros(3))
    elif content == "bomb":  # 300 MB of nothing in 0.3 MB
        np.savez_compressed(path, **{"AlexNet_0/Conv_0/kernel": np.zeros(300 << 20, np.uint8)})
    else:
        shape = {"kernel": (11, 11, 3, 8), "bias": (8,)}
        parts = {
            f"AlexNet_0/Conv_{i}/{name}": np.zeros(size, np.float32) for i in range(5) for name, size in shape.items()
        }
        parts |= {f"NetLinLayer_{i}/Conv_0/kernel": np.zeros((1, 1, 8, 1), np.float32) for i in range(5)}
        np.savez(path, **parts)
    why = "too large when unpacked" if content == "bomb" else ""
    with pytest.raises(lpips.NoWeights, match=rf"weights\.npz: not .*LPIPS.*{why}"):
        lpips.from_file(path)


def test_a_download_that_fails_is_one_line(tmp_path, monkeypatch):
    def refuse(url, path, **_):
        raise OSError("no route")

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.delenv("DOFNERF_LPIPS", raising=False)
    monkeypatch.setattr(torch.hub, "download_url_to_file", refuse)
    with pytest.raises(lpips.NoWeights, match=r"alexnet.*cannot be fetched \(no route\)"):
        lpips.find_weights(fetch=True)


def test_weights_of_double_precision_give_the_same():
    generator = torch.Generator().manual_seed(0)
    shapes = [*lpips._SHAPES]
    parts = [
        [torch.rand(shape, generator=generator) * 0.01 for shape in kind]
        for kind in (shapes, *([s[:1] for s in shapes],) * 2)
    ]
    image, truth = (np.random.default_rng(k).uniform(0, 1, (40, 48, 3)).astype(np.float32) for k in (0, 1))
    single = lpips.Lpips(*parts, "here")(image, truth)
    assert (
        single > 0 and lpips.Lpips(*([one.double() for one in kind] for kind in parts), "here")(image, truth) == single
    )
