// The part of the DNS message format (RFC 1035, section 4) that a legacy unicast query and its answers need.

package import NearshareBase

/// A domain name: its labels without the root.
package struct DNSName: Hashable {
    package var labels: [[UInt8]]

    init(_ labels: [[UInt8]]) { self.labels = labels }

    /// - Parameter text: ASCII labels, separated by dots.
    init(_ text: String) { labels = text.split(separator: ".").map { Array($0.utf8) } }

    package static func == (left: Self, right: Self) -> Bool { left.folded == right.folded }

    package func hash(into hasher: inout Hasher) { hasher.combine(folded) }

    /// The labels in lower case: the case of ASCII letters does not count (RFC 1035, section 2.3.3).
    private var folded: [[UInt8]] {
        labels.map { $0.map { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) ? $0 | 0x20 : $0 } }
    }

    package static let maximumByteCount = 255
    static let maximumLabelBytes = 63
}

/// A resource record of a type that browsing needs.
package struct DNSRecord: Equatable {
    package enum Content: Equatable {
        case ptr(DNSName)
        case srv(port: UInt16, host: DNSName)
        case txt([[UInt8]])
        case address(IPAddress)
    }

    package var name: DNSName
    package var content: Content
}

/// Encodes questions and decodes answers.
package enum DNSMessage {
    /// The message is malformed, or not an answer to the question.
    package struct Malformed: Error {}

    /// Limit on the records of one message; more than any honest responder sends.
    package static let maximumRecords = 128
    /// The largest multicast DNS message (RFC 6762, section 17).
    static let maximumByteCount = 9000

    private static let typePTR: UInt16 = 12
    private static let typeTXT: UInt16 = 16
    private static let typeSRV: UInt16 = 33
    private static let typeA: UInt16 = 1
    private static let typeAAAA: UInt16 = 28
    private static let classIN: UInt16 = 1
    /// Masks the cache-flush bit of the class (RFC 6762, section 10.2).
    private static let classMask: UInt16 = 0x7fff

    /// Encodes a question for the PTR records of `name`.
    static func question(id: UInt16, ptrOf name: DNSName) -> [UInt8] {
        var bytes: [UInt8] = []
        func append(_ value: UInt16) { bytes += [UInt8(value >> 8), UInt8(value & 0xff)] }
        append(id)
        for field: UInt16 in [0, 1, 0, 0, 0] { append(field) }
        for label in name.labels {
            bytes.append(UInt8(label.count))
            bytes += label
        }
        bytes.append(0)
        append(typePTR)
        append(classIN)
        return bytes
    }

    /// Decodes the records of an answer to the question `id`; records of other types and classes are skipped.
    package static func records(of message: [UInt8], answering id: UInt16) throws(Malformed) -> [DNSRecord] {
        guard message.count <= maximumByteCount else { throw Malformed() }
        var reader = Reader(bytes: message)
        guard try reader.number() == id else { throw Malformed() }
        let flags = try reader.number()
        // QR = 1, OPCODE = 0 (standard query), RCODE = 0.
        guard flags & 0xf80f == 0x8000 else { throw Malformed() }
        let questions = try reader.number()
        let count = Int(try reader.number()) + Int(try reader.number()) + Int(try reader.number())
        guard questions <= 1, count <= maximumRecords else { throw Malformed() }
        for _ in 0..<questions {
            _ = try reader.name()
            try reader.skip(4)
        }
        var records: [DNSRecord] = []
        for _ in 0..<count {
            if let record = try record(from: &reader) { records.append(record) }
        }
        guard reader.isAtEnd else { throw Malformed() }
        return records
    }

    private static func record(from reader: inout Reader) throws(Malformed) -> DNSRecord? {
        let name = try reader.name()
        let (type, recordClass) = (try reader.number(), try reader.number() & classMask)
        try reader.skip(4)
        let length = Int(try reader.number())
        var data = try reader.slice(length)
        try reader.skip(length)
        guard recordClass == classIN else { return nil }
        let content: DNSRecord.Content
        switch type {
        case typePTR: content = .ptr(try data.name())
        case typeSRV:
            try data.skip(4)
            content = .srv(port: try data.number(), host: try data.name())
        case typeTXT:
            var strings: [[UInt8]] = []
            while !data.isAtEnd { strings.append(try data.string()) }
            content = .txt(strings)
        case typeA, typeAAAA:
            let bytes = try data.rest()
            guard bytes.count == (type == typeA ? 4 : 16), let address = IPAddress(bytes: bytes) else { throw Malformed() }
            content = .address(address)
        default: return nil
        }
        guard data.isAtEnd else { throw Malformed() }
        return DNSRecord(name: name, content: content)
    }

    /// Reads a part of a message. Names may contain pointers to earlier parts (RFC 1035, section 4.1.4).
    private struct Reader {
        let bytes: [UInt8]
        var position = 0
        let end: Int

        init(bytes: [UInt8]) {
            self.bytes = bytes
            end = bytes.count
        }

        private init(bytes: [UInt8], position: Int, end: Int) {
            self.bytes = bytes
            self.position = position
            self.end = end
        }

        var isAtEnd: Bool { position == end }

        func slice(_ count: Int) throws(Malformed) -> Reader {
            guard count <= end - position else { throw Malformed() }
            return Reader(bytes: bytes, position: position, end: position + count)
        }

        mutating func skip(_ count: Int) throws(Malformed) {
            guard count <= end - position else { throw Malformed() }
            position += count
        }

        mutating func byte() throws(Malformed) -> UInt8 {
            try skip(1)
            return bytes[position - 1]
        }

        mutating func number() throws(Malformed) -> UInt16 {
            let high = try byte()
            return UInt16(high) << 8 | UInt16(try byte())
        }

        mutating func string() throws(Malformed) -> [UInt8] {
            let count = Int(try byte())
            try skip(count)
            return Array(bytes[position - count..<position])
        }

        mutating func rest() throws(Malformed) -> [UInt8] {
            defer { position = end }
            return Array(bytes[position..<end])
        }

        /// A pointer must lead to a position before the part that contains it, so that pointers cannot form a loop.
        mutating func name() throws(Malformed) -> DNSName {
            var labels: [[UInt8]] = []
            var total = 1
            var cursor = self
            var start = position
            var hasJumped = false
            while true {
                let head = try cursor.byte()
                switch head >> 6 {
                case 0 where head == 0:
                    if !hasJumped { position = cursor.position }
                    return DNSName(labels)
                case 0:
                    let count = Int(head)
                    try cursor.skip(count)
                    total += count + 1
                    guard total <= DNSName.maximumByteCount else { throw Malformed() }
                    labels.append(Array(bytes[cursor.position - count..<cursor.position]))
                case 3:
                    let target = Int(head & 0x3f) << 8 | Int(try cursor.byte())
                    if !hasJumped { position = cursor.position }
                    hasJumped = true
                    guard target < start else { throw Malformed() }
                    start = target
                    cursor = Reader(bytes: bytes, position: target, end: bytes.count)
                default: throw Malformed()
                }
            }
        }
    }
}
