internal import Glibc
internal import Nearshare

/// The user who has run this process through sudo.
package struct SudoUser: Sendable {
    package let name: String
    package let home: String
    private let user: uid_t
    private let group: gid_t

    /// The user that `SUDO_UID` names; nil when the process is not root, or not run through sudo.
    package static var current: SudoUser? {
        guard geteuid() == 0, let text = getenv("SUDO_UID"), let user = uid_t(String(cString: text)), user != 0,
            let entry = getpwuid(user)
        else { return nil }
        return SudoUser(
            name: String(cString: entry.pointee.pw_name), home: String(cString: entry.pointee.pw_dir), user: user,
            group: entry.pointee.pw_gid)
    }

    /// The variables that the user's own session would have, as far as sudo does not hide them.
    package var environment: [String: String] {
        let runtime = "/run/user/\(user)"
        return access(runtime, F_OK) == 0 ? ["HOME": home, "XDG_RUNTIME_DIR": runtime] : ["HOME": home]
    }

    /// Takes on the rights of the user, so that files are read and made as the user's.
    /// - Parameter permanently: if false, ``restorePrivileges()`` returns to the rights of root.
    package func dropPrivileges(permanently: Bool = false) throws(CommandFailure) {
        guard initgroups(name, group) == 0,
            permanently
                ? setgid(group) == 0 && setuid(user) == 0
                : setegid(group) == 0 && seteuid(user) == 0
        else { throw failure("take on the rights of \(name)") }
    }

    private func failure(_ action: String) -> CommandFailure {
        CommandFailure(.failure, "could not \(action): \(systemErrorText(errno)); run `nearshare doctor` without sudo")
    }

    /// Returns to the rights of root.
    package func restorePrivileges() throws(CommandFailure) {
        guard seteuid(0) == 0, setegid(0) == 0 else { throw failure("return to the rights of root") }
    }
}
