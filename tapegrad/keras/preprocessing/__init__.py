"""keras.preprocessing: the names that `keras.utils` has, too."""

from tapegrad.keras.preprocessing import image, sequence, text
from tapegrad.keras.utils.image_dataset import image_dataset_from_directory
from tapegrad.keras.utils.text_dataset import text_dataset_from_directory
from tapegrad.keras.utils.timeseries import timeseries_dataset_from_array

__all__ = [
    "image",
    "image_dataset_from_directory",
    "sequence",
    "text",
    "text_dataset_from_directory",
    "timeseries_dataset_from_array",
]
