"""Write in the manner of Shakespeare's sonnets, character by character, with a transformer.

A decoder: the vector of each character, plus that of its place, passes through blocks of causal
attention and of a small network, with a way around both. It learns to foretell the next character
at every place of windows, which are cut from the text at random on the device. In the end it goes
on with a sonnet that it has not seen, by drawing from what it foretells.

Data: 60 sonnets (see data/SONNETS.md), the last six of them held out. Reached: 1.82 nats for each
held-out character; the frequencies of characters alone give 3.13, those of pairs of neighbours
2.39. Short: 2.21 nats.
"""

import argparse
from pathlib import Path

import numpy as np

import tapegrad as tf

layers = tf.keras.layers
TEXT = Path(__file__).parent / "data" / "sonnets.txt"
WIDTH, HEADS, DEPTH, DROPOUT = 64, 4, 2, 0.2
BATCH = 16


class Block(layers.Layer):
    """Let places look at those before them, then let each think for itself."""

    def __init__(self):
        super().__init__()
        self.attend = layers.MultiHeadAttention(HEADS, WIDTH // HEADS)
        self.widen = layers.Dense(4 * WIDTH, activation="gelu")
        self.narrow = layers.Dense(WIDTH)
        self.norms = [layers.LayerNormalization() for _ in range(2)]
        self.dropout = layers.Dropout(DROPOUT)

    def call(self, x, training=None):
        y = self.norms[0](x)
        x = x + self.dropout(self.attend(y, y, use_causal_mask=True), training=training)
        y = self.narrow(self.widen(self.norms[1](x)))
        return x + self.dropout(y, training=training)


class GPT(tf.keras.Model):
    """From numbers of characters, [batch, place], to logits of the characters that follow."""

    def __init__(self, characters, context):
        super().__init__()
        self.context = context
        self.characters = layers.Embedding(characters, WIDTH)
        self.places = layers.Embedding(context, WIDTH)
        self.blocks = [Block() for _ in range(DEPTH)]
        self.norm = layers.LayerNormalization()
        self.logits = layers.Dense(characters)

    def call(self, tokens, training=None):
        x = self.characters(tokens) + self.places(tf.range(tokens.shape[1]))
        for block in self.blocks:
            x = block(x, training=training)
        return self.logits(self.norm(x))


def read_text():
    """Return the text as numbers, to learn from and held out, and the characters they stand for."""
    text = TEXT.read_text(encoding="ascii")
    characters = sorted(set(text))
    numbers = np.array([characters.index(character) for character in text], "int32")
    held_out = len("\n\n".join(text.split("\n\n")[-6:]))
    return numbers[:-held_out], numbers[-held_out:], characters


def loss_of(model, windows, training):
    logits, labels = model(windows[:, :-1], training=training), windows[:, 1:]
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


def measure(model, text):
    """Return the mean loss in nats per character, over windows that follow each other."""
    starts = np.arange(0, len(text) - model.context, model.context)
    windows = text[starts[:, np.newaxis] + np.arange(model.context + 1)]
    return float(loss_of(model, tf.constant(windows), training=False))


def train(model, learned, steps):
    schedule = tf.keras.optimizers.schedules.CosineDecay(
        0.0, 0.9 * steps, warmup_target=4e-3, warmup_steps=0.1 * steps
    )
    optimizer = tf.keras.optimizers.AdamW(schedule, weight_decay=0.1, beta_2=0.99, clipnorm=1.0)
    text, window = tf.constant(learned), tf.range(model.context + 1)

    @tf.function
    def train_step():
        starts = tf.random.uniform([BATCH, 1], maxval=len(learned) - model.context, dtype="int32")
        with tf.GradientTape() as tape:
            loss = loss_of(model, tf.gather(text, starts + window), training=True)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    for step in range(1, steps + 1):
        loss = train_step()
        if step % (steps // 5) == 0:
            print(f"step {step:5}   last batch's loss {float(loss):.3f}")


def count_alone(learned, held_out, size):
    """Return the losses of foretelling by counts: of characters, and of pairs of neighbours."""
    single = np.bincount(learned, minlength=size) + 0.5
    pairs = np.full((size, size), 0.05)  # no pair is impossible
    np.add.at(pairs, (learned[:-1], learned[1:]), 1)
    pairs /= pairs.sum(axis=1, keepdims=True)
    before, after = held_out[:-1], held_out[1:]
    return -np.log(single / single.sum())[after].mean(), -np.log(pairs[before, after]).mean()


def write(model, start, count):
    """Return numbers of characters that go on from a start, drawn without leaving the device."""

    @tf.function
    def move_on(window):
        drawn = tf.random.categorical(model(window)[:, -1] / 0.8, 1, dtype="int32")
        return tf.concat([window[:, 1:], drawn], axis=1)

    window, drawn = tf.constant(start[np.newaxis]), []
    for _ in range(count):
        window = move_on(window)
        drawn.append(window[0, -1])
    return tf.stack(drawn).numpy()


def main(short: bool = False) -> dict[str, float]:
    tf.random.set_seed(0)
    learned, held_out, characters = read_text()
    model = GPT(len(characters), context=32 if short else 64)
    model(tf.constant(held_out[np.newaxis, : model.context]))  # makes the weights
    train(model, learned, steps=350 if short else 2500)

    one, two = count_alone(learned, held_out, len(characters))
    results = {"loss": measure(model, held_out), "unigram": float(one), "bigram": float(two)}
    print(f"held-out loss {results['loss']:.3f} nats per character")
    print(f"counts of characters give {one:.3f}, of pairs of neighbours {two:.3f}")
    start = held_out[: model.context]
    for title, numbers in (("Given", start), ("Drawn", write(model, start, 100 if short else 400))):
        print(f"{title}:\n{''.join(characters[number] for number in numbers)}")
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="learn for a shorter time, and less")
    main(short=parser.parse_args().short)
