"""What tests of the verbs look at: what a command printed, and how sharp a picture is."""

import numpy as np

from dofnerf.cli import main


def printed(capfd, *arguments) -> str:
    """Runs the command, which must succeed → what it printed."""
    capfd.readouterr()
    code = main([*map(str, arguments)])
    captured = capfd.readouterr()
    assert code == 0, captured.err
    return captured.out


def sharpness(image: np.ndarray) -> float:
    """Mean square of the Laplacian."""
    inner = image[1:-1, 1:-1]
    around = image[:-2, 1:-1] + image[2:, 1:-1] + image[1:-1, :-2] + image[1:-1, 2:]
    return float(np.square(4 * inner - around).mean())
