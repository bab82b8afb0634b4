# SPDX-License-Identifier: MIT
"""The order in which dragonn takes the samples of an epoch (data/sampler.cpp, core/rng.h)."""
import itertools

MASK = (1 << 64) - 1
PHILOX_ROUNDS = 10


def mix64(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def stream_key(seed, purpose, *numbers):
    key = mix64(seed)
    for letter in purpose.encode():
        key = mix64(key ^ letter)
    key = mix64(key ^ len(purpose))
    for number in numbers:
        key = mix64(key ^ mix64(number))
    return key


def draws(key):
    """The stream's numbers of 64 bits, without end."""
    for counter in itertools.count():
        a, b, c, d = counter & 0xFFFFFFFF, counter >> 32, 0, 0
        key0, key1 = key & 0xFFFFFFFF, key >> 32
        for _ in range(PHILOX_ROUNDS):
            first, second = 0xD2511F53 * a, 0xCD9E8D57 * c
            a, b, c, d = second >> 32 ^ b ^ key0, second & 0xFFFFFFFF, first >> 32 ^ d ^ key1, first & 0xFFFFFFFF
            key0, key1 = (key0 + 0x9E3779B9) & 0xFFFFFFFF, (key1 + 0xBB67AE85) & 0xFFFFFFFF
        yield a << 32 | b
        yield c << 32 | d


def below(numbers, bound):
    """A number in [0, bound)."""
    product = next(numbers) * bound
    if product & MASK < bound:
        while product & MASK < (MASK + 1 - bound) % bound:
            product = next(numbers) * bound
    return product >> 64


def epoch_order(samples, seed, epoch):
    order, numbers = list(range(samples)), draws(stream_key(seed, "shuffle", epoch))
    for i in range(samples, 1, -1):
        j = below(numbers, i)
        order[i - 1], order[j] = order[j], order[i - 1]
    return order
