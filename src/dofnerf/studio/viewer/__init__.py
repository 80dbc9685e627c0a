"""A trained scene in the browser: a small HTTP server that gives out one page, its scene, pictures and films.

The browser draws splats itself (dofnerf/web/walk); of other fields it gets pictures (renderer.py). Films of keyframes
are made here (films.py). Only the page's own Host and Origin are answered (guard in server.py).
"""
