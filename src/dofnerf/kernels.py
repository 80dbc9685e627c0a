"""Compile numba kernels, and run them on bands of rows in threads.

They live in optics, which imports nothing else of ours so that it can be lifted out; everybody else takes them from here.
"""

from dofnerf.optics.scatter.jobs import compiled, run_jobs

__all__ = ["compiled", "run_jobs"]
