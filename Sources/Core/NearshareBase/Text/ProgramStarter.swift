/// Recognises files that desktops, shells and development tools run or load when they are opened, entered or merely present.
package enum ProgramStarter {
    /// Whether opening a file may start a program, by its path or claimed type. Content is not examined: a file of any name may be one.
    /// - Parameter path: the components, the name of the file last.
    package static func startsProgram(_ path: [ClaimedFileName], claimedType: String? = nil) -> Bool {
        guard let name = path.last else { return false }
        // Without parameters, such as "; charset=utf-8".
        let type = claimedType?.prefix { $0 != ";" }.lowercased().filter { !$0.isWhitespace }
        if let type, types.contains(type) { return true }
        // The name under which it will be stored, without what is removed from its end.
        let stored = SafeFileName(name, mayBeHidden: true).text.lowercased()
        if fileNames.contains(stored) || isHiddenStartupFile(stored) { return true }
        if let parent = path.dropLast().last.map({ SafeFileName($0, mayBeHidden: true).text.lowercased() }),
            programFolders.contains(parent) || fileNamesByFolder[parent]?.contains(stored) == true
        {
            return true
        }
        return stored.fileNameExtension.map { extensions.contains($0) } ?? false
    }

    /// Folders whose files are run, of whatever names.
    private static let programFolders: Set<String> = ["hooks", "autostart", "init.d", "cron.d", "profile.d"]

    /// Files that name a program to run, by the folders in which tools look for them.
    private static let fileNamesByFolder: [String: Set<String>] = [
        ".git": ["config"], ".hg": ["hgrc"], ".ssh": ["config", "rc"], ".cargo": ["config", "config.toml"],
        ".vscode": ["tasks.json", "settings.json", "launch.json"], ".config": ["mimeapps.list"],
    ]

    /// Hidden files that shells and tools read at their start, such as `.bashrc`, `.zprofile`, `.gdbinit` and `.tmux.conf`.
    private static func isHiddenStartupFile(_ name: String) -> Bool {
        let suffixes = ["rc", "profile", "login", "logout", "env", "session", "aliases", "init", ".conf"]
        return name.hasPrefix(".") && suffixes.contains { name.hasSuffix($0) }
    }

    private static let fileNames: Set<String> = [
        ".envrc", ".gitconfig", ".gitmodules", ".gitattributes", ".emacs", ".pam_environment", ".forward", ".netrc",
        ".lesskey", ".mailcap", "authorized_keys", "makefile", "gnumakefile", "justfile", "dockerfile", "autorun.inf",
        "cmakelists.txt", "meson.build", "configure", "build.gradle", "build.gradle.kts", "rakefile", "gemfile",
        "package.json", "vagrantfile",
    ]

    /// Without "bin" and "out", which data and logs have: a program of these names is known by its type.
    private static let extensions: Set<String> = [
        // Desktops and packages.
        "desktop", "kdelnk", "appimage", "flatpak", "flatpakref", "flatpakrepo", "snap", "deb", "rpm", "apk",
        "run", "elf", "so", "service", "timer", "socket", "path", "mount", "automount", "xpi", "crx", "jar",
        "jnlp",
        // Scripts.
        "sh", "bash", "zsh", "fish", "csh", "tcsh", "ksh", "dash", "command", "tool", "py", "pyc", "pyw", "pyz", "pth", "pl",
        "rb",
        "php", "lua", "tcl", "awk", "expect", "js", "mjs", "cjs", "vbs", "vbe", "jse", "wsf", "wsh", "ps1", "psm1", "bat",
        "cmd",
        // Other systems.
        "exe", "com", "scr", "pif", "msi", "msp", "dll", "cpl", "hta", "lnk", "scf", "url", "reg", "app", "pkg", "dmg",
        "workflow", "webloc",
        // Documents with programs inside.
        "docm", "xlsm", "xlsb", "xlam", "pptm", "potm", "ppsm", "ppam", "dotm", "xltm", "odb",
        // Editors.
        "vim", "el", "elc",
    ]

    private static let types: Set<String> = [
        "application/x-desktop", "application/x-executable", "application/x-pie-executable", "application/x-sharedlib",
        "application/x-shellscript", "text/x-shellscript", "application/x-sh", "application/x-csh", "text/x-python",
        "text/x-script.python", "text/x-perl",
        "text/x-ruby", "text/x-php", "application/javascript", "text/javascript", "application/vnd.appimage",
        "application/x-iso9660-appimage", "application/x-dosexec", "application/x-msdownload",
        "application/x-msdos-program", "application/x-msi", "application/x-ms-installer", "application/x-mach-binary",
        "application/vnd.microsoft.portable-executable", "application/x-ms-shortcut", "application/java-archive",
        "application/vnd.debian.binary-package", "application/x-rpm", "application/vnd.flatpak.ref",
        "application/vnd.flatpak", "application/vnd.snap",
    ]
}
