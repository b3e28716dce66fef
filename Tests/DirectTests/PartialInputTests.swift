import Testing

@testable import NearshareDirect

@Suite struct PartialInputTests {
    @Test("fewer bytes than were looked at are gathered alone, and the others stay pending")
    func gatherAfterPeek() {
        var input = PartialInput()
        let bytes: [UInt8] = [1, 2, 3, 4, 5, 6]
        bytes.withUnsafeBytes { buffer in
            var rest = buffer
            let peeked = input.peek(5, of: &rest)
            #expect(peeked == [1, 2, 3, 4, 5])
            let first = input.gather(3, from: &rest)
            #expect(first == [1, 2, 3] && rest.count == 1)
            #expect(input.first(of: rest) == 4)
            let short = input.gather(4, from: &rest)
            #expect(short == nil && rest.isEmpty)
            let last = input.gather(3, from: &rest)
            #expect(last == [4, 5, 6] && input.first(of: rest) == nil)
        }
    }
}
