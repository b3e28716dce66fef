/// The SSID and passphrase of a Wi-Fi network that is protected by WPA2 or WPA3.
package struct WiFiNetwork: Sendable, Hashable {
    package let ssid: String
    package let passphrase: String

    package init(ssid: String, passphrase: String) {
        (self.ssid, self.passphrase) = (ssid, passphrase)
    }

    /// Random bytes that ``init(random:)`` needs.
    package static let randomByteCount = 16
    /// Crockford's Base32: 32 letters and digits of which none looks like another one, for phones without a camera.
    private static let alphabet = Array("0123456789abcdefghjkmnpqrstvwxyz")
    /// Limit on a passphrase, in characters (IEEE 802.11, annex J.4).
    package static let passphraseLength = 8...63

    /// A fresh network. The passphrase has 60 random bits: each guess costs an attacker who has recorded a handshake 4,096
    /// rounds of PBKDF2, and the network lasts as long as a command. The SSID differs from that of the last network, with whose
    /// passphrase phones would try this one.
    /// - Parameter random: at least ``randomByteCount`` bytes.
    package init(random: [UInt8]) {
        precondition(random.count >= Self.randomByteCount, "too few random bytes")
        let letters = random.map { Self.alphabet[Int($0 & 31)] }
        let groups = stride(from: 4, to: Self.randomByteCount, by: 4).map { String(letters[$0..<$0 + 4]) }
        self.init(ssid: "nearshare-" + String(letters[..<4]), passphrase: groups.joined(separator: "-"))
    }

    /// The text of a QR code by which the cameras of phones join the network, in the format that ZXing has introduced: the type
    /// WPA means WPA2 and WPA3 as well, and a backslash is in front of special characters.
    package var joinText: String { "WIFI:T:WPA;S:\(Self.escaped(ssid));P:\(Self.escaped(passphrase));;" }

    private static func escaped(_ text: String) -> String {
        text.reduce(into: "") { escaped, character in
            if "\\;,:\"".contains(character) { escaped.append("\\") }
            escaped.append(character)
        }
    }
}
