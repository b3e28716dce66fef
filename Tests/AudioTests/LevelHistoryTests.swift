import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareAudio

@Suite struct LevelHistoryTests {
    private func history(_ samples: [Int16], part: Int) -> [Double] {
        var history = LevelHistory(rate: 8000)
        var rest = samples[...]
        while !rest.isEmpty {
            Array(rest.prefix(part)).withUnsafeBufferPointer { history.append($0) }
            rest = rest.dropFirst(part)
        }
        return history.levels
    }

    @Test("one level for each tenth of a second, however the samples arrive", arguments: [1, 799, 800, 801, 10_000])
    func parts(_ part: Int) {
        let samples = [Int16](repeating: 8192, count: 800) + [Int16](repeating: 0, count: 800) + [Int16.min]
        #expect(history(samples, part: part) == [0.5, 0])
    }

    @Test("full scale of either sign is 1, and the number of levels is bounded")
    func bounds() {
        #expect(history([Int16](repeating: .min, count: 800), part: 800) == [1])
        #expect(history([Int16](repeating: 0, count: 800 * 300), part: 4096).count == 240)
    }
}
