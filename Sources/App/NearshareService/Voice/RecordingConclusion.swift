internal import Nearshare
package import NearshareAudio

/// The consequences of a recording's end whose file is kept.
package struct RecordingConclusion: Sendable {
    package let warnings: [String]
    /// Messages that are shown after the warnings, unless ``failure`` ends the command.
    package let notices: [String]
    package let failure: CommandFailure?

    /// - Parameters:
    ///   - path: the path of the file.
    ///   - limit: the size limit of the recording.
    ///   - receiverLimit: the sentence about the receiver that has this limit; nil for the user's own one.
    ///   - input: the name of what was encoded, escaped; nil for a microphone. An input file beyond the limit of a receiver is not
    ///     sent in part.
    ///   - isReviewed: whether the user decides about the note. A script needs the failure of its recording.
    /// - Throws: the failure of a recording whose file is to be removed: it is empty, or has only a part of an input file.
    package init(
        of result: Recording.Result, at path: String, limit: NoteSizeLimit?, receiverLimit: String?, input: String?,
        isReviewed: Bool
    ) throws(CommandFailure) {
        let length = result.duration.asClock
        if result.isEmpty { throw Self.failure(ofEmpty: result, from: input) }
        if result.reason == .limit, let receiverLimit, input != nil {
            throw CommandFailure(
                .noSpace,
                "nothing was sent: \(receiverLimit), and only the first \(length) of the input fits; choose a lower --bitrate, or "
                    + "send a part with --duration \(length)")
        }
        var warnings: [String] = []
        var notices: [String] = []
        var failure: CommandFailure?
        if result.lostFrames > 0 {
            warnings.append("\(result.lostFrames) samples were lost by the device, and replaced by silence")
        }
        switch result.reason {
        case .failed(let error):
            warnings.append(error.description)
            let kept = "the recording until then, \(length), is kept in \(TerminalText.path(path))"
            if isReviewed { warnings.append(kept) } else { failure = CommandFailure(CommandFailure(error).status, kept) }
        case .terminated:
            failure = CommandFailure(
                .interrupted, "ended by a signal; the recording, \(length), is kept in \(TerminalText.path(path))")
        case .limit:
            notices.append(
                "the size limit of \(limit?.byteCount.formattedByteCount ?? "") is reached after \(length); the recording is kept"
            )
        case .requested, .interrupted, .duration, .sourceEnded: break
        }
        (self.warnings, self.notices, self.failure) = (warnings, notices, failure)
    }

    private static func failure(ofEmpty result: Recording.Result, from input: String?) -> CommandFailure {
        switch result.reason {
        case .failed(let error): CommandFailure(error)
        case .terminated: CommandFailure(.interrupted, "ended before anything was recorded")
        case .requested, .interrupted, .duration, .limit, .sourceEnded:
            CommandFailure(.failure, result.recorded == .zero ? "nothing was recorded" : silence(in: input))
        }
    }

    private static func silence(in input: String?) -> String {
        let advice = "--no-trim keeps silence"
        if let input { return "there is only silence in \(input); \(advice)" }
        return "only silence was recorded; check the microphone and its mute switch (--list-devices lists devices). \(advice)"
    }
}
