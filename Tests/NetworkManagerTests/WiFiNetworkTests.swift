import NearshareInterfaces
import Testing

@Suite struct WiFiNetworkTests {
    /// (name, passphrase, text)
    private static let texts = [
        ("nearshare-7q4k", "abcd-efgh-jkmn", "WIFI:T:WPA;S:nearshare-7q4k;P:abcd-efgh-jkmn;;"),
        (#"a;b,c:d"e\f"#, "12345678", #"WIFI:T:WPA;S:a\;b\,c\:d\"e\\f;P:12345678;;"#),
        ("café ✓", #";;;;\\\\"#, #"WIFI:T:WPA;S:café ✓;P:\;\;\;\;\\\\\\\\;;"#),
    ]

    @Test("special characters are escaped in the text of a QR code", arguments: texts)
    func joinText(name: String, passphrase: String, text: String) {
        #expect(WiFiNetwork(ssid: name, passphrase: passphrase).joinText == text)
    }

    @Test func `a fresh network has 20 random bits in its name and 60 in its passphrase`() {
        let network = WiFiNetwork(random: (0..<16).map { UInt8($0) })
        #expect(network == WiFiNetwork(ssid: "nearshare-0123", passphrase: "4567-89ab-cdef"))
        #expect(WiFiNetwork(random: (16..<32).map { UInt8($0) | 0xe0 }).passphrase == "mnpq-rstv-wxyz")
        #expect(WiFiNetwork.passphraseLength.contains(network.passphrase.utf8.count))
        // Each bit that counts changes the network.
        for index in 0..<16 {
            for bit in 0..<5 {
                var random = (0..<16).map { UInt8($0) }
                random[index] ^= 1 << bit
                #expect(WiFiNetwork(random: random) != network)
            }
        }
    }
}
