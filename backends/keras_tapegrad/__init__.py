"""Keras 3 on tapegrad: `KERAS_BACKEND=tapegrad` runs the released Keras on the tape.

Keras lists its backends by name, so an import hook adds this one. Installed from a wheel, the file
`keras_tapegrad.pth` installs the hook at the start of Python if KERAS_BACKEND is tapegrad; `import
tapegrad` does the same. The backend is in `keras_tapegrad.backend`.
"""

from keras_tapegrad.import_hook import install

__all__ = ["install"]
