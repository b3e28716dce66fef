"""A process on a pseudo-terminal."""

import fcntl
import os
import pty
import select
import struct
import termios


class PseudoTerminal:
    """The output of a process on a terminal, and the keys typed there."""

    def __init__(self, command, environment, columns, rows):
        self.drawn = b""
        self.everything = b""
        size = struct.pack("HHHH", rows, columns, 0, 0)
        self.process, self.device = pty.fork()
        if self.process == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, size)
            os.execvpe(command[0], command, environment)
        fcntl.ioctl(self.device, termios.TIOCSWINSZ, size)

    def read(self, seconds):
        """Returns false once no process has the terminal open."""
        if not select.select([self.device], [], [], seconds)[0]:
            return True
        try:
            got = os.read(self.device, 65536)
        except OSError:
            got = b""
        self.drawn += got
        self.everything += got
        return bool(got)

    def press(self, keys):
        os.write(self.device, keys.encode())
