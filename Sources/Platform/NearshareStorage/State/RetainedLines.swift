internal import FoundationEssentials
internal import NearshareBase

/// The lines of a log of peers that stay when it has become too long: keys are free, so no number of peers can push out what
/// the user's friends have sent, and no peer what others have (R6).
struct RetainedLines {
    /// Bytes that stay.
    let byteCount: Int

    /// Bytes that stay of each peer before the newest lines of all.
    private var byteCountPerPeer: Int { byteCount / 8 }
    /// Bytes that stay of all friends together before those of others.
    private var friendsByteCount: Int { byteCount / 2 }

    /// The lines of friends, the lines of each peer, up to their shares, and then the newest of all.
    /// - Parameters:
    ///   - lines: the oldest first.
    ///   - isFriend: whether a decoded line is a friend's.
    func select<Line: Decodable & Hashable>(
        from lines: [ArraySlice<UInt8>], _ type: Line.Type, isFriend: (Line) -> Bool
    ) -> [ArraySlice<UInt8>] {
        // Lines that name no peer share one place.
        let peers = lines.map { try? JSONDecoder().decode(type, from: Data($0)) }
        let friends = Set(Set(peers.compactMap(\.self)).filter(isFriend))
        var (left, leftForFriends) = (byteCount, friendsByteCount)
        var used: [Line?: Int] = [:]
        var isRetained = [Bool](repeating: false, count: lines.count)
        func retain(_ index: Int) {
            left -= lines[index].count + 1
            used[peers[index], default: 0] += lines[index].count + 1
            isRetained[index] = true
        }
        for index in lines.indices.reversed() {
            let size = lines[index].count + 1
            guard let peer = peers[index], friends.contains(peer), size <= leftForFriends,
                used[peer, default: 0] + size <= byteCountPerPeer
            else { continue }
            leftForFriends -= size
            retain(index)
        }
        for index in lines.indices.reversed() where !isRetained[index] {
            let size = lines[index].count + 1
            if used[peers[index], default: 0] + size <= byteCountPerPeer, size <= left { retain(index) }
        }
        for index in lines.indices.reversed() where !isRetained[index] {
            guard lines[index].count + 1 <= left else { break }
            retain(index)
        }
        return lines.indices.filter { isRetained[$0] }.map { lines[$0] }
    }
}
