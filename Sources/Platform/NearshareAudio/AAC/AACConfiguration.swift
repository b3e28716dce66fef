internal import NearshareBase
package import NearshareInterfaces

/// The configuration of an AAC decoder (ISO/IEC 14496-3, section 1.6.2.1: AudioSpecificConfig), as far as a length and the
/// number of channels follow from it. libfaad2 gets the bytes.
package struct AACConfiguration: Sendable, Hashable {
    package let bytes: [UInt8]
    /// Frames a second before spectral band replication (SBR), which may double them.
    package let rate: Int
    /// One or two; more channels are mixed into two.
    package let channels: Int
    /// Frames of a packet, before SBR.
    package let framesPerPacket: Int

    /// Limit on the bytes, of which two to eight are usual.
    static let maximumByteCount = 64
    private static let rates = [
        96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000,
    ]
    /// AAC Main, LC and LTP, which libfaad2 decodes.
    private static let coreTypes = 1...4
    private static let scalableRateType = 3
    /// Eight channels.
    private static let maximumLayout = 7
    private static let bandReplicationType = 5
    private static let parametricStereoType = 29

    package init(_ bytes: [UInt8]) throws(AudioError) {
        guard (2...Self.maximumByteCount).contains(bytes.count) else {
            throw AudioError(.damaged, "the configuration of its AAC sound is damaged")
        }
        self.bytes = bytes
        var bits = BitReader(bytes: bytes)
        func read(_ count: Int) throws(AudioError) -> Int {
            guard let value = bits.read(count) else {
                throw AudioError(.damaged, "the configuration of its AAC sound is damaged")
            }
            return Int(value)
        }
        func readType() throws(AudioError) -> Int {
            let type = try read(5)
            return type == 31 ? try read(6) + 32 : type
        }
        func readRate() throws(AudioError) -> Int {
            let index = try read(4)
            if index == 15 { return try read(24) }
            guard index < Self.rates.count else { throw AudioError(.damaged, "its AAC sound has a rate that is not defined") }
            return Self.rates[index]
        }
        var type = try readType()
        rate = try readRate()
        // 0 for one that the packets describe.
        let layout = try read(4)
        guard layout <= Self.maximumLayout else {
            throw AudioError(.damaged, "its AAC sound has a layout that is not supported")
        }
        let hasParametricStereo = type == Self.parametricStereoType
        if type == Self.bandReplicationType || hasParametricStereo {
            _ = try readRate()
            type = try readType()
        }
        guard Self.coreTypes.contains(type), type != Self.scalableRateType else {
            throw AudioError(.damaged, "its AAC sound is of a kind that is not supported (object type \(type))")
        }
        guard AudioFormat.rates.contains(rate) else {
            throw AudioError(.damaged, "its AAC sound has \(rate) samples a second, which is not supported")
        }
        framesPerPacket = try read(1) == 1 ? 960 : 1024
        channels = layout == 1 && !hasParametricStereo ? 1 : 2
    }
}
