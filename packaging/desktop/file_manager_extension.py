"""The entry "Send with nearshare" in the menus of Nautilus and Caja, where their Python extensions are installed."""

import subprocess

from gi.repository import GObject

if "/caja-python/" in __file__:
    from gi.repository import Caja as FileManager
else:
    from gi.repository import Nautilus as FileManager


class NearshareMenu(GObject.GObject, FileManager.MenuProvider):
    def get_file_items(self, *arguments):
        # Older versions pass the window first.
        paths = [file.get_location().get_path() for file in arguments[-1]]
        if not paths or None in paths:
            return []
        item = FileManager.MenuItem(
            name="Nearshare::send", label="Send with nearshare", tip="Send to somebody nearby", icon="org.nearshare.nearshare"
        )
        item.connect("activate", lambda _: subprocess.Popen(["nearshare", "send", "--dialog", "--", *paths]))
        return [item]

    def get_background_items(self, *_):
        return []
