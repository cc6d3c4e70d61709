import json
import socket
import unittest

from shop.money import split


class Split(unittest.TestCase):
    def check(self, cents, shares):
        parts = split(cents, shares)
        whole = sum(shares)
        self.assertEqual(sum(parts), cents, "the parts add up")
        for part, share in zip(parts, shares):
            self.assertLess(abs(part * whole - cents * share), whole, "less than a cent from the exact share")

    def test_even(self):
        self.assertEqual(split(900, [1, 1, 1]), [300, 300, 300])

    def test_one(self):
        self.assertEqual(split(999, [7]), [999])

    def test_thirds(self):
        self.check(1000, [1, 1, 1])

    def test_halves(self):
        self.check(101, [1, 1])

    def test_many(self):
        self.check(1999, [1] * 12)

    def test_no_share_is_no_part(self):
        self.assertEqual(split(1000, [0, 3, 0])[::2], [0, 0])
        self.check(1001, [0, 1, 1, 0])

    def test_amounts_beyond_a_float(self):
        self.check(10**18 + 1, [1, 1, 1])

    def test_all_orders(self):
        with socket.create_connection(("127.0.0.1", 8000)) as server, server.makefile() as answer:
            for cents, shares in json.load(answer):
                self.check(cents, shares)
