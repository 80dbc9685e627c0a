"""What each photo has of its own and is learned along with the scene. One file a quantity; it sets `QUANTITY`."""

from dofnerf.train.photos.base import PhotoQuantities, PhotoQuantity, quantities, register

__all__ = ["PhotoQuantities", "PhotoQuantity", "quantities", "register"]
