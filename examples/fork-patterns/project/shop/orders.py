"""The orders of the shop, in a database. Run as a program it makes one, the same every time."""

import json
import random
import sqlite3

DATABASE = "orders.db"
COUNT = 3_000


def make():
    generator = random.Random(7)
    with sqlite3.connect(DATABASE) as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, cents INTEGER, shares TEXT)")
        for _ in range(COUNT):
            shares = [generator.randint(1, 9) for _ in range(generator.randint(1, 6))]
            database.execute("INSERT INTO orders (cents, shares) VALUES (?, ?)", (generator.randint(1, 10**6), json.dumps(shares)))


def load():
    with sqlite3.connect(DATABASE) as database:
        return [(cents, json.loads(shares)) for cents, shares in database.execute("SELECT cents, shares FROM orders ORDER BY id")]


if __name__ == "__main__":
    make()
