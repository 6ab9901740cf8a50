"""Pictures of models and trainings, and helpers for data, under Keras' names."""

from tapegrad.keras.utils.arrays import normalize, pad_sequences, to_categorical
from tapegrad.keras.utils.history_plot import plot_history
from tapegrad.keras.utils.model_plot import plot_model
from tapegrad.keras.utils.picture import Picture
from tapegrad.keras.utils.randomness import set_random_seed
from tapegrad.keras.utils.splitting import split_dataset

__all__ = [
    "Picture",
    "normalize",
    "pad_sequences",
    "plot_history",
    "plot_model",
    "set_random_seed",
    "split_dataset",
    "to_categorical",
]
