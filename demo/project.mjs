// The small real project of the demo: a Python package that splits restaurant bills, with six tests, of
// which two fail, and the change that mends both.

export const directory = 'bill';

const files = {
	'bill.py': `"""Splits a bill among guests. Amounts are integers in cents."""


def parse_amount(text):
    """'12.50' -> 1250"""
    euros, _, cents = text.partition(".")
    return int(euros) * 100 + int(cents)


def split(total, guests):
    """Shares that differ by one cent at most and add up to the total."""
    return [total // guests] * guests


def with_tip(total, percent):
    return total + (total * percent + 50) // 100
`,
	'test_bill.py': `import unittest

from bill import parse_amount, split, with_tip


class Bill(unittest.TestCase):
    def test_amount(self):
        self.assertEqual(parse_amount("12.50"), 1250)

    def test_amount_with_one_digit(self):
        self.assertEqual(parse_amount("12.5"), 1250)

    def test_even_split(self):
        self.assertEqual(split(900, 3), [300, 300, 300])

    def test_no_cent_is_lost(self):
        self.assertEqual(split(1000, 3), [334, 333, 333])

    def test_tip(self):
        self.assertEqual(with_tip(2000, 10), 2200)

    def test_tip_is_rounded(self):
        self.assertEqual(with_tip(1005, 10), 1106)


if __name__ == "__main__":
    unittest.main()
`,
};

const patch = `--- a/bill.py
+++ b/bill.py
@@ -4,12 +4,13 @@
 def parse_amount(text):
     """'12.50' -> 1250"""
     euros, _, cents = text.partition(".")
-    return int(euros) * 100 + int(cents)
+    return int(euros) * 100 + int(cents.ljust(2, "0"))
 
 
 def split(total, guests):
     """Shares that differ by one cent at most and add up to the total."""
-    return [total // guests] * guests
+    share, rest = divmod(total, guests)
+    return [share + (guest < rest) for guest in range(guests)]
 
 
 def with_tip(total, percent):
`;

const heredoc = (name, text) => `cat > ${name} <<'END_OF_FILE'\n${text}END_OF_FILE\n`;

// Shell commands, as an agent would write them.
export const commands = {
	write:
		`mkdir -p ${directory} && cd ${directory}\n` +
		Object.entries(files)
			.map(([name, text]) => heredoc(name, text))
			.join('') +
		'git init -q && git add . && git -c user.name=agent -c user.email=agent@example.com ' +
		'commit -q -m "bill: first version"\ngit ls-files | xargs wc -l',
	test: 'python3 -m unittest',
	fix: `git apply <<'END_OF_PATCH'\n${patch}END_OF_PATCH\ngit diff --stat`,
};
