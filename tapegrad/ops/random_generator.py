"""Names in pickles of generators that earlier revisions wrote; nothing else imports this module."""

from tapegrad.ops.random.generator import Generator as Generator
