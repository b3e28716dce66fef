internal import Glibc
internal import Nearshare
internal import NearshareTerminal

/// The QR code and the address of a page.
enum PageNotice {
    /// Limit on the addresses that are shown besides that of the code.
    private static let maximumOtherCount = 3

    /// - Parameters:
    ///   - hosts: the addresses of this machine, the most likely one first.
    ///   - action: what the page is for, as the end of "scan it with a phone to …".
    static func show(_ page: PageServer, at hosts: [String], purpose action: String, to reporter: any CommandReporter) {
        if hosts.isEmpty {
            Console.warn("this machine has no address that a phone could reach; connect it to a network, and start again")
        }
        let urls = (hosts.isEmpty ? ["127.0.0.1"] : hosts).map { page.url(host: $0) }
        reporter.emit("page", ["url": JSONValue(urls.first), "urls": .array(urls.map { .string($0) })]) {
            write(urls, action)
        }
    }

    private static func write(_ urls: [String], _ action: String) {
        guard let url = urls.first else { return }
        if QRCodeOutput.write(url, to: STDERR_FILENO) {
            Console.notice("scan the code with a phone on the same network to \(action), or open \(url)")
        } else {
            Console.notice("to \(action), open this address with a phone on the same network: \(url)")
        }
        let others = urls.dropFirst()
        for url in others.prefix(maximumOtherCount) { Console.notice("also at \(url)") }
        let more = others.count - maximumOtherCount
        if more > 0 { Console.notice("and at \(more) more \(more == 1 ? "address" : "addresses"); --json lists all") }
    }
}
