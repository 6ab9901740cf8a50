"""TensorFlow's `tf.image` names: resizing, cropping, colours, similarity, boxes.

Images have the shape (height, width, channels), and batches of them an axis before it. Files of
images are left to other libraries, such as Pillow.
"""

from typing import Any as _Any

from tapegrad.absent import absence as _absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.io.images import (
    decode_bmp,
    decode_image,
    decode_jpeg,
    decode_png,
    encode_jpeg,
    encode_png,
)
from tapegrad.io.jpeg import (
    adjust_jpeg_quality,
    decode_and_crop_jpeg,
    decode_gif,
    extract_jpeg_shape,
    is_jpeg,
    random_jpeg_quality,
    stateless_random_jpeg_quality,
)
from tapegrad.ops.image.adjustments import (
    adjust_brightness,
    adjust_contrast,
    adjust_gamma,
    adjust_hue,
    adjust_saturation,
    per_image_standardization,
)
from tapegrad.ops.image.boxes import (
    combined_non_max_suppression,
    non_max_suppression,
    non_max_suppression_overlaps,
    non_max_suppression_padded,
    non_max_suppression_with_scores,
)
from tapegrad.ops.image.colours import (
    grayscale_to_rgb,
    hsv_to_rgb,
    rgb_to_grayscale,
    rgb_to_hsv,
    rgb_to_yiq,
    rgb_to_yuv,
    yiq_to_rgb,
    yuv_to_rgb,
)
from tapegrad.ops.image.cropping import (
    central_crop,
    crop_to_bounding_box,
    extract_patches,
    pad_to_bounding_box,
    resize_with_crop_or_pad,
)
from tapegrad.ops.image.drawn_boxes import draw_bounding_boxes
from tapegrad.ops.image.edges import image_gradients, sobel_edges, total_variation
from tapegrad.ops.image.orientation import flip_left_right, flip_up_down, rot90, transpose
from tapegrad.ops.image.pixels import convert_image_dtype
from tapegrad.ops.image.random_changes import (
    random_brightness,
    random_contrast,
    random_crop,
    random_flip_left_right,
    random_flip_up_down,
    random_hue,
    random_saturation,
    stateless_random_brightness,
    stateless_random_contrast,
    stateless_random_crop,
    stateless_random_flip_left_right,
    stateless_random_flip_up_down,
    stateless_random_hue,
    stateless_random_saturation,
)
from tapegrad.ops.image.resizing import ResizeMethod, resize, resize_with_pad
from tapegrad.ops.image.sampled_boxes import (
    sample_distorted_bounding_box,
    stateless_sample_distorted_bounding_box,
)
from tapegrad.ops.image.sampling import crop_and_resize
from tapegrad.ops.image.similarity import psnr, ssim, ssim_multiscale

_FILES = "Read and write files with Pillow, e.g. numpy.asarray(PIL.Image.open(path))."
# What is offered instead of TensorFlow's names that are not here.
_INSTEAD = {
    "adjust_jpeg_quality": _FILES,
    "decode_and_crop_jpeg": _FILES,
    "decode_gif": _FILES,
    "extract_glimpse": "Use crop_and_resize, whose boxes may extend beyond the image.",
    "extract_jpeg_shape": _FILES,
    "generate_bounding_box_proposals": "Use crop_and_resize and non_max_suppression.",
    "is_jpeg": _FILES,
    "random_jpeg_quality": _FILES,
    "stateless_random_jpeg_quality": _FILES,
}


def __getattr__(name: str) -> _Any:
    if name in _INSTEAD:
        raise AttributeError(f"tapegrad.image does not offer {name!r}. {_INSTEAD[name]}")
    raise _absence("image", name)


__all__ = [
    "ResizeMethod", "adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue",
    "adjust_jpeg_quality", "adjust_saturation", "central_crop", "combined_non_max_suppression",
    "convert_image_dtype", "crop_and_resize", "crop_to_bounding_box", "decode_and_crop_jpeg",
    "decode_bmp", "decode_gif", "decode_image", "decode_jpeg", "decode_png", "draw_bounding_boxes",
    "encode_jpeg", "encode_png", "extract_jpeg_shape", "extract_patches", "flip_left_right",
    "flip_up_down", "grayscale_to_rgb", "hsv_to_rgb", "image_gradients", "is_jpeg",
    "non_max_suppression", "non_max_suppression_overlaps", "non_max_suppression_padded",
    "non_max_suppression_with_scores", "pad_to_bounding_box", "per_image_standardization", "psnr",
    "random_brightness", "random_contrast", "random_crop", "random_flip_left_right",
    "random_flip_up_down", "random_hue", "random_jpeg_quality", "random_saturation", "resize",
    "resize_with_crop_or_pad", "resize_with_pad", "rgb_to_grayscale", "rgb_to_hsv", "rgb_to_yiq",
    "rgb_to_yuv", "rot90", "sample_distorted_bounding_box", "sobel_edges", "ssim",
    "ssim_multiscale", "stateless_random_brightness", "stateless_random_contrast",
    "stateless_random_crop", "stateless_random_flip_left_right", "stateless_random_flip_up_down",
    "stateless_random_hue", "stateless_random_jpeg_quality", "stateless_random_saturation",
    "stateless_sample_distorted_bounding_box", "total_variation", "transpose", "yiq_to_rgb",
    "yuv_to_rgb",
]  # fmt: skip

_check_calls(globals(), __all__)
