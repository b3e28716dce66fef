internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// Writes a conversation to a text file.
struct ChatExport {
    let client: any NodeClient
    let machine: LocalMachine

    private static let pageCount = 1_000
    /// Limit on the names that are tried for a file that exists.
    private static let maximumAttemptCount = 100

    /// - Parameter name: the peer's name, from which the name of the file is made.
    /// - Returns: the path of the new file.
    func write(
        _ conversation: Conversation, name: String, to directory: String, at now: WallTime
    ) async throws(ControlFailure) -> String {
        let text = try await lines(of: conversation, called: name).map { $0 + "\n" }.joined()
        let stem = "chat \(String(name.map { $0.isLetter || $0.isNumber ? $0 : "_" })) \(LocalTime(now).day)"
        let result: Result<String, ControlFailure>? = try? await BlockingThread.run {
            do throws(ControlFailure) {
                return .success(try Self.write(text, to: directory, stem: stem))
            } catch {
                return .failure(error)
            }
        }
        guard let result else { throw ControlFailure(.storage, "the machine has no thread left; try again") }
        return try result.get()
    }

    /// Writes a new file under a name that is not in use; blocks.
    private static func write(_ text: String, to directory: String, stem: String) throws(ControlFailure) -> String {
        _ = mkdir(directory, 0o700)
        for number in 1...maximumAttemptCount {
            let path = "\(directory)/\(stem)\(number == 1 ? "" : " (\(number))").txt"
            do throws(SystemCallError) {
                try NewFile.create(path, isPrivate: true, holding: text)
                return path
            } catch {
                guard error.code == EEXIST else { throw ControlFailure(.storage, systemErrorText(error.code)) }
            }
        }
        throw ControlFailure(.storage, "there are files of this name already")
    }

    /// The files that were sent and received beside the lines.
    private func files(of conversation: Conversation) -> [SharedItem] {
        guard case .peer(let peer) = conversation else { return [] }
        // Without the log the lines are written.
        let items = (try? TransferHistory(of: machine).conversationItems(with: peer)) ?? []
        return items.map { SharedItem($0) }
    }

    /// All lines with their days, the oldest first, escaped for a terminal.
    private func lines(of conversation: Conversation, called name: String) async throws(ControlFailure) -> [String] {
        var messages: [ChatMessage] = []
        var page: [ChatMessage]
        repeat {
            page = try await client.history(of: conversation, before: messages.first?.number, limit: Self.pageCount)
            messages = page + messages
        } while !page.isEmpty
        var blocks = messages.map { (when: $0.when, lines: ChatReport.lines($0, called: name, keepsJoiners: true)) }
        for file in files(of: conversation) {
            blocks.insert(
                (file.when, file.lines(after: "\(LocalTime(file.when).clock) ")),
                at: blocks.firstIndex { $0.when > file.when } ?? blocks.count)
        }
        guard !blocks.isEmpty else { throw ControlFailure(.refused, "there are no lines") }
        var day = ""
        return blocks.flatMap { block -> [String] in
            let present = LocalTime(block.when).day
            defer { day = present }
            return (present == day ? [] : ["-- \(present) --"]) + block.lines
        }
    }
}
