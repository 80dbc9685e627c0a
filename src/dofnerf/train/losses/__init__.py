"""Losses that are added to a method's own, whatever the model is. One file a loss; it sets `LOSS`.

Losses that belong to one kind of model are in `models.losses`, where its steps weigh them.
"""

from dofnerf.train.losses.base import Loss, losses, register

__all__ = ["Loss", "losses", "register"]
