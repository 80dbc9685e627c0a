"""The loops of the tiny network. Names as in __init__.py; g_x is the gradient of x."""

from __future__ import annotations

import numpy as np

from dofnerf.optics.kernels import compiled

BLOCK = 256  # samples: a layer of 32 fits the first-level cache, all of them the second


@compiled
def _layer(weight, bias, x, start, count, out):
    """out[j, s] = bias[j] + Σ_c weight[j, c] · x[c, start + s]: two rows by four columns of weights at a time."""
    outs, ins = weight.shape
    for j in range(outs):
        for s in range(count):
            out[j, s] = bias[j]
    for c in range(0, ins - 3, 4):
        x0, x1 = x[c, start : start + count], x[c + 1, start : start + count]
        x2, x3 = x[c + 2, start : start + count], x[c + 3, start : start + count]
        for j in range(0, outs - 1, 2):
            u0, u1, u2, u3 = weight[j, c], weight[j, c + 1], weight[j, c + 2], weight[j, c + 3]
            v0, v1, v2, v3 = weight[j + 1, c], weight[j + 1, c + 1], weight[j + 1, c + 2], weight[j + 1, c + 3]
            p, q = out[j], out[j + 1]
            for s in range(count):
                a0, a1, a2, a3 = x0[s], x1[s], x2[s], x3[s]
                p[s] += u0 * a0 + u1 * a1 + u2 * a2 + u3 * a3
                q[s] += v0 * a0 + v1 * a1 + v2 * a2 + v3 * a3
        if outs % 2:
            j = outs - 1
            for s in range(count):
                out[j, s] += (
                    weight[j, c] * x0[s]
                    + weight[j, c + 1] * x1[s]
                    + weight[j, c + 2] * x2[s]
                    + weight[j, c + 3] * x3[s]
                )
    for c in range(ins - ins % 4, ins):
        for j in range(outs):
            for s in range(count):
                out[j, s] += weight[j, c] * x[c, start + s]


@compiled
def _relu(x, count):
    for j in range(x.shape[0]):
        for s in range(count):
            x[j, s] = x[j, s] if x[j, s] > np.float32(0) else np.float32(0)


@compiled
def _stop(g, x, count):
    """The gradient through a relu whose result was x."""
    for j in range(x.shape[0]):
        for s in range(count):
            g[j, s] = g[j, s] if x[j, s] > np.float32(0) else np.float32(0)


@compiled
def _outer(g, x, start, count, weight, bias):
    """weight[j, c] += Σ_s g[j, s] · x[c, start + s], bias[j] += Σ_s g[j, s]: two by four at a time."""
    outs, ins = weight.shape
    for j in range(outs):
        total = np.float32(0)
        for s in range(count):
            total += g[j, s]
        bias[j] += total
    for j in range(0, outs - 1, 2):
        p, q = g[j, :count], g[j + 1, :count]
        for c in range(0, ins - 3, 4):
            x0, x1 = x[c, start : start + count], x[c + 1, start : start + count]
            x2, x3 = x[c + 2, start : start + count], x[c + 3, start : start + count]
            u0 = u1 = u2 = u3 = v0 = v1 = v2 = v3 = np.float32(0)
            for s in range(count):
                a, b = p[s], q[s]
                u0 += a * x0[s]
                u1 += a * x1[s]
                u2 += a * x2[s]
                u3 += a * x3[s]
                v0 += b * x0[s]
                v1 += b * x1[s]
                v2 += b * x2[s]
                v3 += b * x3[s]
            weight[j, c] += u0
            weight[j, c + 1] += u1
            weight[j, c + 2] += u2
            weight[j, c + 3] += u3
            weight[j + 1, c] += v0
            weight[j + 1, c + 1] += v1
            weight[j + 1, c + 2] += v2
            weight[j + 1, c + 3] += v3
    for j in range(outs):
        odd = outs % 2 == 1 and j == outs - 1
        for c in range(0 if odd else ins - ins % 4, ins):
            total = np.float32(0)
            for s in range(count):
                total += g[j, s] * x[c, start + s]
            weight[j, c] += total


@compiled
def _forward_block(start, count, per_ray, x, seen, a1, a1_bias, a2, a2_bias, b1, b1_bias, hidden, features, mixed):  # noqa: PLR0913, PLR0917
    """All but the last layer for samples [start, start + count)."""
    _layer(a1, a1_bias, x, start, count, hidden)
    _relu(hidden, count)
    _layer(a2, a2_bias, hidden, 0, count, features)
    _layer(b1, b1_bias, features, 0, count, mixed)
    s = 0
    while s < count:
        ray = (start + s) // per_ray
        stop = min(count, (ray + 1) * per_ray - start)
        for j in range(mixed.shape[0]):
            v = seen[ray, j]
            for i in range(s, stop):
                mixed[j, i] += v
        s = stop
    _relu(mixed, count)


@compiled
def forward_chunks(  # noqa: PLR0913, PLR0917
    first, last, rays, per_ray, x, seen, a1, a1_bias, a2, a2_bias, b1, b1_bias, b2, b2_bias, out
):
    """out (4, N): raw colour and raw density, of the chunks [first, last) of `rays` rays of `per_ray` samples each."""
    samples = x.shape[1]
    hidden, mixed = np.empty((a1.shape[0], BLOCK), np.float32), np.empty((b1.shape[0], BLOCK), np.float32)
    features, colour = np.empty((a2.shape[0], BLOCK), np.float32), np.empty((b2.shape[0], BLOCK), np.float32)
    for start in range(first * rays * per_ray, min(last * rays * per_ray, samples), BLOCK):
        count = min(BLOCK, min(last * rays * per_ray, samples) - start)
        _forward_block(start, count, per_ray, x, seen, a1, a1_bias, a2, a2_bias, b1, b1_bias, hidden, features, mixed)
        _layer(b2, b2_bias, mixed, 0, count, colour)
        for j in range(b2.shape[0]):
            for s in range(count):
                out[j, start + s] = colour[j, s]
        for s in range(count):
            out[3, start + s] = features[0, s]


@compiled
def backward_chunks(  # noqa: PLR0913, PLR0917
    first, last, rays, per_ray, x, seen, a1, a1_bias, a2, a2_bias, b1, b1_bias, b2, b2_bias, pull, g_x, g_seen,
    g_a1, g_a1_bias, g_a2, g_a2_bias, g_b1, g_b1_bias, g_b2, g_b2_bias,
):  # fmt: skip
    """From `pull` (4, N), the gradients of `out`: g_x (C, N), g_seen (R, W), and per chunk those of the layers."""
    samples = x.shape[1]
    hidden, mixed = np.empty((a1.shape[0], BLOCK), np.float32), np.empty((b1.shape[0], BLOCK), np.float32)
    features = np.empty((a2.shape[0], BLOCK), np.float32)
    g_hidden, g_mixed, g_features = np.empty_like(hidden), np.empty_like(mixed), np.empty_like(features)
    g_in, g_colour = np.empty((x.shape[0], BLOCK), np.float32), np.empty((3, BLOCK), np.float32)
    a1_back, a2_back = np.ascontiguousarray(a1.T), np.ascontiguousarray(a2.T)
    b1_back, b2_back = np.ascontiguousarray(b1.T), np.ascontiguousarray(b2.T)
    none = np.zeros(x.shape[0] + a1.shape[0] + a2.shape[0], np.float32)
    for chunk in range(first, last):
        end = min((chunk + 1) * rays * per_ray, samples)
        for start in range(chunk * rays * per_ray, end, BLOCK):
            count = min(BLOCK, end - start)
            _forward_block(
                start, count, per_ray, x, seen, a1, a1_bias, a2, a2_bias, b1, b1_bias, hidden, features, mixed
            )
            for j in range(3):
                for s in range(count):
                    g_colour[j, s] = pull[j, start + s]
            _outer(g_colour, mixed, 0, count, g_b2[chunk], g_b2_bias[chunk])
            _layer(b2_back, none, g_colour, 0, count, g_mixed)
            _stop(g_mixed, mixed, count)
            s = 0
            while s < count:
                ray = (start + s) // per_ray
                stop = min(count, (ray + 1) * per_ray - start)
                for j in range(mixed.shape[0]):
                    total = np.float32(0)
                    for i in range(s, stop):
                        total += g_mixed[j, i]
                    g_seen[ray, j] += total
                s = stop
            _outer(g_mixed, features, 0, count, g_b1[chunk], g_b1_bias[chunk])
            _layer(b1_back, none, g_mixed, 0, count, g_features)
            for s in range(count):
                g_features[0, s] += pull[3, start + s]
            _outer(g_features, hidden, 0, count, g_a2[chunk], g_a2_bias[chunk])
            _layer(a2_back, none, g_features, 0, count, g_hidden)
            _stop(g_hidden, hidden, count)
            _outer(g_hidden, x, start, count, g_a1[chunk], g_a1_bias[chunk])
            _layer(a1_back, none, g_hidden, 0, count, g_in)
            for c in range(x.shape[0]):
                for s in range(count):
                    g_x[c, start + s] = g_in[c, s]
