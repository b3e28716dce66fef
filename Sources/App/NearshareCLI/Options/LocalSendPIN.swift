internal import Glibc
internal import Nearshare
internal import NearshareService

/// A PIN of LocalSend, from a file: the one that this machine requires from devices, or the one that a device requires. It is
/// no argument, because other users of this machine can read the command line.
enum LocalSendPIN {
    private static let maximumByteCount = 64

    /// Reads the first line of a file.
    static func read(path: String) throws -> String {
        let shown = TerminalText.escaped(path, columns: 400)
        guard let file = fopen(path, "re") else {
            throw CommandFailure(.failure, "could not read \(shown): \(systemErrorText())")
        }
        defer { fclose(file) }
        // One byte more than the longest PIN, its end of line and the final zero.
        var buffer = [CChar](repeating: 0, count: maximumByteCount + 3)
        let isRead = fgets(&buffer, Int32(buffer.count), file) != nil
        let line = buffer.prefix { $0 != 0 && $0 != 10 && $0 != 13 }.map { UInt8(bitPattern: $0) }
        guard isRead, (1...maximumByteCount).contains(line.count), line.allSatisfy({ (0x21...0x7e).contains($0) }) else {
            throw CommandFailure(
                .usage,
                "\(shown) should have a PIN of at most \(maximumByteCount) ASCII letters, digits and signs in its first line")
        }
        return String(decoding: line, as: UTF8.self)
    }
}
