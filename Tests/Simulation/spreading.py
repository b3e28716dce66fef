#!/usr/bin/env python3
"""Compares ways to spread a bundle for one endpoint in walking networks without routes, in a model of its own: nodes as in
`make simulate`, but every neighbour knows at once what the others hold, and nothing is lost. It shows what a rule can save at
most. `spreading.py [NODES]`; needs python3-numpy and python3-scipy. docs/decisions/copies-while-walking.md has the figures."""

import sys

import numpy as np
from scipy.sparse import csr_matrix
from scipy.spatial import cKDTree

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
RANGE, DEGREE, SECONDS, MESSAGES, SEED = 50.0, 8, 120, 24, 1
# Seconds after which a rule that saves copies gives way to plain spreading.
PATIENCE = 60


class Walkers:
    """Random waypoint: 0.5 to 2 m/s, pauses of up to a minute, in a square."""

    def __init__(self, generator):
        self.generator, self.side = generator, RANGE * (np.pi * COUNT / DEGREE) ** 0.5
        self.place = generator.uniform(0, self.side, (COUNT, 2))
        self.time = 0
        self.target, self.speed, self.wait = np.empty((COUNT, 2)), np.empty(COUNT), np.empty(COUNT)
        self.aim(np.ones(COUNT, bool))

    def aim(self, chosen):
        number = chosen.sum()
        self.target[chosen] = self.generator.uniform(0, self.side, (number, 2))
        self.speed[chosen] = self.generator.uniform(0.5, 2, number)
        self.wait[chosen] = self.time + self.generator.uniform(0, 60, number)

    def step(self):
        self.time += 1
        way = self.target - self.place
        length = np.hypot(way[:, 0], way[:, 1])
        moving = self.wait <= self.time
        arrived = moving & (length <= self.speed)
        going = moving & ~arrived
        self.place[going] += way[going] * (self.speed[going] / length[going])[:, None]
        self.place[arrived] = self.target[arrived]
        self.aim(arrived)

    def links(self):
        pairs = cKDTree(self.place).query_pairs(RANGE, output_type="ndarray")
        rows, columns = np.concatenate([pairs[:, 0], pairs[:, 1]]), np.concatenate([pairs[:, 1], pairs[:, 0]])
        return csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), (COUNT, COUNT))


def spread(rate, answer_rate, share):
    """Copies travel `rate` hops a second, acknowledgements `answer_rate`; for PATIENCE seconds only this share of the nodes,
    another one for each bundle, is offered copies. Returns the delivered, their delays, and the copies for each."""
    generator = np.random.default_rng(SEED)
    walkers = Walkers(generator)
    sources, destinations = generator.permutation(COUNT)[: 2 * MESSAGES].reshape(2, MESSAGES)
    columns = np.arange(MESSAGES)
    carriers = generator.uniform(size=(COUNT, MESSAGES)) < share
    carriers[destinations, columns] = True
    holders = np.zeros((COUNT, MESSAGES), bool)
    holders[sources, columns] = True
    answered = np.zeros_like(holders)
    delay = np.full(MESSAGES, np.nan)
    rounds = max(rate, answer_rate)
    for second in range(SECONDS):
        walkers.step()
        links = walkers.links()
        for turn in range(rounds):
            if turn * rate // rounds != (turn + 1) * rate // rounds:
                reached = (links @ (holders & ~answered).astype(np.float32)) > 0
                if second < PATIENCE:
                    reached &= carriers
                holders |= reached & ~answered
            arrived = holders[destinations, columns] & np.isnan(delay)
            delay[arrived] = second + turn / rounds
            answered[destinations, columns] |= holders[destinations, columns]
            if turn * answer_rate // rounds != (turn + 1) * answer_rate // rounds:
                answered |= ((links @ answered.astype(np.float32)) > 0) & holders
        if (answered.sum(0) >= holders.sum(0)).all():
            break
    return (~np.isnan(delay)).sum(), delay, (holders.sum(0) - 1).mean() / COUNT


print(f"{COUNT} nodes, {MESSAGES} bundles, {SECONDS} s")
for name, rate, answer_rate, share in [
    ("to every node, acknowledgements as fast", 8, 8, 1),
    ("acknowledgements four times as fast", 2, 8, 1),
    ("acknowledgements eight times as fast", 1, 8, 1),
    ("half of the nodes at first", 8, 8, 0.5),
    ("half of the nodes, four times as fast", 2, 8, 0.5),
]:
    delivered, delay, copies = spread(rate, answer_rate, share)
    print(f"{name}: {delivered} delivered, median {np.nanmedian(delay):.1f} s, {copies:.2f} copies for each node", flush=True)
