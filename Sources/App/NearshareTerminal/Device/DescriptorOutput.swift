internal import Glibc

/// Blocking writes to standard output, standard error and terminals.
package enum DescriptorOutput {
    /// Writes a text. A terminal with another encoding than UTF-8 gets ASCII: other bytes may be control characters there (T2).
    package static func write(_ text: String, to descriptor: Int32) {
        let isASCII = !TerminalProperties.usesUTF8 && TerminalProperties.isTerminal(descriptor)
        write(Array((isASCII ? TextLayout.replacingNonASCII(text) : text).utf8), to: descriptor)
    }

    /// Writes all bytes. Errors other than a closed pipe are ignored: there is no channel left to report them on.
    ///
    /// A closed pipe ends the process, as it ends other tools: successfully where standard output was closed (`| head`).
    package static func write(_ bytes: [UInt8], to descriptor: Int32) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count >= 0 {
                rest = rest.dropFirst(count)
            } else if errno == EPIPE {
                exit(descriptor == STDOUT_FILENO ? EXIT_SUCCESS : EXIT_FAILURE)
            } else if errno != EINTR, errno != EAGAIN {
                return
            }
        }
    }
}
