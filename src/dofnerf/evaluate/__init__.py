"""How good a run is: metrics, scores (`dofnerf eval`) and a page about a run (`dofnerf report`)."""
