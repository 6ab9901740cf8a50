"""Pretrained models in Hugging Face's layout: GPT-2, BERT, ViT and ResNet, without PyTorch.

files         the folder of a model: a path, or the usual cache; its configuration and weights
placing       weights of a file into the variables of a model
gpt2, bert, vit, resnet    the models; transformer: what the first three share
generation    text from GPT-2 with a cache of keys and values
tokens        tokenizers, if `tokenizers` is installed
"""

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.hub.bert import Bert
from tapegrad.hub.files import find_model, read_config, read_weights
from tapegrad.hub.generation import generate
from tapegrad.hub.gpt2 import GPT2
from tapegrad.hub.loading import load
from tapegrad.hub.resnet import ResNet
from tapegrad.hub.tokens import load_tokenizer
from tapegrad.hub.vit import ViT

__all__ = [
    "GPT2", "Bert", "ResNet", "ViT", "find_model", "generate", "load", "load_tokenizer",
    "read_config", "read_weights",
]  # fmt: skip

_check_calls(globals(), __all__)
