"""How good a run is: figures (`dofnerf eval`), the paper's experiments (`dofnerf bench`), a page to see (`dofnerf
report`)."""
