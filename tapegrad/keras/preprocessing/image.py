"""keras.preprocessing.image: images as arrays, as Pillow's images and as files."""

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.keras.preprocessing.image_generator import ImageDataGenerator
from tapegrad.keras.utils.images import (
    array_to_img,
    img_to_array,
    load_img,
    save_img,
    smart_resize,
)

__all__ = [
    "ImageDataGenerator",
    "array_to_img",
    "img_to_array",
    "load_img",
    "save_img",
    "smart_resize",
]

_check_calls(globals(), __all__)
