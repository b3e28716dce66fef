import NearshareBase
import Testing

@testable import NearshareBundles

@Suite("rates of the work of neighbours")
struct BundleBudgetsTests {
    private func host(_ number: Int) -> BundleBudgets.Payer { .host(BundleHost(address: "10.0.0.\(number)")) }

    private func now(_ seconds: Double) -> MonotonicInstant { RouterFixtures.moment(seconds).monotonic }

    @Test("M13, B9: a host's reports are limited in number and bytes, independently of other hosts")
    func reportRate() {
        let settings = BundleRouterSettings()
        var budgets = BundleBudgets(settings: settings)
        func admitted(_ number: Int, byteCount: Int, at seconds: Double) -> Int {
            let cost = 1 + Double(byteCount / settings.reportByteCount)
            return (0..<1_000).count { _ in budgets.consume(.reports, cost, by: host(number), now: now(seconds)) }
        }
        #expect(admitted(1, byteCount: ReachabilityFilter.maximumByteCount, at: 0) == 5)
        #expect(admitted(2, byteCount: 100, at: 0) == 40)
        // It can report again after a while.
        #expect(admitted(1, byteCount: ReachabilityFilter.maximumByteCount, at: 10) == 3)
    }

    @Test("B11, M2: twelve hosts cause as many checks as one, each keeps its share, and a contact has a rate of its own")
    func sharedChecks() {
        /// The checks that are admitted in a minute after the burst, by hosts that ask for ten times as many: of the first, and of all.
        func admittedCounts(hostCount: Int, isBesideContact: Bool = false) -> (first: Int, all: Int, contact: Int) {
            var budgets = BundleBudgets(settings: BundleRouterSettings())
            let contact = BundleBudgets.Payer.contact(RouterFixtures.endpoint(1))
            var (first, all, contacts) = (0, 0, 0)
            for turn in 0..<7_000 {
                let clock = now(Double(turn) / 100)
                for number in 0..<12 {
                    let isAdmitted = budgets.consume(.signatureChecks, by: host(number % hostCount), now: clock)
                    guard isAdmitted, turn >= 1_000 else { continue }
                    all += 1
                    if number % hostCount == 0 { first += 1 }
                }
                guard isBesideContact, turn >= 1_000, turn % 2 == 0 else { continue }
                if budgets.consume(.signatureChecks, by: contact, now: clock) { contacts += 1 }
            }
            return (first, all, contacts)
        }
        #expect((5_950...6_150).contains(admittedCounts(hostCount: 1).all))
        let twelve = admittedCounts(hostCount: 12, isBesideContact: true)
        #expect((5_900...6_200).contains(twelve.all))
        // A twelfth of the rate, whatever the others ask for.
        #expect(twelve.first >= 490)
        // All that it asks for.
        #expect(twelve.contact == 3_000)
    }

    @Test("B5, R6: any number of hosts has few accounts, and the first bundle of each is stored")
    func manyHosts() {
        var budgets = BundleBudgets(settings: BundleRouterSettings())
        for number in 0..<5_000 {
            let payer = BundleBudgets.Payer.host(BundleHost(link: UInt64(number)))
            let isAdmitted = budgets.consume(.storedBytes, Double(Bundle.maximumQuotaByteCount), by: payer, now: now(1))
            #expect(isAdmitted)
        }
        #expect(budgets.byteCount < 128 << 10)
        budgets.sweep(now: now(200))
        #expect(budgets.byteCount < 8 << 10)
    }
}
