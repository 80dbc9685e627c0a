"""One self-contained page about a run or an experiment: `dofnerf report`."""
