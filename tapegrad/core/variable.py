"""Old module path of variables, kept so that pickles of earlier revisions load."""

from tapegrad.core.values.variable import _restore as _restore
