"""Makes the database of orders, the same every time."""

import json
import random
import sqlite3

from shop.orders import DATABASE

COUNT = 2_000

generator = random.Random(7)
with sqlite3.connect(DATABASE) as database:
    database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, cents INTEGER, shares TEXT)")
    for _ in range(COUNT):
        shares = [generator.randint(1, 9) for _ in range(generator.randint(1, 6))]
        database.execute("INSERT INTO orders (cents, shares) VALUES (?, ?)", (generator.randint(1, 10**6), json.dumps(shares)))
