import Glibc
import NearshareEdges
import NearshareTesting

@testable import NearshareVoice

/// Signals that tests know in advance.
enum Tones {
    static func sine(seconds: Double, hz: Double = 440, rate: Int = 16_000, amplitude: Double = 12_000) -> [Int16] {
        (0..<Int(seconds * Double(rate))).map { Int16(amplitude * sin(2 * .pi * hz * Double($0) / Double(rate))) }
    }

    static func silence(seconds: Double, rate: Int = 16_000) -> [Int16] {
        [Int16](repeating: 0, count: Int(seconds * Double(rate)))
    }

    /// The best correlation of two signals, -1 to 1, over shifts of up to `shift` samples either way.
    static func correlation(_ left: [Int16], _ right: [Int16], shift: Int) -> Double {
        (-shift...shift).map { offset in
            var product = 0.0
            var leftSquare = 0.0
            var rightSquare = 0.0
            for index in max(0, -offset)..<min(left.count, right.count - offset) {
                let (a, b) = (Double(left[index]), Double(right[index + offset]))
                product += a * b
                leftSquare += a * a
                rightSquare += b * b
            }
            return product / max(1, (leftSquare * rightSquare).squareRoot())
        }.max() ?? 0
    }
}

/// A folder with one note in it, which goes away with the test.
final class Scratch {
    let path: String

    init() {
        var template = Array("/tmp/nearshare-voice-XXXXXX".utf8CString)
        path = String(cString: mkdtemp(&template))
    }

    deinit {
        unlink("\(path)/note.opus")
        rmdir(path)
    }

    func file() throws -> NoteFile { try NoteFile.create("\(path)/note.opus")! }
}
