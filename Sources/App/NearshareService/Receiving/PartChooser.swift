internal import Glibc
package import Nearshare

/// The lines from which the user selects a part of an offer: the listed entries, then the items beyond them, numbered from 1.
package struct PartChooser: Sendable {
    /// The meaning of what the user has typed.
    package enum Choice: Sendable, Hashable {
        case part(OfferPart)
        /// Everything is selected.
        case all
        /// - Parameter hint: the reason, for the user.
        case invalid(hint: String)
    }

    private struct Line {
        var item: UInt32
        var path: [ClaimedFileName]
        var isFolder: Bool
        /// The entry itself, and the entries in it.
        var range: ClosedRange<UInt64>
        /// Whether ``range`` contains all entries in it: a list can end inside a folder.
        var isComplete = true
        var text: String
    }

    private let offer: Offer
    private let listed: [EntryHeader]
    private var lines: [Line] = []

    /// The lines that fit on a small terminal with the question below them.
    private static let pageLineCount = 18

    /// The hint for an answer that selects nothing.
    /// - Parameter question: its number, where the answer needs it.
    static func missingSelection(of question: Int?) -> String {
        let number = question.map { "\($0) " } ?? ""
        return #"which ones? numbers and patterns, as in "p \#(number)1-3,7 *.jpg"; l lists them"#
    }

    package init(_ offer: Offer, listed: [EntryHeader]) {
        (self.offer, self.listed) = (offer, listed)
        let listedEnd = UInt64(listed.count)
        for (number, entry) in listed.enumerated() {
            let rest = entry.kind == .folder ? listed[(number + 1)...] : []
            let inside = rest.prefix { $0.item == entry.item && $0.path.starts(with: entry.path) }.count
            let isTruncated = number + 1 + inside == listed.count && listedEnd < offer.entryCount
            lines.append(
                Line(
                    item: entry.item, path: entry.path, isFolder: entry.kind == .folder,
                    range: UInt64(number)...UInt64(number + inside), isComplete: entry.kind != .folder || !isTruncated,
                    text: OfferText.line(entry)))
        }
        var first: UInt64 = 0
        for (number, item) in offer.items.enumerated() {
            let range = first...first.addingClamped(item.entryCount.subtractingClamped(1))
            first = first.addingClamped(item.entryCount)
            if range.lowerBound >= listedEnd {
                lines.append(
                    Line(
                        item: UInt32(number), path: [item.name], isFolder: item.kind == .folder, range: range,
                        text: OfferText.line(item)))
            } else if lines[Int(range.lowerBound)].path.count == 1 {
                (lines[Int(range.lowerBound)].range, lines[Int(range.lowerBound)].isComplete) = (range, true)
            }
        }
    }

    /// The lines with their numbers, in pages of whole lines; empty for a single line, which the question shows.
    package var pages: [String] {
        guard lines.count > 1 else { return [] }
        let width = "\(lines.count)".count
        let numbered = lines.enumerated().map { index, line in
            let number = "\(index + 1)"
            return "  \(String(repeating: " ", count: width - number.count))\(number)  \(line.text)\n"
        }
        return stride(from: 0, to: numbered.count, by: Self.pageLineCount).map { start in
            let end = min(start + Self.pageLineCount, numbered.count)
            let page = numbered[start..<end].joined()
            if end < numbered.count {
                return page + "  … and \(UInt64(numbered.count - end).addingClamped(unlistedCount)) more\n"
            }
            return unlistedCount > 0 ? page + "  … and \(unlistedCount) more, not listed\n" : page
        }
    }

    /// The entries that have no line, neither of their own nor with their item.
    private var unlistedCount: UInt64 {
        let items = lines.dropFirst(listed.count).reduce(0 as UInt64) { count, line in
            count.addingClamped(line.range.upperBound.subtractingClamped(line.range.lowerBound)).addingClamped(1)
        }
        return offer.entryCount.subtractingClamped(UInt64(listed.count).addingClamped(items))
    }

    /// Selects lines by numbers, ranges and patterns with commas or spaces between them: `1-3,7 *.jpg`. A range without an end, as
    /// in `70-`, goes to the last line, and one without a start begins with the first.
    ///
    /// A folder selects everything in it, also in a range. A pattern with a slash matches whole paths, any other one names;
    /// letter case does not count. `all` selects everything, unless something has that name.
    package func choose(_ text: String) -> Choice {
        var chosen: [ClosedRange<UInt64>] = []
        for term in text.split(whereSeparator: { $0 == "," || $0 == " " }) {
            let indices: [Int]
            if let range = Self.range(term, count: lines.count) {
                guard range.lowerBound >= 1, range.upperBound <= lines.count else {
                    return .invalid(hint: "the list has the numbers 1 to \(lines.count)")
                }
                guard !term.hasSuffix("-") || unlistedCount == 0 else {
                    return .invalid(
                        hint:
                            "\(unlistedCount) of the entries are not listed; end the range with a number, as in \(term)\(lines.count)"
                    )
                }
                indices = Array(range.lowerBound - 1..<range.upperBound)
            } else {
                indices = lines.indices.filter { matches(term, lines[$0]) }
                if indices.isEmpty, term.lowercased() == "all" { return .all }
                guard !indices.isEmpty else {
                    let bound = unlistedCount > 0 ? ", which is without \(unlistedCount) of the entries," : ""
                    return .invalid(hint: "nothing in the list\(bound) matches \(TerminalText.quoted(String(term)))")
                }
            }
            for index in indices {
                guard lines[index].isComplete else {
                    return .invalid(
                        hint: "number \(index + 1) is not listed as a whole; select single files, or what contains it")
                }
                chosen.append(lines[index].range)
                chosen += parents(of: index)
            }
        }
        guard let selection = EntrySelection(merging: chosen) else {
            return .invalid(hint: Self.missingSelection(of: nil))
        }
        guard selection.entryCount < offer.entryCount else { return .all }
        guard let part = OfferPart(selection, of: offer, listed: listed) else {
            return .invalid(hint: "the sender's list is not complete enough for that; select single files")
        }
        return .part(part)
    }

    /// - Parameter count: of the lines, and the end of a range that has none.
    private static func range(_ term: Substring, count: Int) -> ClosedRange<Int>? {
        let ends = term.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        guard ends.contains(where: { !$0.isEmpty }),
            ends.allSatisfy({ $0.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) } })
        else { return nil }
        let (lower, upper) = (ends[0], ends[ends.count - 1])
        let first = lower.isEmpty ? 1 : Int(lower) ?? .max
        // Beyond the list it stays a range, of which the user is told that the list ends before.
        let last = upper.isEmpty ? max(first, count) : Int(upper) ?? .max
        return first <= last ? first...last : nil
    }

    private func isInside(_ index: Int, _ folder: Int) -> Bool {
        lines[folder].isFolder && lines[index].item == lines[folder].item
            && lines[index].path.count > lines[folder].path.count && lines[index].path.starts(with: lines[folder].path)
    }

    /// The folders that contain a line.
    private func parents(of index: Int) -> [ClosedRange<UInt64>] {
        lines[..<index].indices.filter { isInside(index, $0) }
            .map { lines[$0].range.lowerBound...lines[$0].range.lowerBound }
    }

    private func matches(_ pattern: Substring, _ line: Line) -> Bool {
        let names = line.path.map { OfferText.shownComponent($0) }
        guard let name = names.last else { return false }
        let text = pattern.contains("/") ? names.joined(separator: "/") : name
        return fnmatch(pattern.lowercased(), text.lowercased(), FNM_PATHNAME) == 0
    }
}
