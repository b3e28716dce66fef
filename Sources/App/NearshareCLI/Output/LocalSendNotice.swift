internal import Nearshare
internal import NearshareService

/// The line that says where LocalSend devices find this machine.
enum LocalSendNotice {
    static func show(_ server: LocalSendServer, to reporter: any CommandReporter) {
        reporter.emit(
            "localsend", ["port": .number(UInt64(server.port)), "certificate": .string(Hex.encode(server.fingerprint))]
        ) {
            Console.notice(
                "LocalSend devices see it on port \(server.port), certificate \(CertificateText.short(server.fingerprint))")
        }
    }
}
