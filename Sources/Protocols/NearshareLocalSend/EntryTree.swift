internal import NearshareBase

/// The entries of files that come in any order, as a list in which each folder is followed by what it contains.
enum EntryTree {
    private enum Child {
        case folder(Int)
        case file(Int)
    }

    private struct Folder {
        let header: EntryHeader
        var children: [Child] = []
    }

    private struct Key: Hashable {
        let item: UInt32
        let path: ArraySlice<ClaimedFileName>
    }

    /// - Parameter files: at most ``LocalSendOffer/maximumFileCount``, with the numbers of their items; those ascend by the first
    ///   file of each item.
    /// - Returns: the list, and the number of each file in it.
    static func entries(of files: [LocalSendOffer.File]) -> (entries: [EntryHeader], numbers: [Int]) {
        var folders: [Folder] = []
        var roots: [UInt32: Child] = [:]
        var numbersByPath: [Key: Int] = [:]
        for (number, file) in files.enumerated() {
            let header = file.header
            var parent: Int?
            for count in 1..<max(header.path.count, 1) {
                let key = Key(item: header.item, path: header.path[..<count])
                if let known = numbersByPath[key] {
                    parent = known
                    continue
                }
                let folder = EntryHeader(
                    item: header.item, kind: .folder, path: Array(key.path), size: 0, modified: nil, permissions: nil)
                folders.append(Folder(header: folder))
                let added = folders.count - 1
                numbersByPath[key] = added
                if let parent { folders[parent].children.append(.folder(added)) } else { roots[header.item] = .folder(added) }
                parent = added
            }
            if let parent { folders[parent].children.append(.file(number)) } else { roots[header.item] = .file(number) }
        }
        var entries: [EntryHeader] = []
        var numbers = Array(repeating: 0, count: files.count)
        // Without recursion; the last one is next.
        var open = roots.sorted { $0.key > $1.key }.map(\.value)
        while let next = open.popLast() {
            switch next {
            case .file(let number):
                numbers[number] = entries.count
                entries.append(files[number].header.listed)
            case .folder(let number):
                entries.append(folders[number].header)
                open += folders[number].children.reversed()
            }
        }
        return (entries, numbers)
    }
}
