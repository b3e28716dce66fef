internal import NearshareBase

// Fragments of ours: one at a time on each link, at the link's pace, the transfers in turn.
extension MeshRouter {
    /// When the next fragment may go out; nil when none waits, or all that wait for do so for a link to be written.
    var nextFragment: MonotonicInstant? {
        jobs.compactMap { job in
            let targets = targets(of: job)
            guard !targets.isEmpty, !isCongested(targets, job) else { return nil }
            return targets.compactMap { links[$0]?.freeAt }.max()
        }.min()
    }

    mutating func sendDueFragments(now: MonotonicInstant) {
        var untried = jobs.count
        while untried > 0 {
            let targets = targets(of: jobs[0])
            let isDue = !targets.isEmpty && !isCongested(targets, jobs[0]) && targets.allSatisfy { links[$0]!.freeAt <= now }
            var job = jobs.removeFirst()
            guard isDue else {
                untried -= 1
                jobs.append(job)
                continue
            }
            var (packet, isRepeated) = job.removeNext()
            if isRepeated {
                // A fragment that was seen on the way before would not be passed on again.
                lastTimestamp += 1
                packet.timestamp = lastTimestamp
            }
            for link in targets {
                // Fragments are cut to fit, so encoding them can't fail.
                guard let frame = try? packet.encoded(compression: .none) else { continue }
                if frame.count <= links[link]!.profile.largestWrite {
                    links[link]!.outbox.append(frame, .bulk)
                } else {
                    // Cut for another link, which has broken since.
                    write(frame, of: packet, on: link, .own)
                }
                links[link]!.freeAt = now + links[link]!.profile.pacing
            }
            if let file = job.file { noteSent(file, isRepeated: isRepeated, job) }
            // To the end of the line: another transfer is next.
            if job.isDone {
                finished(job, now: now)
                untried = jobs.count
            } else {
                jobs.append(job)
                untried = jobs.count
            }
        }
    }

    private func targets(of job: FragmentJob) -> [MeshLinkID] {
        if let fixed = job.links { return fixed.filter { links[$0] != nil } }
        if let recipient = job.recipient, let first = peers[recipient].flatMap({ best(of: $0.links) }) {
            // Who claims to be a neighbour may not be one; what the peer has sealed came from where it is.
            guard let proven = peers[recipient]!.provenLink, links[proven] != nil else { return [first] }
            return peers[recipient]!.links.contains(proven) ? [proven] : [first, proven]
        }
        return onePerNeighbour(Set(links.keys)).sorted { $0.rawValue < $1.rawValue }
    }

    /// Some link is slower than its pace: its fragments wait to be written, or to be cut once more, and none are added.
    private func isCongested(_ targets: [MeshLinkID], _ job: FragmentJob) -> Bool {
        if targets.contains(where: { links[$0]!.outbox.bulkByteCount >= 256 << 10 }) { return true }
        guard job.links == nil else { return false }
        return targets.contains { target in jobs.count { $0.links?.contains(target) ?? false } >= Self.maximumRecutCount }
    }

    /// Each is a set that the receiver has to hold beside that of the packet itself; it holds eight of one sender.
    private static let maximumRecutCount = 2

    private mutating func finished(_ job: FragmentJob, now: MonotonicInstant) {
        guard let file = job.file else { return }
        sentAllFragments(of: file, now: now)
    }

    /// Jobs for links that are gone, whose packets nobody waits for.
    mutating func dropDeadJobs() {
        jobs.removeAll { job in job.links.map { $0.allSatisfy { links[$0] == nil } } ?? false }
    }
}
