internal import Nearshare

/// Advice about a file that the mesh does not carry to a peer.
enum MeshAdvice {
    /// - Parameter software: nil for everyone.
    static func forLargeFile(to software: Contact.Software?) -> String {
        switch software {
        case .phone:
            "send a smaller one, or open a page for the phone's browser with `nearshare send --qr`"
        case nil: "send a smaller one"
        case .nearshare, .blueChat, .unknown:
            "a direct connection carries it: `nearshare send` makes one when both are on one network or in Bluetooth range"
        }
    }

    /// The result of a transfer through the mesh, with the advice that it needs.
    static func completed(_ result: TransferResult, to software: Contact.Software?) -> TransferResult {
        guard result.outcome == .failed(.tooLarge, at: .local), let detail = result.detail else { return result }
        var result = result
        result.detail = "\(detail); \(forLargeFile(to: software))"
        return result
    }
}
