"""A process on a pseudo-terminal."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios


class PseudoTerminal:
    """A process on a terminal of its own, its output, and the keys typed there.

    `buffer` is the output that a test has not discarded, `transcript` all of it.
    """

    def __init__(self, command, environment, columns, rows):
        self.buffer = b""
        self.transcript = b""
        size = struct.pack("HHHH", rows, columns, 0, 0)
        self.process, self.device = pty.fork()
        if self.process == 0:
            # A child that cannot run the command must not go on as a second process of the tests.
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, size)
                os.execvpe(command[0], command, environment)
            except BaseException as error:
                os.write(2, f"{command[0]}: {error}\r\n".encode())
            finally:
                os._exit(127)
        fcntl.ioctl(self.device, termios.TIOCSWINSZ, size)

    def read(self, seconds):
        """Returns false once no process has the terminal open."""
        if not select.select([self.device], [], [], seconds)[0]:
            return True
        try:
            got = os.read(self.device, 65536)
        except OSError:
            got = b""
        self.buffer += got
        self.transcript += got
        return bool(got)

    def rows(self):
        """Returns what the screen shows, of a command that moves the cursor as a line of state does, with all that has scrolled
        away."""
        columns = struct.unpack("HHHH", fcntl.ioctl(self.device, termios.TIOCGWINSZ, bytes(8)))[1]
        rows, row, column, saved = [""], 0, 0, (0, 0)
        for part in re.findall(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[78]|[\r\n]|[^\x1b\r\n]", self.transcript.decode(errors="replace")):
            if part == "\r":
                column = 0
            elif part == "\n":
                row += 1
            elif part == "\x1b[2K":
                rows[row] = ""
            elif part == "\x1b7":
                saved = row, column
            elif part == "\x1b8":
                row, column = saved
            elif part.startswith("\x1b"):
                if part.endswith("A"):
                    row -= int(part[2:-1])
            else:
                if column == columns:
                    row, column = row + 1, 0
                rows += [""] * (row + 1 - len(rows))
                rows[row] = rows[row][:column].ljust(column) + part + rows[row][column + 1 :]
                column += 1
            rows += [""] * (row + 1 - len(rows))
        return rows

    def press(self, keys):
        os.write(self.device, keys.encode())

    def wait(self):
        """Waits for the exit status."""
        status = os.waitpid(self.process, 0)[1]
        self.process = None
        return os.waitstatus_to_exitcode(status)

    def close(self):
        """Ends a process that still runs, and closes the terminal."""
        if self.process:
            os.kill(self.process, signal.SIGKILL)
            self.wait()
        if self.device is not None:
            os.close(self.device)
            self.device = None
