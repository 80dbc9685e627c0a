"""Chess pieces, turned on a lathe; all stand on y = 0 with a base radius near 0.09."""

from __future__ import annotations

import numpy as np

from dofnerf.lab.synth.geometry import Mesh, box, join, lathe, loft, smooth_curve, sphere

_BASE = [(0.0, 0.0), (0.095, 0.0), (0.1, 0.012), (0.098, 0.03), (0.088, 0.036), (0.084, 0.05), (0.062, 0.066)]


def pawn() -> Mesh:
    """0.27 high."""
    neck = [(0.040, 0.10), (0.032, 0.15), (0.034, 0.165), (0.058, 0.172), (0.058, 0.180), (0.034, 0.186)]
    return lathe([*_BASE, *neck, (0.050, 0.205), (0.055, 0.228), (0.045, 0.252), (0.022, 0.268), (0.0, 0.272)])


def rook() -> Mesh:
    """0.31 high, with a notched crown."""
    body = [
        (0.052, 0.11),
        (0.046, 0.19),
        (0.05, 0.21),
        (0.072, 0.222),
        (0.074, 0.24),
        (0.074, 0.27),
        (0.045, 0.272),
        (0.0, 0.262),
    ]
    merlon = box(0.03, 0.04, 0.024).placed(y=0.268, z=0.06)
    return join([lathe([*_BASE, *body]), *(merlon.placed(turn=60.0 * k) for k in range(6))])


def bishop() -> Mesh:
    """0.40 high."""
    body = [
        (0.042, 0.12),
        (0.030, 0.20),
        (0.032, 0.225),
        (0.060, 0.235),
        (0.060, 0.246),
        (0.034, 0.254),
        (0.048, 0.285),
    ]
    head = [(0.053, 0.31), (0.046, 0.34), (0.026, 0.37), (0.010, 0.378), (0.018, 0.388), (0.014, 0.402), (0.0, 0.406)]
    return lathe([*_BASE, *body, *head])


def queen() -> Mesh:
    """0.49 high, with a beaded crown."""
    body = [(0.046, 0.13), (0.034, 0.24), (0.036, 0.275), (0.066, 0.285), (0.066, 0.297), (0.040, 0.306), (0.044, 0.34)]
    crown = [(0.070, 0.415), (0.074, 0.425), (0.050, 0.425), (0.032, 0.445), (0.012, 0.456), (0.0, 0.458)]
    beads = [sphere(0.014, 12).placed(y=0.43, z=0.066).placed(turn=40.0 * k) for k in range(9)]
    return join([lathe([*_BASE, *body, *crown]), *beads, sphere(0.02, 12).placed(y=0.47)])


def king() -> Mesh:
    """0.56 high, with a cross."""
    body = [(0.048, 0.13), (0.036, 0.26), (0.038, 0.295), (0.070, 0.305), (0.070, 0.318), (0.042, 0.327), (0.046, 0.36)]
    crown = [(0.068, 0.435), (0.066, 0.448), (0.036, 0.462), (0.012, 0.470), (0.0, 0.472)]
    cross = [box(0.024, 0.095, 0.02).placed(y=0.465), box(0.07, 0.024, 0.02).placed(y=0.51)]
    return join([lathe([*_BASE, *body, *crown]), *cross])


def knight() -> Mesh:
    """0.38 high: a lathed foot under a lofted head that looks towards +x."""
    foot = lathe([*_BASE, (0.05, 0.08), (0.066, 0.088), (0.066, 0.1), (0.0, 0.104)])
    # height, back of the head, front of the head, half thickness
    profile = np.array(
        [
            (0.10, -0.055, 0.050, 0.054),
            (0.16, -0.075, 0.030, 0.052),
            (0.21, -0.080, 0.030, 0.048),
            (0.235, -0.078, 0.070, 0.046),
            (0.255, -0.074, 0.105, 0.042),
            (0.285, -0.066, 0.105, 0.042),
            (0.31, -0.056, 0.070, 0.036),
            (0.335, -0.045, 0.032, 0.03),
            (0.36, -0.035, 0.005, 0.016),
            (0.385, -0.026, -0.014, 0.004),
        ]
    )
    height, back, front, thick = smooth_curve(profile, 4).T
    head = loft(height, np.stack([(front - back) / 2, thick], axis=-1), (front + back) / 2)
    return join([foot, head])
