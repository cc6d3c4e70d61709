"""The orders of the shop, which are in a database."""

import json
import sqlite3

DATABASE = "orders.db"


def load():
    with sqlite3.connect(DATABASE) as database:
        return [(cents, json.loads(shares)) for cents, shares in database.execute("SELECT cents, shares FROM orders ORDER BY id")]
