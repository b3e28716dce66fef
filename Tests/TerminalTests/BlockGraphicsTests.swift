import NearshareBase
import Testing

@testable import NearshareTerminal

@Suite struct BlockGraphicsTests {
    private let plain = ANSIStyle(isEnabled: false)

    @Test("bars reach from a line to the top, in eighths")
    func chart() {
        #expect(BlockGraphics.chart([0, 0.25, 0.5, 0.75, 1, 2, -1], rows: 2) == ["   ▄██ ", "▁▄████▁"])
    }

    @Test("a meter has its width at every level", arguments: [-1, 0, 0.001, 0.3, 0.7, 0.95, 1, 7])
    func meter(_ level: Double) {
        for width in 1...40 { #expect(BlockGraphics.levelMeter(level, width: width, style: plain).count == width) }
    }

    @Test("a meter warns near the top")
    func colors() {
        let style = ANSIStyle(isEnabled: true)
        #expect(!BlockGraphics.levelMeter(0.5, width: 20, style: style).contains("\u{1b}[33m"))
        #expect(BlockGraphics.levelMeter(0.8, width: 20, style: style).contains("\u{1b}[33m"))
        #expect(BlockGraphics.levelMeter(1, width: 20, style: style).contains("\u{1b}[31m"))
    }

    @Test("a progress bar has its width at every share", arguments: [-1, 0, 0.01, 0.5, 0.999, 1, 2])
    func progressBar(_ share: Double) {
        for width in 1...30 { #expect(BlockGraphics.progressBar(share, width: width).count == width) }
        #expect(BlockGraphics.progressBar(1, width: 4) == "████")
        #expect(BlockGraphics.progressBar(0, width: 4) == "░░░░")
    }

    @Test("a slider shows its position, also outside its range", arguments: [(-1, 0), (0, 0), (0.5, 5), (1, 9), (3, 9)])
    func slider(_ share: Double, _ position: Int) {
        let slider = BlockGraphics.slider(share, width: 10, style: plain)
        #expect(slider.count == 10)
        #expect(slider.firstIndex(of: "●").map { slider.distance(from: slider.startIndex, to: $0) } == position)
    }
}
