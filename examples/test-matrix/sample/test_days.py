import unittest

from days import weekdays


class Days(unittest.TestCase):
    def test_days_of_utc(self):
        self.assertEqual(weekdays([0, 86_399, 86_400]), ["Friday", "Thursday"])
