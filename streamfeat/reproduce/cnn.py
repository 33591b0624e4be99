"""A plain convolutional network, trained by JAX: the peer that paper B names, on the same digits as everybody else.

Z2-CNN of Cohen and Welling 2016 (section 8.1): seven layers, 3 x 3 and at last 4 x 4, of 20 channels each, batch
normalisation, rectifiers, the largest of 2 x 2 after the second layer; 22,000 weights. Without its dropout: so small a
network learned less with it in the passes that are affordable here. Adam at a rate that falls to zero along a cosine.
Nothing is chosen by digits that are asked.

This module needs JAX (extra `peers`, scripts/peers); whoever imports it looks for that first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.ndimage import map_coordinates
from numpy.typing import NDArray

Images = NDArray[np.float32]
Codes = NDArray[np.intp]
Array = Any
"""An array of JAX, which has types of its own."""

CHANNELS = 20
SIZES = (3, 3, 3, 3, 3, 3, 4)
POOLED = 1
"""The layer after which the picture is halved."""
KEPT, TINY = 0.9, 1e-5
"""What running means keep of themselves at each step, and what is added to variances."""
BATCH = 128
AT_ONCE = 1000
RATE, DECAY_1, DECAY_2, LEAST = 1e-2, 0.9, 0.999, 1e-8
"""Adam's; of three rates at first the one that answered most training digits that were held out."""


@dataclass(frozen=True)
class Training:
    """How long, by which seed, and whether every digit is turned by a new angle each time it is shown."""

    n_epochs: int
    seed: int
    turned: bool


def answers_of(train: Images, codes: Codes, asked: Images, how: Training) -> Codes:
    """Train a network on pictures (n, 28, 28) in [0, 1] and their classes (n,), and ask it for those of others.

    The same arguments give the same answers on one machine; JAX rounds otherwise on another.
    """
    n_classes = int(codes.max()) + 1
    begin, chance = jax.random.split(jax.random.key(how.seed))
    state = _begin(begin, n_classes)
    n_steps = how.n_epochs * -(-len(train) // BATCH)
    rng = np.random.default_rng(how.seed)
    step = 0
    for _ in range(how.n_epochs):
        order = rng.permutation(len(train))
        for first in range(0, len(order), BATCH):
            some = np.resize(order[first : first + BATCH], BATCH)  # one shape, compiled once
            key = jax.random.fold_in(chance, step)
            rate = RATE * (1 + np.cos(np.pi * step / n_steps)) / 2
            step += 1
            state = _step(state, (train[some], codes[some]), key, (rate, step), turned=how.turned)
    ask = jax.jit(_ask)
    parts = [ask(state, asked[first : first + AT_ONCE]) for first in range(0, len(asked), AT_ONCE)]
    return np.concatenate([np.asarray(part, np.intp) for part in parts])


def turn(pictures: Array, angles_rad: Array) -> Array:
    """Each picture (n, h, w) turned about its middle by its angle, bilinear, zero outside."""
    h, w = pictures.shape[1:]
    y, x = jnp.arange(h)[:, None] - (h - 1) / 2, jnp.arange(w) - (w - 1) / 2

    def one(picture: Array, angle: Array) -> Array:
        cos, sin = jnp.cos(angle), jnp.sin(angle)
        places = [cos * y + sin * x + (h - 1) / 2, cos * x - sin * y + (w - 1) / 2]
        return map_coordinates(picture, places, order=1)

    return jax.vmap(one)(pictures, angles_rad)


def _begin(key: Array, n_classes: int) -> dict[str, Any]:
    """Weights of He et al. 2015, running means and variances, and Adam's moments."""
    weights, running, n_in = [], [], 1
    for layer, size in enumerate(SIZES):
        n_out = CHANNELS if layer + 1 < len(SIZES) else n_classes
        scale = np.sqrt(2 / (n_in * size * size))
        kernel = scale * jax.random.normal(jax.random.fold_in(key, layer), (size, size, n_in, n_out))
        weights.append({"kernel": kernel, "gain": jnp.ones(n_out), "offset": jnp.zeros(n_out)})
        running.append((jnp.zeros(n_out), jnp.ones(n_out)))
        n_in = n_out
    zeros = jax.tree.map(jnp.zeros_like, weights)
    return {"weights": weights, "running": running, "first": zeros, "second": zeros}


def _scores(weights: Array, running: Array, pictures: Array, *, learning: bool) -> tuple[Array, Array]:
    """Scores (n, classes) and the running means after them."""
    X = pictures[..., None]
    after: list[tuple[Array, Array]] = []
    for layer, (w, (mean, variance)) in enumerate(zip(weights, running, strict=True)):
        X = lax.conv_general_dilated(X, w["kernel"], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        if layer + 1 == len(weights):
            return X.reshape(len(X), -1) + w["offset"], [*after, (mean, variance)]
        if learning:
            own = X.mean(axis=(0, 1, 2)), X.var(axis=(0, 1, 2))
            after.append((KEPT * mean + (1 - KEPT) * own[0], KEPT * variance + (1 - KEPT) * own[1]))
            mean, variance = own  # noqa: PLW2901 - of this batch in place of those that were kept
        X = jax.nn.relu((X - mean) * (w["gain"] / jnp.sqrt(variance + TINY)) + w["offset"])
        if layer == POOLED:
            X = lax.reduce_window(X, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    raise AssertionError("the last layer answers")


def _loss(weights: Array, running: Array, batch: tuple[Array, Array]) -> tuple[Array, Array]:
    pictures, codes = batch
    scores, after = _scores(weights, running, pictures, learning=True)
    return -jnp.take_along_axis(jax.nn.log_softmax(scores), codes[:, None], axis=1).mean(), after


@partial(jax.jit, static_argnames="turned")
def _step(
    state: dict[str, Any], batch: tuple[Array, Array], key: Array, pace: tuple[Array, Array], *, turned: bool
) -> dict[str, Any]:
    """One step of Adam; `pace` is its rate and its number, from 1."""
    pictures, codes = batch
    if turned:
        pictures = turn(pictures, jax.random.uniform(key, (len(pictures),), maxval=2 * np.pi))
    slope, running = jax.grad(_loss, has_aux=True)(state["weights"], state["running"], (pictures, codes))
    rate, n = pace
    first = jax.tree.map(lambda m, g: DECAY_1 * m + (1 - DECAY_1) * g, state["first"], slope)
    second = jax.tree.map(lambda v, g: DECAY_2 * v + (1 - DECAY_2) * g * g, state["second"], slope)
    weights = jax.tree.map(
        lambda w, m, v: w - rate * (m / (1 - DECAY_1**n)) / (jnp.sqrt(v / (1 - DECAY_2**n)) + LEAST),
        state["weights"],
        first,
        second,
    )
    return {"weights": weights, "running": running, "first": first, "second": second}


def _ask(state: dict[str, Any], pictures: Array) -> Array:
    return _scores(state["weights"], state["running"], pictures, learning=False)[0].argmax(axis=1)
