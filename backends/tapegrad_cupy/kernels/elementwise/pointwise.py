"""Expressions that become a `cupy.ElementwiseKernel`, which broadcasts its operands.

CuPy generates the source itself. To test without a GPU that the expression compiles, `source`
wraps it in a plain kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cupy

from tapegrad_cupy.launch.cuda_prelude import C_TYPES
from tapegrad_cupy.launch.cuda_source import Source


@dataclass(frozen=True)
class Pointwise:
    """The arguments of `cupy.ElementwiseKernel`, in its notation."""

    inputs: str
    outputs: str
    operation: str
    name: str
    preamble: str = ""
    options: tuple[str, ...] = ()

    def kernel(self) -> Any:
        """Return CuPy's kernel, which is compiled at the first call."""
        return cupy.ElementwiseKernel(
            self.inputs,
            self.outputs,
            self.operation,
            self.name,
            preamble=self.preamble,
            options=self.options,
        )

    def source(self, **types: str) -> Source:
        """Return a plain kernel of the expression; `types` are the dtypes of its placeholders."""
        names = {**C_TYPES, **{letter: C_TYPES[dtype] for letter, dtype in types.items()}}
        arguments, elements = [], []
        for text, is_input in ((self.inputs, True), (self.outputs, False)):
            for parameter in text.split(", "):
                *raw, dtype, name = parameter.split()
                kind = f"const {names[dtype]}" if is_input else names[dtype]
                arguments.append(f"{kind}* {name if raw else 'all_' + name}")
                if not raw:
                    elements.append(f"{kind}& {name} = all_{name}[i];")
        lines = [
            self.preamble,
            f'extern "C" __global__ void {self.name}({", ".join(arguments)}, long long count) {{',
            *[f"typedef {names[letter]} {letter};" for letter in types],
            "long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;",
            f"if (i < count) {{ {' '.join(elements)} {self.operation}; }}",
            "}",
        ]
        label = " ".join([self.name.removeprefix("tapegrad_"), *types.values()])
        return Source(label, "\n".join(lines), self.options)
