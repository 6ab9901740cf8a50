"""Methods that models had in earlier versions of Keras."""

from __future__ import annotations

from typing import Any

import numpy as np


class OlderMethods:
    """Training with generators, classes of predictions, and states of recurrent layers."""

    def fit_generator(
        self,
        generator: Any,
        steps_per_epoch: int | None = None,
        epochs: int = 1,
        verbose: Any = 1,
        callbacks: Any = None,
        validation_data: Any = None,
        validation_steps: int | None = None,
        validation_freq: Any = 1,
        class_weight: Any = None,
        max_queue_size: int = 10,
        workers: int = 1,
        use_multiprocessing: bool = False,
        shuffle: bool = True,
        initial_epoch: int = 0,
    ) -> Any:
        """Train on the batches of a generator, as `fit` does."""
        return self.fit(  # type: ignore[attr-defined]  # of the trainer
            generator,
            epochs=epochs,
            verbose=verbose,
            callbacks=callbacks,
            validation_data=validation_data,
            shuffle=shuffle,
            class_weight=class_weight,
            initial_epoch=initial_epoch,
            steps_per_epoch=steps_per_epoch,
            validation_steps=validation_steps,
            validation_freq=validation_freq,
        )

    def evaluate_generator(
        self,
        generator: Any,
        steps: int | None = None,
        callbacks: Any = None,
        max_queue_size: int = 10,
        workers: int = 1,
        use_multiprocessing: bool = False,
        verbose: Any = 0,
    ) -> Any:
        """Return the loss and the metrics on the batches of a generator, as `evaluate` does."""
        return self.evaluate(  # type: ignore[attr-defined]
            generator, steps=steps, callbacks=callbacks, verbose=verbose
        )

    def predict_generator(
        self,
        generator: Any,
        steps: int | None = None,
        callbacks: Any = None,
        max_queue_size: int = 10,
        workers: int = 1,
        use_multiprocessing: bool = False,
        verbose: Any = 0,
    ) -> Any:
        """Return the outputs for the batches of a generator, as `predict` does."""
        return self.predict(  # type: ignore[attr-defined]
            generator, steps=steps, callbacks=callbacks, verbose=verbose
        )

    def predict_proba(self, x: Any, batch_size: int | None = None, verbose: Any = 0) -> Any:
        """Return the outputs, as `predict` does."""
        return self.predict(x, batch_size, verbose)  # type: ignore[attr-defined]

    def predict_classes(self, x: Any, batch_size: int | None = None, verbose: Any = 0) -> Any:
        """Return the most probable class of each row, or whether a single output is above 0.5."""
        found = self.predict(x, batch_size, verbose)  # type: ignore[attr-defined]
        return found.argmax(-1) if found.shape[-1] > 1 else (found > 0.5).astype(np.int32)

    def reset_states(self) -> None:
        """Set the states of all stateful recurrent layers to 0."""
        for layer in self.layers:  # type: ignore[attr-defined]
            reset = getattr(layer, "reset_states", None)
            if reset is not None and getattr(layer, "stateful", True):
                reset()
