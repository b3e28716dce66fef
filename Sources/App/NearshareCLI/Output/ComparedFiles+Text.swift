internal import Nearshare

extension ComparedFiles {
    /// A line such as "12 files, 3 new, 9 were already there"; nil where all files were sent.
    var sentence: String? {
        guard sentCount < fileCount else { return nil }
        var parts = ["\(fileCount) \(fileCount == 1 ? "file" : "files")", "\(sentCount) new"]
        if presentCount > 0 { parts.append("\(presentCount) \(presentCount == 1 ? "was" : "were") already there") }
        if newerCount > 0 {
            parts.append(
                "\(newerCount) \(newerCount == 1 ? "was left as it is" : "were left as they are") (newer or as new there)")
        }
        return parts.joined(separator: ", ")
    }

    var json: JSONValue {
        .object([
            "count": .number(fileCount), "new": .number(sentCount), "already_there": .number(presentCount),
            "not_older": .number(newerCount),
        ])
    }
}
