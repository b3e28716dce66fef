internal import NearshareBase

/// The rate limits of the work that neighbours cause: checking and storing bundles, and reading reports (B5, B9, B11).
///
/// Keys cost nothing, so the neighbours of a host have its rates in common, also one after the other. For bundles each host has 1/12 of
/// a rate to itself, without a burst, and all hosts have one full rate in common. The share of a host pays first, and is charged to the
/// common rate up to a debt of one second: twelve hosts cause no more work than one, each further one adds its share, and what others
/// send never uses up a share (M2). A contact has full rates of its own, so a flood of other peers delays none of the bundles that it
/// hands over.
struct BundleBudgets: Sendable {
    /// The kinds of work.
    enum Work: Sendable {
        /// Checking signatures, which costs more than forging one.
        case signatureChecks
        /// Bytes of bundles whose signature is valid, as they count towards quotas: each of these is written to the disk.
        case storedBytes
        /// Reading reports, of which each host has a full rate.
        case reports
    }

    /// The peer or machine to which work is charged.
    enum Payer: Sendable, Hashable {
        /// A contact of the user, whose key is proven.
        case contact(EndpointID)
        case host(BundleHost)
    }

    /// A rate limiter for each kind of work.
    private struct Account: Sendable {
        private var signatureChecks: TokenBucket
        private var storedBytes: TokenBucket
        private var reports: TokenBucket
        /// When work was last charged to it.
        var lastUse: MonotonicInstant

        /// An account with the full rates, and their bursts.
        init(_ settings: BundleRouterSettings, now: MonotonicInstant) {
            signatureChecks = TokenBucket(
                capacity: settings.signatureBurst, perSecond: settings.signaturesPerSecond, now: now)
            storedBytes = TokenBucket(
                capacity: settings.storedByteBurst, perSecond: settings.storedBytesPerSecond, now: now)
            reports = TokenBucket(capacity: settings.reportBurst, perSecond: settings.reportsPerSecond, now: now)
            lastUse = now
        }

        /// An account with the share of a host: what is refilled in a second, and at least one bundle.
        init(shareOf settings: BundleRouterSettings, now: MonotonicInstant) {
            let checks = settings.signaturesPerSecond * BundleBudgets.hostShare
            let bytes = settings.storedBytesPerSecond * BundleBudgets.hostShare
            signatureChecks = TokenBucket(capacity: max(1, checks), perSecond: checks, now: now)
            storedBytes = TokenBucket(
                capacity: max(Double(Bundle.maximumQuotaByteCount), bytes), perSecond: bytes, now: now)
            reports = TokenBucket(capacity: settings.reportBurst, perSecond: settings.reportsPerSecond, now: now)
            lastUse = now
        }

        mutating func consume(_ work: Work, _ cost: Double, now: MonotonicInstant) -> Bool {
            lastUse = now
            switch work {
            case .signatureChecks: return signatureChecks.consume(cost, now: now)
            case .storedBytes: return storedBytes.consume(cost, now: now)
            case .reports: return reports.consume(cost, now: now)
            }
        }

        mutating func drain(_ work: Work, _ cost: Double, now: MonotonicInstant) {
            switch work {
            case .signatureChecks: signatureChecks.drain(cost, now: now)
            case .storedBytes: storedBytes.drain(cost, now: now)
            case .reports: reports.drain(cost, now: now)
            }
        }
    }

    private let settings: BundleRouterSettings
    private var accounts: [Payer: Account] = [:]
    /// The account that all hosts have in common; nil before the first work.
    private var common: Account?

    init(settings: BundleRouterSettings) {
        self.settings = settings
    }

    /// Bytes on the heap.
    var byteCount: Int { accounts.tableByteCount }

    /// Accounts for work before it is done.
    /// - Returns: false when it is not to be done.
    mutating func consume(_ work: Work, _ cost: Double = 1, by payer: Payer, now: MonotonicInstant) -> Bool {
        if accounts[payer] == nil { accounts[payer] = openAccount(of: payer, now: now) }
        let isPaid = accounts[payer]?.consume(work, cost, now: now) == true
        guard case .host = payer, work != .reports else { return isPaid }
        var shared = common ?? Account(settings, now: now)
        defer { common = shared }
        guard isPaid else { return shared.consume(work, cost, now: now) }
        shared.drain(work, cost, now: now)
        return true
    }

    /// Makes an account. Beyond the limit the one that was not used for longest is removed: it holds most of its share again.
    private mutating func openAccount(of payer: Payer, now: MonotonicInstant) -> Account {
        if accounts.count >= Self.maximumAccountCount, let oldest = accounts.min(by: { $0.value.lastUse < $1.value.lastUse }) {
            accounts[oldest.key] = nil
        }
        switch payer {
        case .contact: return Account(settings, now: now)
        case .host: return Account(shareOf: settings, now: now)
        }
    }

    /// Removes accounts whose buckets are full again, and returns memory.
    mutating func sweep(now: MonotonicInstant) {
        accounts = accounts.filter { now - $0.value.lastUse < Self.accountLifetime }
        accounts.shrink()
    }

    /// The part of a rate that each host has to itself.
    private static let hostShare = 1.0 / 12
    private static let maximumAccountCount = 256
    /// The time that an empty bucket takes to fill, with the rates of the settings.
    private static let accountLifetime = Duration.seconds(20)
}
