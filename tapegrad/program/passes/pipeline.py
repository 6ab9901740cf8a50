"""The pass pipeline: all passes over a recorded graph in order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tapegrad.core.backend.protocol import Backend
from tapegrad.core.backend.registry import capabilities_of
from tapegrad.core.background import checkpoint
from tapegrad.core.precision import TF32
from tapegrad.ops.products.fused import LEAST_WITH_SUMS
from tapegrad.program.graph.graph import (
    Graph,
    renumbered,
    with_early_constants,
    without_dead_calls,
    without_repeated_calls,
    without_unused_values,
)
from tapegrad.program.passes.algebra import simplified
from tapegrad.program.passes.attention import with_attention
from tapegrad.program.passes.batched_calls import with_batched_calls
from tapegrad.program.passes.broadcasts import with_late_broadcasts
from tapegrad.program.passes.centred_sums import without_centred_sums
from tapegrad.program.passes.complex_sums import with_sums_of_parts
from tapegrad.program.passes.components import with_components
from tapegrad.program.passes.constant_factors import with_constant_factors_outside
from tapegrad.program.passes.constants import with_known_constants, with_shared_constants
from tapegrad.program.passes.contractions import with_contractions
from tapegrad.program.passes.definitions import with_definitions
from tapegrad.program.passes.early_windows import with_early_windows
from tapegrad.program.passes.epilogues import with_epilogues, with_operand_sums
from tapegrad.program.passes.half_precision import with_wide_calls
from tapegrad.program.passes.joined_parts import with_parts_before_joins
from tapegrad.program.passes.joined_rows import with_joined_rows
from tapegrad.program.passes.layouts import with_joins_last
from tapegrad.program.passes.losses import with_losses_and_gradients
from tapegrad.program.passes.nested_sums import with_nested_sums
from tapegrad.program.passes.new_axes import without_new_axes
from tapegrad.program.passes.orders import with_one_sort
from tapegrad.program.passes.parts import with_shared_parts
from tapegrad.program.passes.placed_parts import with_joined_parts
from tapegrad.program.passes.placed_ranges import with_placed_ranges
from tapegrad.program.passes.plane_transforms import with_plane_transforms
from tapegrad.program.passes.planes import with_planes
from tapegrad.program.passes.products import with_joined_products
from tapegrad.program.passes.real_parts import with_early_real_parts
from tapegrad.program.passes.recurrences import with_recurrences
from tapegrad.program.passes.round_numbers import with_numbered_rounds
from tapegrad.program.passes.row_orders import with_ordered_sums
from tapegrad.program.passes.runs import with_known_runs, with_summed_runs
from tapegrad.program.passes.selected_parts import with_selected_parts
from tapegrad.program.passes.separated_sums import with_separated_sums
from tapegrad.program.passes.shared_exponentials import with_shared_exponentials
from tapegrad.program.passes.shared_factors import with_shared_factors
from tapegrad.program.passes.short_products import with_short_products
from tapegrad.program.passes.slices import with_written_parts
from tapegrad.program.passes.split_axes import with_split_axes
from tapegrad.program.passes.stencils import with_stencils
from tapegrad.program.passes.sums_of_parts import with_summed_parts
from tapegrad.program.passes.thin_products import with_elementwise_products
from tapegrad.program.passes.vector_products import with_joined_vectors
from tapegrad.program.passes.writes import with_elementwise_writes


def optimized(graph: Graph, backend: Backend | None) -> Graph:
    """Return an optimised graph with the same results, for the kernels of a backend."""
    kernels = {} if backend is None else backend.kernels
    capabilities = None if backend is None else capabilities_of(backend.array_types[0])
    capture = None if capabilities is None else capabilities.capture
    is_captured = capture is not None and capture.launches_graphs
    loops = None if capabilities is None else capabilities.loops
    passes: list[Callable[[Graph], Graph]] = [
        with_early_constants,
        with_shared_constants,
        without_new_axes,
        without_repeated_calls,
        with_shared_parts,
        with_written_parts,
        with_parts_before_joins,
        without_dead_calls,
        partial(with_elementwise_writes, of_all_sizes=is_captured),
        with_one_sort,
        *([partial(with_wide_calls, loops=loops)] if loops is not None else []),
        simplified,
        without_centred_sums,
        with_joined_parts,
        with_placed_ranges,
        with_joined_rows,
        with_summed_parts,
        partial(with_elementwise_products, with_vectors=is_captured),
        *([with_short_products] if is_captured and loops is not None else []),
        with_known_constants,
        with_separated_sums,
        partial(with_contractions, rounds_operands=is_captured and TF32["on"]),
        with_joins_last,
        with_losses_and_gradients,
        with_joined_products,
    ]
    if "attention" in kernels and is_captured:
        passes.append(with_attention)  # devices compute it in tiles and store no weights
    if "real_fourier_nd" in kernels:
        passes.append(with_plane_transforms)
    if "matmul_sum" in kernels:
        passes.append(with_epilogues)
    if "matmul_with_sums" in kernels:
        passes.append(partial(with_operand_sums, least=LEAST_WITH_SUMS))
    if "solve_factored" in kernels:
        passes.append(with_shared_factors)
    if "matvecs" in kernels:
        passes.append(with_joined_vectors)
    one_launch = capabilities is not None and capabilities.fused_rounds
    one_call = capabilities is not None and capabilities.sequences is not None
    if backend is not None and loops is not None and (one_call or one_launch):
        rolled = partial(with_recurrences, loops=loops, in_one_launch=one_launch)
        passes.append(partial(rolled, put=backend.from_host))
        passes.append(with_batched_calls)
    if loops is not None:
        passes.append(with_late_broadcasts)
        passes.append(with_early_real_parts)
        passes.append(partial(with_sums_of_parts, loops=loops))
        passes.append(with_known_runs)
        passes.append(partial(with_planes, loops=loops))
        passes.append(partial(with_stencils, loops=loops))
        passes.append(partial(with_summed_runs, loops=loops))
        if not is_captured:  # devices compute exponentials faster than they read them
            passes.append(partial(with_shared_exponentials, loops=loops))
        passes.append(partial(with_definitions, loops=loops))
        passes.append(with_known_constants)
        passes.append(with_constant_factors_outside)
        passes.append(partial(with_split_axes, loops=loops))
        passes.append(with_nested_sums)
        if is_captured:
            passes.append(partial(with_selected_parts, loops=loops))
        passes.append(partial(with_early_windows, loops=loops))
        passes.append(partial(with_components, loops=loops))
        passes.append(partial(with_ordered_sums, loops=loops))
        passes.append(with_numbered_rounds)
    passes.append(with_early_constants)  # also those that passes made
    for rewritten in passes:
        graph = rewritten(graph)
        checkpoint()
    return tidied(graph)


def tidied(graph: Graph) -> Graph:
    """Return the graph without dead calls, repeated calls and unused variables."""
    return renumbered(without_unused_values(without_dead_calls(without_repeated_calls(graph))))
