"""Save launches, host time and memory; results are those of the layers below.

Importing this package registers its parts with these layers. `TAPEGRAD_PLAIN=1` in the environment
switches all parts off.
"""

from tapegrad.autodiff.accelerator import set_accelerator
from tapegrad.core.out_of_memory import set_retry
from tapegrad.engine.accelerator import make_accelerator
from tapegrad.engine.batched_casts import cast_ahead
from tapegrad.engine.grouped_clipping import clip_grouped
from tapegrad.engine.number_writes import with_number, write_number
from tapegrad.engine.retry import retry
from tapegrad.engine.switch import is_on
from tapegrad.ops.casting.cast import set_cast_ahead
from tapegrad.ops.indexing.write_hook import set_number_writer
from tapegrad.ops.nn.clipping_hook import register_grouped_clip

__all__ = ["is_on"]

if is_on():
    set_accelerator(make_accelerator)
    set_cast_ahead(cast_ahead)
    register_grouped_clip(clip_grouped)
    set_number_writer(write_number, with_number)
    set_retry(retry)
