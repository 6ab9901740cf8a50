"""keras.ops.image: resizing, cropping, colours and transforms of images."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tapegrad.core.checked_calls import check_function
from tapegrad.keras.absent import absent_name as _absent_name
from tapegrad.keras.ops import image_functions, image_measures, image_warps
from tapegrad.keras.ops.operation import operation


def _operation(function: Callable[..., Any]) -> Callable[..., Any]:
    return operation(function.__name__, check_function(function))


affine_transform = _operation(image_functions.affine_transform)
crop_images = _operation(image_functions.crop_images)
elastic_transform = _operation(image_warps.elastic_transform)
extract_patches = _operation(image_functions.extract_patches)
extract_patches_3d = _operation(image_measures.extract_patches_3d)
gaussian_blur = _operation(image_functions.gaussian_blur)
hsv_to_rgb = _operation(image_functions.hsv_to_rgb)
map_coordinates = _operation(image_functions.map_coordinates)
pad_images = _operation(image_functions.pad_images)
perspective_transform = _operation(image_functions.perspective_transform)
resize = _operation(image_functions.resize)
rgb_to_grayscale = _operation(image_functions.rgb_to_grayscale)
rgb_to_hsv = _operation(image_functions.rgb_to_hsv)
scale_and_translate = _operation(image_warps.scale_and_translate)
sobel_edges = _operation(image_measures.sobel_edges)
ssim = _operation(image_measures.ssim)

__all__ = [
    "affine_transform",
    "crop_images",
    "elastic_transform",
    "extract_patches",
    "extract_patches_3d",
    "gaussian_blur",
    "hsv_to_rgb",
    "map_coordinates",
    "pad_images",
    "perspective_transform",
    "resize",
    "rgb_to_grayscale",
    "rgb_to_hsv",
    "scale_and_translate",
    "sobel_edges",
    "ssim",
]


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise _absent_name("keras.ops.image", name, __all__)
