"""The first minute: the command without arguments, and the questions of `nearshare setup`."""

import unittest

from test_questions import Asked


class FirstMinuteStory(Asked):
    def test_the_name_alone_says_who_is_near_and_what_to_type(self):
        screen = self.terminal(self.ben, *self.ben.command(), columns=80, rows=24)
        screen.wait_for(r"you +ben \([0-9a-f]{16}\)")
        screen.wait_for(r"near +no peers; on another machine, run `nearshare receive`|near +\S+")
        screen.wait_for(r"send +nearshare send photo.jpg --to ")
        screen.wait_for(r"set up +nearshare setup")
        self.assertEqual(0, screen.end())
        # A program that runs it gets the help.
        self.assertIn(b"SUBCOMMANDS", self.ben.run().stdout)

    def test_setup_asks_three_questions_and_keeps_what_else_is_in_the_file(self):
        path = self.ben.home / "config/nearshare/config.toml"
        path.parent.mkdir(parents=True)
        path.write_text('# my own\nmax-size = "1 GB"\naccept = "all"  # for now\n\n[open]\n"image/*" = "feh"\n')
        screen = self.terminal(self.ben, *self.ben.command("setup"))
        screen.wait_for(r"name of this machine, as people nearby see it \[ben\]: ")
        screen.press("benjamin\n")
        screen.wait_for(r"folder for received files \[.*/Inbox\]: ")
        screen.press("relative\n")
        screen.wait_for(r"the path begins with / or ~/\s+folder for received files")
        screen.press("~/In\n")
        screen.wait_for(r"who may send: .* \[all\]: ")
        screen.press("friends\n")
        screen.wait_for("written to ")
        screen.wait_for("is writable")
        expected = '# my own\nmax-size = "1 GB"\naccept = "friends"\ninbox = "~/In"\n\n[open]\n"image/*" = "feh"\n'
        self.assertEqual(expected, path.read_text())
        self.assertRegex(self.ben.run("config").stdout.decode(), r"(?m)^name +benjamin ")
        self.assertIn(f"{self.ben.home}/In ", self.ben.run("config").stdout.decode())

    def test_setup_writes_only_what_changes(self):
        path = self.ben.home / "config/nearshare/config.toml"
        for answers, text in (("\n\n\n", None), ("\n\nfriends\n", 'accept = "friends"\n')):
            screen = self.terminal(self.ben, *self.ben.command("setup"))
            screen.wait_for(r"name of this machine")
            screen.press(answers)
            screen.wait_for("is made when something arrives")
            screen.end()
            self.assertEqual(text, path.read_text() if path.exists() else None)
        self.assertEqual(0o600, path.stat().st_mode & 0o777)
        self.assertEqual([], list(self.ben.home.rglob("identity.key")))

    def test_ctrl_d_ends_setup_and_nothing_is_written(self):
        def files():
            return sorted(path for path in self.ben.home.rglob("*") if path.is_file())

        before = files()
        screen = self.terminal(self.ben, *self.ben.command("setup"))
        screen.wait_for(r"name of this machine")
        screen.press("benjamin\n~/In\n")
        screen.wait_for(r"who may send")
        screen.press("\x04")
        screen.wait_for(r"\[ask\]: \s*nearshare: ended before the last question: no setting was changed")
        self.assertEqual(130, screen.end())
        self.assertEqual(before, files())
        self.assertFalse((self.ben.home / "In").exists())
        self.assertRegex(self.ben.run("config").stdout.decode(), r"(?m)^name +ben ")

    def test_setup_without_a_terminal(self):
        result = self.ben.run("setup")
        self.assertCode(2, result)
        self.assertIn("there is no terminal to ask on", result.stderr.decode())


if __name__ == "__main__":
    unittest.main()
