"""Old module path of dtypes, kept so that pickles of earlier revisions load."""

from tapegrad.core.values.dtypes import as_dtype as as_dtype
