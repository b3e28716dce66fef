"""The pseudo-terminal of the other tests."""

import unittest

from pseudo_terminal import PseudoTerminal


class PseudoTerminalTests(unittest.TestCase):
    def test_a_command_that_cannot_run_ends_with_its_error(self):
        terminal = PseudoTerminal(["/absent/command"], {}, columns=80, rows=24)
        self.addCleanup(terminal.close)
        while terminal.read(10):
            pass
        self.assertIn(b"/absent/command: ", terminal.transcript)
        self.assertEqual(127, terminal.wait())

    def test_closing_ends_the_process(self):
        terminal = PseudoTerminal(["sleep", "1000"], {"PATH": "/usr/bin:/bin"}, columns=80, rows=24)
        terminal.close()
        self.assertIsNone(terminal.process)
        terminal.close()


if __name__ == "__main__":
    unittest.main()
