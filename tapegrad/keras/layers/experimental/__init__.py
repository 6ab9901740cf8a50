"""`keras.layers.experimental`: where the preprocessing layers were in earlier versions of Keras."""

from tapegrad.keras.layers.experimental import preprocessing

__all__ = ["preprocessing"]
