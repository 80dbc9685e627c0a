"""What every field of the folder must do; a new file is found and tested by itself."""

from dataclasses import fields as members
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from cameras_around import facing_forward
from dofnerf.models.volume import CoarseFineConfig, DensityGridConfig, VolumeModel
from dofnerf.models.volume.fields import BRIGHTEST, kind, kinds
from dofnerf.models.volume.rays import camera_rays, choose_space

SMALL = {"depth": 3, "width": 16, "levels": 4, "log2_size": 9, "base": 4, "finest": 16, "point_octaves": 4}


def small(name):
    """The field's config, everything that has a size made small."""
    config = kind(name).config
    known = {member.name for member in members(config)}
    return replace(config(), **{key: value for key, value in SMALL.items() if key in known})


def unit(*shape, dtype=torch.float32):
    return torch.nn.functional.normalize(torch.randn(*shape, 3, dtype=dtype), dim=-1)


@pytest.fixture(autouse=True)
def one_thread():
    """Tiny tensors: waking a second thread costs more than it does."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(params=list(kinds()))
def name(request):
    return request.param


def test_the_folder_is_found():
    assert {"nerf", "dsnerf", "hash"} <= set(kinds())
    with pytest.raises(ValueError, match="there is no field 'mesh'; there are dsnerf"):
        kind("mesh")


def test_shapes_and_ranges(name):
    torch.manual_seed(0)
    field = kind(name).make(small(name))
    with torch.no_grad():
        for parameter in field.parameters():
            parameter.add_(torch.randn_like(parameter))
    for shape in ((5,), (4, 3), (2, 3, 4), (0,), (3, 0)):
        points = 2.4 * torch.rand(*shape, 3) - 1.2  # a little outside too
        colour, density = field(points, unit(*shape))
        assert colour.shape == (*shape, 3)
        assert density.shape == shape
        assert torch.isfinite(colour).all()
        assert torch.isfinite(density).all()
        assert (density >= 0).all()
        assert ((colour >= 0) & (colour <= BRIGHTEST)).all()
        torch.testing.assert_close(field.density(points), density)
    points, direction = 2 * torch.rand(6, 5, 3) - 1, unit(6, 1)
    one = field(points, direction)
    torch.testing.assert_close(one, field(points, direction.expand(6, 5, 3)))
    assert (one[0] - field(points, unit(6, 1))[0]).abs().max() > 1e-3, "colour must depend on the direction"


def test_gradients_by_finite_differences(name):
    torch.manual_seed(1)
    field = kind(name).make(small(name)).double()
    points = (1.8 * torch.rand(4, 3, dtype=torch.float64) - 0.9).requires_grad_()
    directions = unit(4, dtype=torch.float64).requires_grad_()
    # relu and grids have kinks: a small step, so that it crosses none.
    assert torch.autograd.gradcheck(field, (points, directions), eps=1e-7, atol=1e-5, rtol=1e-3)
    names, values = zip(*field.named_parameters(), strict=True)

    def with_parameters(*parameters):
        return torch.func.functional_call(
            field, dict(zip(names, parameters, strict=True)), (points.detach(), directions.detach())
        )

    assert torch.autograd.gradcheck(with_parameters, values, eps=1e-7, atol=1e-5, rtol=1e-3, fast_mode=True)


def test_the_fast_path_gives_the_same_gradients(name):
    """float32 (whatever kernel runs there) against float64 (plain PyTorch)."""
    torch.manual_seed(2)
    field = kind(name).make(small(name))
    double = kind(name).make(small(name)).double()
    double.load_state_dict(field.state_dict())
    points, directions = 1.8 * torch.rand(300, 3) - 0.9, unit(300)
    found = []
    for one, dtype in ((field, torch.float32), (double, torch.float64)):
        at = points.to(dtype, copy=True).requires_grad_()
        colour, density = one(at, directions.to(dtype))
        ((colour * torch.tensor([1.0, 2.0, 3.0]).to(dtype)).sum(-1) * density).sum().backward()
        found.append([at.grad, *(parameter.grad for parameter in one.parameters())])
    for fast, slow in zip(*found, strict=True):
        difference = (fast - slow).abs()
        # A relu or a cell that rounding moved to its other side may disagree; the mass may not.
        assert difference.mean() <= 1e-4 * slow.abs().mean() + 1e-7


def test_overfits_a_tiny_scene(name):
    torch.manual_seed(3)
    cameras = facing_forward(3, size=(8, 10), focal=9.0)
    space = choose_space(cameras, 1.5, 6)
    sampling = DensityGridConfig(12, 16, 16) if kind(name).sampling == "density-grid" else CoarseFineConfig(12, 12)
    model = VolumeModel(kind(name), small(name), space, sampling)
    rays = [camera_rays(camera).reshape(-1) for camera in cameras]
    truth = [_two_squares(r) for r in rays]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(0)
    first = last = 0.0
    for step in range(120):
        if step % 16 == 0:
            model.refresh(1.0 if step < 64 else 0.25, generator)
        i = step % 3
        results = model(rays[i], generator)
        loss = sum((result.colour - truth[i]).square().mean() for result in results)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        last = float(loss.detach())
        first = first or last
    assert last < 0.15 * first
    assert last / len(results) < 0.012


def _two_squares(rays):
    """What rays see of a red square at z = −2 in front of a blue and green wall at z = −5."""
    near, far = (rays.at(((z - rays.origins[:, 2]) / rays.directions[:, 2])[:, None])[:, 0] for z in (-2.0, -5.0))
    wall = torch.stack([torch.full_like(far[:, 0], 0.1), (far[:, 1] > 0).float(), 0.3 + 0.5 * (far[:, 0] > 0)], dim=-1)
    return torch.where((near[:, :2].abs().amax(-1) < 0.4)[:, None], torch.tensor([0.9, 0.1, 0.1]), wall)


def test_saves_and_loads(name, tmp_path):
    torch.manual_seed(4)
    space = choose_space(facing_forward(3), 1.5, 6)
    model, other = (VolumeModel(kind(name), small(name), space) for _ in range(2))
    model.refresh()
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    other.load_state_dict(load_file(tmp_path / "model.safetensors"))
    rays = camera_rays(facing_forward(1)[0])
    for a, b in zip(model(rays)[-1], other(rays)[-1], strict=True):
        assert torch.equal(a, b)
