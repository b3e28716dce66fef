@testable import NearshareService

extension Question {
    /// Creates a question with other answers than yes, no and block.
    init(_ prompt: String, about peerName: String, subject: String = "", _ change: (inout Question) -> Void) {
        self.init(prompt, about: peerName, subject: subject)
        change(&self)
    }
}
