"""TensorFlow's `tf.nn` names: activations, losses, convolution, pooling, normalisation."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any as _Any

from tapegrad.absent import absence as _absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.ops.attention.functions import rotary_embedding, scaled_dot_product_attention
from tapegrad.ops.composed import bias_add
from tapegrad.ops.convolution.functions import (
    atrous_conv2d,
    atrous_conv2d_transpose,
    conv1d,
    conv1d_transpose,
    conv2d,
    conv2d_transpose,
    conv3d,
    conv3d_transpose,
    conv_transpose,
    convolution,
    depthwise_conv2d,
    separable_conv2d,
)
from tapegrad.ops.convolution.morphology import dilation2d, erosion2d
from tapegrad.ops.convolution.pooling import (
    avg_pool,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    max_pool_with_argmax,
    pool,
)
from tapegrad.ops.elementwise.activations import (
    celu,
    crelu,
    elu,
    glu,
    hard_shrink,
    hard_sigmoid,
    hard_swish,
    hard_tanh,
    leaky_relu,
    relu,
    relu6,
    selu,
    soft_shrink,
    sparse_plus,
    threshold,
)
from tapegrad.ops.elementwise.sigmoids import (
    gelu,
    log_sigmoid,
    mish,
    sigmoid,
    silu,
    silu as swish,
    softplus,
    softsign,
    squareplus,
    tanh_shrink,
)
from tapegrad.ops.elementwise.trigonometric import tanh
from tapegrad.ops.indexing.approximate_top import approx_max_k, approx_min_k
from tapegrad.ops.indexing.gather import embedding_lookup
from tapegrad.ops.indexing.sorting import in_top_k, top_k
from tapegrad.ops.linalg.norms import l2_normalize
from tapegrad.ops.nn.dropout import dropout, stateless_dropout
from tapegrad.ops.nn.losses import (
    l2_loss,
    log_poisson_loss,
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits,
    weighted_cross_entropy_with_logits,
)
from tapegrad.ops.nn.replica_losses import compute_average_loss, scale_regularization_loss
from tapegrad.ops.nn.softmax import log_softmax, softmax
from tapegrad.ops.normalization.functions import (
    batch_norm,
    batch_norm_with_global_normalization,
    batch_normalization,
    fused_batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    local_response_normalization,
    local_response_normalization as lrn,
    rms_norm,
)
from tapegrad.ops.reduction.statistics import (
    moments,
    normalize_moments,
    sufficient_statistics,
    weighted_moments,
    zero_fraction,
)
from tapegrad.ops.shape.rearranging import depth_to_space, space_to_batch, space_to_depth

if TYPE_CHECKING:
    from tapegrad import nn_experimental as experimental
    from tapegrad.ctc.decoding import ctc_beam_search_decoder, ctc_greedy_decoder
    from tapegrad.ctc.labels import collapse_repeated, ctc_unique_labels
    from tapegrad.ctc.loss import ctc_loss
    from tapegrad.ops.nn.sampled_losses import (
        compute_accidental_hits,
        nce_loss,
        sampled_softmax_loss,
    )
    from tapegrad.ops.random.candidates import (
        all_candidate_sampler,
        fixed_unigram_candidate_sampler,
    )
    from tapegrad.sparse.embeddings import embedding_lookup_sparse, safe_embedding_lookup_sparse

__all__ = [
    "all_candidate_sampler", "approx_max_k", "approx_min_k", "atrous_conv2d",
    "atrous_conv2d_transpose", "avg_pool", "avg_pool1d", "avg_pool2d", "avg_pool3d", "batch_norm",
    "batch_norm_with_global_normalization", "batch_normalization", "bias_add", "celu",
    "collapse_repeated", "compute_accidental_hits", "compute_average_loss", "conv1d",
    "conv1d_transpose", "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose",
    "conv_transpose", "convolution", "crelu", "ctc_beam_search_decoder", "ctc_greedy_decoder",
    "ctc_loss", "ctc_unique_labels", "depth_to_space", "depthwise_conv2d", "dilation2d", "dropout",
    "elu", "embedding_lookup", "embedding_lookup_sparse", "erosion2d", "experimental",
    "fixed_unigram_candidate_sampler", "fused_batch_norm", "gelu", "glu", "group_norm",
    "hard_shrink", "hard_sigmoid", "hard_swish", "hard_tanh", "in_top_k", "instance_norm",
    "l2_loss", "l2_normalize", "layer_norm", "leaky_relu", "local_response_normalization",
    "log_poisson_loss", "log_sigmoid", "log_softmax", "lrn", "max_pool", "max_pool1d", "max_pool2d",
    "max_pool3d", "max_pool_with_argmax", "mish", "moments", "nce_loss", "normalize_moments",
    "pool", "relu", "relu6", "rms_norm", "rotary_embedding", "safe_embedding_lookup_sparse",
    "sampled_softmax_loss", "scale_regularization_loss", "scaled_dot_product_attention", "selu",
    "separable_conv2d", "sigmoid", "sigmoid_cross_entropy_with_logits", "silu", "soft_shrink",
    "softmax", "softmax_cross_entropy_with_logits", "softplus", "softsign", "space_to_batch",
    "space_to_depth", "sparse_plus", "sparse_softmax_cross_entropy_with_logits", "squareplus",
    "stateless_dropout", "sufficient_statistics", "swish", "tanh", "tanh_shrink", "threshold",
    "top_k", "weighted_cross_entropy_with_logits", "weighted_moments", "zero_fraction",
]  # fmt: skip

# Imported on first use: few programs need them.
_PLACES = {
    "all_candidate_sampler": "tapegrad.ops.random.candidates",
    "collapse_repeated": "tapegrad.ctc.labels",
    "compute_accidental_hits": "tapegrad.ops.nn.sampled_losses",
    "ctc_beam_search_decoder": "tapegrad.ctc.decoding",
    "ctc_greedy_decoder": "tapegrad.ctc.decoding",
    "ctc_loss": "tapegrad.ctc.loss",
    "ctc_unique_labels": "tapegrad.ctc.labels",
    "embedding_lookup_sparse": "tapegrad.sparse.embeddings",
    "fixed_unigram_candidate_sampler": "tapegrad.ops.random.candidates",
    "nce_loss": "tapegrad.ops.nn.sampled_losses",
    "safe_embedding_lookup_sparse": "tapegrad.sparse.embeddings",
    "sampled_softmax_loss": "tapegrad.ops.nn.sampled_losses",
}

_check_calls(globals(), [name for name in __all__ if name not in {*_PLACES, "experimental"}])


def __getattr__(name: str) -> _Any:
    if name == "experimental":
        globals()[name] = _import_module("tapegrad.nn_experimental")
        return globals()[name]
    if name not in _PLACES:
        raise _absence("nn", name)
    globals()[name] = getattr(_import_module(_PLACES[name]), name)
    _check_calls(globals(), (name,))
    return globals()[name]
