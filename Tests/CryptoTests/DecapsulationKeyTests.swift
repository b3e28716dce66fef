import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

@Suite("ML-KEM-768") struct DecapsulationKeyTests {
    /// Seed, ciphertext and secrets were made with kyber-py 1.2.0: `key_derive`, `_encaps_internal` with the bytes 100 to 131, and
    /// `decaps`.
    private static let seed = [UInt8](0..<64)
    private static let ciphertext = """
        d7af68f8d84dc1ab7834a3ba91be5583152be073981e6f8e077b791eeac0b43d3d609da33620c1b9cc7bb43ea7a519d09274ef0d2acb1b3c\
        6e9ed58339d976cef358e0b14cf8be319d1b5e7cc5f2263cee07786e0ba533670c8f4b8c0755d3f1f386b01c9308f4378da00eeb1acc951d\
        70c1d7c9ac7be8da9c53bc712c3c67175436f230588d43bd047181d3814f84a2086bab21feafc86c6c89fe3e0488b4ed141c4b4732a1782b\
        4b76ed1e3d68fb65b21a74b72577477fc7e902324f4f72dd723205b1bbd2f5cccdb122f90df9543626796b361910cef924a3d537d2f1e672\
        c0c4a90969522dcb0bac094c3642802cb0d11ad3ab9b1de3057fc74e8e048602d9023d439f7ad073e039ddc8e231546ea876e5f61786db01\
        f5211947c715521e399cba0f951d459d57cc89c392fd63ba0c8c117155e1cefd2caf75ef9670d26e7f5f4b6c64d0233cc388e1a02c195444\
        f847de44b87d110b9a4d520aad031f57650412f6b60898045044b367e2647958afa931ac72e56bb9e82a4592bb78be1160857a81f6765f87\
        6657cc747c5d38a92f9383fd49f0a2b07849a7bafa67a51d35bdb2be537bcc56c48b303170df4045bd2bc949b1aeeeab04b98afb6a0d9701\
        9e9f2902e93cc30f5f656f049798f5a9d3dc052348dfd30e510f89d16b3635bc45eafaf94239bb3a219646d7527a596808bc1beec7ce8e84\
        d15e44e2951a6e971af3730b37500bc062e09d69417fc8c2505087f8923b3726370d39d167eedb8be6f6b26190f351268d6cc49029d7a3db\
        d2e17064beed541235cfc51c5d9eb364129e85db396e44388c9a527175cdcc7f0dc9a4a65ecbf8f8a4375ae7058504e08c75d27a6e4f5a99\
        ff845e2ec17b93c542f834e4d575c6a0f61ed07bc901d1d58b98930cf091279c06f65399eeff5c2976cf385880635c12008f0ff9c1d1a271\
        d891a92a69d55da9745abc247bf212215c494be7721ebd8dcdcdc6ad39fe4528ec7022fed434b1808efee58f76d65d92d2d6b03a1c085195\
        a41302a4b4d8c0a927c85879a19beb9f8afdf0e732a84974f0d1bc8ec0de0e33a4846bb33950dbfb8cae3029db3eda5dcfefa467dfc8f72e\
        2835830cad0faa4e1353e367240d1a2d5c20004ed77c34d00447fcea610abaecf0861e37f1981f20d3d5496e2314511544416409fdbdbbf4\
        650c917b2221b6f2cd8e7ceaacd52bc3810058fec9aefb8a4d4e2315a100b6c4d3131645a2d0cbfda92f2b6fb14307d3b801e670af92395d\
        0831ba92d60cd4095cbf091ad7b8eacdd6bd400dcd218012404db7a3c673efe2788d94dbb93a65028f6881f8b7a3891f00fe66b451a844e2\
        3d125bf1cecc0e115bb5beff6df9f8a548c9a65700ae8a583c7f60668125a57b5da708167355ab6a95782f7c09391e114dec97febcd2dc6f\
        2f098d9a726942754598fc22fcac687079620ac19c63ca52411e9a0b60d670e05423a127fbd30bc83d385f2915004b04504a4d6d1b804669\
        7dd3d3ad9c99ca0ef2f7a0913d8227421fba29af66029bdb
        """

    @Test("the key and the secret are those of another implementation") func vector() throws {
        let key = try DecapsulationKey(seed: Self.seed)
        #expect(key.encapsulationKey.count == DecapsulationKey.encapsulationKeyByteCount)
        #expect(
            Hex.encode(SHA256Hasher.digest(key.encapsulationKey))
                == "0b7934c83125c788995e2ba6bd761e33046b3e40571be53e023309a29f398cc9")
        let ciphertext = try #require(Hex.decode(Self.ciphertext))
        #expect(ciphertext.count == DecapsulationKey.ciphertextByteCount)
        let secret = try key.decapsulate(ciphertext)
        #expect(hex(secret) == "c5a74110c158acbaf9c01deb86fa6cc10c14533feda54bec1fdd000d61f07e4e")
        var altered = ciphertext
        altered[5] ^= 1
        let other = try key.decapsulate(altered)
        #expect(hex(other) == "29cc94733ef520f7254d378103a269d52e0417606ae5e707355c75fa7bad93de")
    }

    @Test("both ends have the same secret, a new one each time") func agreement() throws {
        let key = try DecapsulationKey(seed: Self.seed)
        let (first, second) = (
            try DecapsulationKey.encapsulate(to: key.encapsulationKey),
            try DecapsulationKey.encapsulate(to: key.encapsulationKey)
        )
        #expect(hex(try key.decapsulate(first.ciphertext)) == hex(first.secret))
        #expect(hex(first.secret) != hex(second.secret) && first.secret.count == 32)
    }

    @Test("R7: keys and ciphertexts of other lengths, and keys with coefficients out of range, are rejected") func refusals()
        throws
    {
        let key = try DecapsulationKey(seed: Self.seed)
        for count in [0, 1, 1087, 1089] {
            #expect(throws: CryptoError.self) { try key.decapsulate([UInt8](repeating: 0, count: count)) }
        }
        for count in [0, 1, 1183, 1185] {
            #expect(throws: CryptoError.notCanonical) {
                try DecapsulationKey.encapsulate(to: [UInt8](repeating: 0, count: count))
            }
        }
        // FIPS 203, section 7.2: the modulus check.
        let large = [UInt8](repeating: 0xff, count: 1184)
        #expect(throws: CryptoError.notCanonical) { try DecapsulationKey.encapsulate(to: large) }
        #expect(throws: CryptoError.self) { try DecapsulationKey(seed: [UInt8](repeating: 0, count: 63)) }
    }

    private func hex(_ secret: SecretBytes) -> String { secret.withUnsafeBytes { Hex.encode(Array($0)) } }
}
