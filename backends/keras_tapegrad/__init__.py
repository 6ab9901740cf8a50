"""Keras 3 on tapegrad: `KERAS_BACKEND=tapegrad` runs the released Keras on the tape.

Keras lists its backends by name, so an import hook adds this one. `import keras_tapegrad` installs
the hook. Installed from a wheel, `keras_tapegrad.pth` does so at the start of Python if
KERAS_BACKEND is tapegrad, and scripts that import Keras need no change. The backend is in
`keras_tapegrad.backend`.
"""

from keras_tapegrad.import_hook import install

__all__ = ["install"]

install()
