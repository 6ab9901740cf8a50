"""All layers, under Keras' names."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.keras.absent import absent_name as _absent_name
from tapegrad.keras.layers.activation_layers import ELU, LeakyReLU, PReLU, ReLU, Softmax
from tapegrad.keras.layers.adaptive_pooling import (
    AdaptiveAveragePooling1D,
    AdaptiveAveragePooling2D,
    AdaptiveAveragePooling3D,
    AdaptiveMaxPooling1D,
    AdaptiveMaxPooling2D,
    AdaptiveMaxPooling3D,
)
from tapegrad.keras.layers.attention import (
    AdditiveAttention,
    Attention,
    GroupQueryAttention,
    MultiHeadAttention,
    RotaryEmbedding,
)
from tapegrad.keras.layers.convolution_depthwise import (
    DepthwiseConv1D,
    DepthwiseConv2D,
    SeparableConv1D,
    SeparableConv2D,
    SeparableConvolution1D,
    SeparableConvolution2D,
)
from tapegrad.keras.layers.convolution_transpose import (
    Conv1DTranspose,
    Conv2DTranspose,
    Conv3DTranspose,
    Convolution1DTranspose,
    Convolution2DTranspose,
    Convolution3DTranspose,
)
from tapegrad.keras.layers.convolutional import (
    Conv1D,
    Conv2D,
    Conv3D,
    Convolution1D,
    Convolution2D,
    Convolution3D,
)
from tapegrad.keras.layers.core import Activation, Dense, Embedding, Identity, Lambda, Masking
from tapegrad.keras.layers.discretization import Discretization
from tapegrad.keras.layers.einsum_dense import EinsumDense
from tapegrad.keras.layers.hashing import HashedCrossing, Hashing
from tapegrad.keras.layers.image_colours import (
    AutoContrast,
    Equalization,
    RandomColorDegeneration,
    RandomColorJitter,
    RandomGrayscale,
    RandomHue,
    RandomInvert,
    RandomPosterization,
    RandomSaturation,
    Solarization,
)
from tapegrad.keras.layers.image_filters import RandomErasing, RandomGaussianBlur, RandomSharpness
from tapegrad.keras.layers.image_geometry import (
    RandomPerspective,
    RandomRotation,
    RandomShear,
    RandomTranslation,
    RandomZoom,
)
from tapegrad.keras.layers.image_layers import (
    CenterCrop,
    RandomBrightness,
    RandomContrast,
    RandomCrop,
    RandomFlip,
    Resizing,
)
from tapegrad.keras.layers.image_mixing import AugMix, CutMix, MixUp, Pipeline, RandAugment
from tapegrad.keras.layers.input_layer import Input, InputLayer
from tapegrad.keras.layers.input_spec import InputSpec
from tapegrad.keras.layers.integer_lookup import IntegerLookup
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.merging import (
    Add,
    Average,
    Concatenate,
    Dot,
    Maximum,
    Minimum,
    Multiply,
    Subtract,
    add,
    average,
    concatenate,
    dot,
    maximum,
    minimum,
    multiply,
    subtract,
)
from tapegrad.keras.layers.normalization import (
    BatchNormalization,
    GroupNormalization,
    LayerNormalization,
    RMSNormalization,
    UnitNormalization,
)
from tapegrad.keras.layers.pooling import (
    AveragePooling1D,
    AveragePooling2D,
    AveragePooling3D,
    AvgPool1D,
    AvgPool2D,
    AvgPool3D,
    GlobalAveragePooling1D,
    GlobalAveragePooling2D,
    GlobalAveragePooling3D,
    GlobalAvgPool1D,
    GlobalAvgPool2D,
    GlobalAvgPool3D,
    GlobalMaxPool1D,
    GlobalMaxPool2D,
    GlobalMaxPool3D,
    GlobalMaxPooling1D,
    GlobalMaxPooling2D,
    GlobalMaxPooling3D,
    MaxPool1D,
    MaxPool2D,
    MaxPool3D,
    MaxPooling1D,
    MaxPooling2D,
    MaxPooling3D,
)
from tapegrad.keras.layers.preprocessing import CategoryEncoding, Normalization, Rescaling
from tapegrad.keras.layers.recurrent import (
    GRU,
    LSTM,
    RNN,
    Bidirectional,
    ConvLSTM1D,
    ConvLSTM2D,
    ConvLSTM3D,
    GRUCell,
    LSTMCell,
    SimpleRNN,
    SimpleRNNCell,
    StackedRNNCells,
    TimeDistributed,
)
from tapegrad.keras.layers.regularization import (
    ActivityRegularization,
    AlphaDropout,
    Dropout,
    GaussianDropout,
    GaussianNoise,
    SpatialDropout1D,
    SpatialDropout2D,
    SpatialDropout3D,
    SpectralNormalization,
)
from tapegrad.keras.layers.reshaping import Flatten, Permute, RepeatVector, Reshape
from tapegrad.keras.layers.saved_model_layer import TFSMLayer
from tapegrad.keras.layers.serializing import deserialize, serialize
from tapegrad.keras.layers.spatial import (
    Cropping1D,
    Cropping2D,
    Cropping3D,
    UpSampling1D,
    UpSampling2D,
    UpSampling3D,
    ZeroPadding1D,
    ZeroPadding2D,
    ZeroPadding3D,
)
from tapegrad.keras.layers.spectrograms import MelSpectrogram, STFTSpectrogram
from tapegrad.keras.layers.string_lookup import StringLookup
from tapegrad.keras.layers.text_vectorization import TextVectorization
from tapegrad.keras.layers.wrapper import Wrapper

__all__ = [
    "Activation", "ActivityRegularization", "AdaptiveAveragePooling1D", "AdaptiveAveragePooling2D",
    "AdaptiveAveragePooling3D", "AdaptiveMaxPooling1D", "AdaptiveMaxPooling2D",
    "AdaptiveMaxPooling3D", "Add", "AdditiveAttention", "AlphaDropout", "Attention", "AugMix",
    "AutoContrast", "Average", "AveragePooling1D", "AveragePooling2D", "AveragePooling3D",
    "AvgPool1D", "AvgPool2D", "AvgPool3D", "BatchNormalization", "Bidirectional",
    "CategoryEncoding", "CenterCrop", "Concatenate", "Conv1D", "Conv1DTranspose", "Conv2D",
    "Conv2DTranspose", "Conv3D", "Conv3DTranspose", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D",
    "Convolution1D", "Convolution1DTranspose", "Convolution2D", "Convolution2DTranspose",
    "Convolution3D", "Convolution3DTranspose", "Cropping1D", "Cropping2D", "Cropping3D", "CutMix",
    "Dense", "DepthwiseConv1D", "DepthwiseConv2D", "Discretization", "Dot", "Dropout", "ELU",
    "EinsumDense", "Embedding", "Equalization", "Flatten", "GRU", "GRUCell", "GaussianDropout",
    "GaussianNoise", "GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalAveragePooling3D",
    "GlobalAvgPool1D", "GlobalAvgPool2D", "GlobalAvgPool3D", "GlobalMaxPool1D", "GlobalMaxPool2D",
    "GlobalMaxPool3D", "GlobalMaxPooling1D", "GlobalMaxPooling2D", "GlobalMaxPooling3D",
    "GroupNormalization", "GroupQueryAttention", "HashedCrossing", "Hashing", "Identity", "Input",
    "InputLayer", "InputSpec", "IntegerLookup", "LSTM", "LSTMCell", "Lambda", "Layer",
    "LayerNormalization", "LeakyReLU", "Masking", "MaxPool1D", "MaxPool2D", "MaxPool3D",
    "MaxPooling1D", "MaxPooling2D", "MaxPooling3D", "Maximum", "MelSpectrogram", "Minimum", "MixUp",
    "MultiHeadAttention", "Multiply", "Normalization", "PReLU", "Permute", "Pipeline",
    "RMSNormalization", "RNN", "RandAugment", "RandomBrightness", "RandomColorDegeneration",
    "RandomColorJitter", "RandomContrast", "RandomCrop", "RandomErasing", "RandomFlip",
    "RandomGaussianBlur", "RandomGrayscale", "RandomHue", "RandomInvert", "RandomPerspective",
    "RandomPosterization", "RandomRotation", "RandomSaturation", "RandomSharpness", "RandomShear",
    "RandomTranslation", "RandomZoom", "ReLU", "RepeatVector", "Rescaling", "Reshape", "Resizing",
    "RotaryEmbedding", "STFTSpectrogram", "SeparableConv1D", "SeparableConv2D",
    "SeparableConvolution1D", "SeparableConvolution2D", "SimpleRNN", "SimpleRNNCell", "Softmax",
    "Solarization", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D",
    "SpectralNormalization", "StackedRNNCells", "StringLookup", "Subtract", "TFSMLayer",
    "TextVectorization", "TimeDistributed", "UnitNormalization", "UpSampling1D", "UpSampling2D",
    "UpSampling3D", "Wrapper", "ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D", "add", "average",
    "concatenate", "deserialize", "dot", "maximum", "minimum", "multiply", "serialize", "subtract",
]  # fmt: skip

# Not the methods that each step calls.
_METHODS = """
    __init__ adapt add_weight build compute_output_shape compute_output_spec from_config set_weights
"""
_check_calls(globals(), __all__, _METHODS.split())


if not TYPE_CHECKING:  # a checker shall see which names there are

    def __getattr__(name: str) -> Any:
        if name == "experimental":
            return _import_module("tapegrad.keras.layers.experimental")
        raise _absent_name("keras.layers", name, __all__)
