"""Notification servers other than dunst, as python-dbusmock plays them: fewer capabilities, forged signals, errors."""

import importlib.util
import signal
import threading
import unittest

from desktop import DesktopStory, needs_desktop
from harness import wait_until
from localsend_peer import Certificate, LocalSendPeer
from test_notifications import FOLLOWS

HAS_MOCK = all(importlib.util.find_spec(name) for name in ("dbus", "dbusmock"))
NAME, PATH = "org.freedesktop.Notifications", "/org/freedesktop/Notifications"
MOCK = "org.freedesktop.DBus.Mock"


def dbus_number(number):
    import dbus

    return dbus.UInt32(number)


@needs_desktop
@unittest.skipUnless(HAS_MOCK, "needs python3-dbusmock")
class ServerStory(DesktopStory):
    def connect(self):
        import dbus

        connection = dbus.bus.BusConnection(self.desktop.variables["DBUS_SESSION_BUS_ADDRESS"])
        self.addCleanup(connection.close)
        return connection

    def start_server(self, capabilities, notify="ret = 7"):
        """Starts a server; the code answers `Notify`."""
        import dbus

        self.desktop.start("/usr/bin/python3", "-m", "dbusmock", "--session", NAME, PATH, NAME)
        self.bus = self.connect()
        wait_until(lambda: self.bus.name_has_owner(NAME), "the server")
        self.server = dbus.Interface(self.bus.get_object(NAME, PATH), MOCK)
        for name, takes, gives, code in (
            ("Notify", "susssasa{sv}i", "u", notify),
            ("CloseNotification", "u", "", ""),
            # The last one, because the tool asks for it.
            ("GetCapabilities", "", "as", f"ret = {capabilities!r}"),
        ):
            self.server.AddMethod(NAME, name, takes, gives, code)

    def start_node(self):
        """anna's node, and her notifications, which follow it."""
        anna = self.anna.receive("--adapter", "none", accept="ask")
        self.notifications = self.anna.start("notify", "--log-level", "info")
        wait_until(lambda: self.has_said(FOLLOWS), FOLLOWS)
        return anna

    def has_said(self, words):
        return any(words in line for line in list(self.notifications.errors))

    def shown(self):
        wait_until(lambda: self.server.GetMethodCalls("Notify"), "a notification")
        return self.server.GetMethodCalls("Notify")[-1][1]

    def test_D9_T6_without_markup_text_is_plain_and_a_forged_signal_answers_nothing(self):
        self.start_server(["actions", "body"])
        anna = self.start_node()
        sending = self.ben.start("send", "--json", self.file("<b>&amp;.txt", 5), "--to", anna.address)
        _, _, _, summary, body, actions, hints, timeout = self.shown()
        self.assertEqual('accept from "ben"?', summary)
        self.assertIn('"<b>&amp;.txt"  5 B', body)
        self.assertEqual(["yes", "Accept", "no", "Decline"], list(actions))
        self.assertEqual((1, 0), (hints["urgency"], timeout))
        # Another program says that the button was pressed; the bus has passed that on before the call returns.
        import dbus.lowlevel

        forger = self.connect()
        message = dbus.lowlevel.SignalMessage(PATH, NAME, "ActionInvoked")
        message.append(7, "yes", signature="us")
        forger.send_message(message)
        forger.get_name_owner(NAME)
        # So is a signal with other arguments than those of the specification, even of the server.
        self.server.EmitSignal(NAME, "ActionInvoked", "uss", [dbus.UInt32(7), "yes", "x"])
        self.server.EmitSignal(NAME, "ActionInvoked", "u", [dbus.UInt32(7)])
        self.server.EmitSignal(NAME, "ActionInvoked", "us", [dbus.UInt32(7), "no"])
        self.assertEqual("declined", sending.wait_for("finished")["outcome"])

    def test_a_background_node_asks_about_offers_of_localsend_devices(self):
        self.start_server(["actions", "body"])
        folder = self.anna.home / "config/nearshare"
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text('protocols = ["nearshare", "localsend"]\n')
        node = self.anna.start("mesh", "run", "--json", "--adapter", "none", "--accept", "ask", "--inbox", self.anna.inbox)
        node.wait_for("ready")
        port = node.wait_for("localsend")["port"]
        self.notifications = self.anna.start("notify", "--log-level", "info")
        wait_until(lambda: self.has_said(FOLLOWS), FOLLOWS)
        sender = LocalSendPeer(("127.0.0.1", port), Certificate(self.place))
        self.addCleanup(sender.close)
        answers = []
        files = [LocalSendPeer.file("a", "a.txt", b"hello")]
        waiting = threading.Thread(target=lambda: answers.append(sender.offer(files)))
        waiting.start()
        _, _, _, summary, body, actions, _, _ = self.shown()
        self.assertEqual(('accept from "Nice Orange"?', "yes"), (summary, list(actions)[0]))
        self.assertIn("with LocalSend", body)
        self.assertIn("certificate", body)
        self.server.EmitSignal(NAME, "ActionInvoked", "us", [dbus_number(7), "yes"])
        waiting.join(30)
        status, answer = answers.pop()
        self.assertEqual(200, status)
        self.assertEqual(200, sender.upload(answer, "a", b"hello"))
        self.assertEqual({"a.txt": b"hello"}, self.anna.received())

    def test_a_server_that_shows_nothing_is_not_asked_again(self):
        self.start_server(["actions"], notify='raise dbus.exceptions.DBusException("no", name="org.test.Refused")')
        anna = self.start_node()
        first = self.ben.start("send", "--json", "--text", "one", "--to", anna.address)
        wait_until(lambda: self.has_said("no notification server answers"), "the message")
        second = self.ben.start("send", "--json", "--text", "two", "--to", anna.address)
        self.assertEqual("declined", second.wait_for("finished")["outcome"])
        first.signal(signal.SIGINT)
        first.end()

    def test_a_server_without_buttons_is_not_asked(self):
        self.start_server(["body"])
        anna = self.anna.receive("--adapter", "none", accept="ask")
        self.notifications = self.anna.start("notify")
        wait_until(lambda: self.has_said("shows no buttons"), "the message")
        sending = self.ben.start("send", "--json", "--text", "one", "--to", anna.address)
        self.assertEqual("declined", sending.wait_for("finished")["outcome"])
        self.assertEqual([], list(self.server.GetMethodCalls("Notify")))


if __name__ == "__main__":
    unittest.main()
