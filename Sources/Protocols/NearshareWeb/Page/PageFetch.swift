internal import NearshareBase
package import NearshareHTTP

/// A chunk that a browser fetches. Its content is read and sealed outside the machine.
package struct PageFetch: Sendable, Hashable {
    package let offer: PageMachine.OfferID
    /// The number of the item, from 1; 0 for the list of the items.
    package let item: UInt32
    package let index: UInt32
    let keys: PageKeys
    /// The nonce of the record: a chunk that is fetched again gets a new one, because a file may have changed.
    let number: UInt64

    // Offer and number identify a fetch; keys are not compared.
    package static func == (left: PageFetch, right: PageFetch) -> Bool {
        left.offer == right.offer && left.number == right.number
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(offer)
        hasher.combine(number)
    }

    /// The response with the content.
    /// - Parameter isLast: whether the item ends with it.
    package func response(_ content: some Collection<UInt8>, isLast: Bool) -> HTTPResponse {
        var bytes = ByteWriter()
        bytes.write(item)
        bytes.write(index)
        bytes.write(isLast ? UInt8(1) : 0)
        bytes.write(Array(content))
        return HTTPResponse(.ok, body: keys.seal(bytes.bytes, .content, number: number))
    }
}
