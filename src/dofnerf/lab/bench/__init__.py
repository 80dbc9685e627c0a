"""The paper's experiments, run by anyone: `dofnerf bench`.

An experiment plans cells (`plan`) and makes tables and figures of what they found (`conclude`). A cell is one piece of
work on one scene; it keeps what it found, so that it is never done twice, and any engine may do it.
"""
