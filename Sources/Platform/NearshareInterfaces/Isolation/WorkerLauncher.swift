/// A job of a worker process.
package enum WorkerJob: UInt8, Sendable, CaseIterable {
    /// Detects the media type of content that is sent over the socket.
    case detectMediaType = 1
    /// Decodes the voice note in the passed file.
    case decodeNote
    /// Decodes the sound file in the passed file.
    case decodeSoundFile
    /// Moves what waits in the spool into the inbox.
    case deliverPending
    /// Runs the user's command for an item that has arrived; the passed file is its output.
    case runCommand
    /// Draws the picture in the passed file as text for a terminal.
    case drawPicture
}

/// Starts worker processes. A worker that decodes bytes of peers has no rights but its socket and the passed file, so that a
/// flaw in the decoder exposes neither keys nor files.
package protocol WorkerLauncher: Sendable {
    /// Starts a worker.
    /// - Parameter file: a descriptor that the worker receives a copy of.
    /// - Returns: a stream socket connected with the worker, owned by the caller. It is closed at the other end when the worker
    ///   ends, for whatever reason.
    func start(_ job: WorkerJob, passing file: Int32?) throws(SystemCallError) -> Int32
}

/// The part of a job that runs in the worker.
package struct WorkerRoutine: Sendable {
    /// Prepares the job before confinement: loads libraries and databases, and opens attributes of files. It decodes nothing that
    /// peers have written.
    /// - Returns: the rest of the job.
    package typealias Load = @Sendable (_ socket: Int32, _ file: Int32?) -> () -> Void

    /// False for a job that decodes nothing that peers have written, and keeps its rights. It may move such content.
    package let isConfined: Bool
    /// Time after which the kernel ends the worker, in whole seconds; nil for none.
    package let timeout: Duration?
    package let load: Load

    package init(isConfined: Bool = true, timeout: Duration? = nil, load: @escaping Load) {
        self.isConfined = isConfined
        self.timeout = timeout
        self.load = load
    }
}
