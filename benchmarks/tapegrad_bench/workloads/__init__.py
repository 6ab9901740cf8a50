"""Every workload by name, in the order of the tables."""

from tapegrad_bench.workload import Workload
from tapegrad_bench.workloads.convnet import CONVNET
from tapegrad_bench.workloads.elementwise import CHAIN, ELEMENTWISE, SCALAR_CHAIN
from tapegrad_bench.workloads.footprint import IMPORT, INSTALL
from tapegrad_bench.workloads.gpt2 import GPT2
from tapegrad_bench.workloads.mlp import MLP_LARGE, MLP_MID, MLP_SMALL
from tapegrad_bench.workloads.rnn import RNN
from tapegrad_bench.workloads.row_wise import LAYERNORM, SOFTMAX_XENT
from tapegrad_bench.workloads.second_order import HVP, JACOBIAN

WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        SCALAR_CHAIN,
        CHAIN,
        ELEMENTWISE,
        SOFTMAX_XENT,
        LAYERNORM,
        MLP_SMALL,
        MLP_MID,
        MLP_LARGE,
        RNN,
        CONVNET,
        GPT2,
        HVP,
        JACOBIAN,
        IMPORT,
        INSTALL,
    )
}
