/// The services and limits that both GATT roles use. BlueZ writes UUIDs in lower case.
enum GATTProfile {
    /// bitchat's service (its specification, section 11), with one characteristic: centrals write, peripherals notify.
    static let meshService = "f47b5e2d-4a9e-4c5a-9b3f-8e1d2c3a4b5c"
    static let meshCharacteristic = "a1b2c3d4-e5f6-4a5b-8c9d-0e1f2a3b4c5d"

    /// nearshare's own service, with one characteristic to read: the ``ServiceRecord``.
    static let recordService = "6e736872-7265-4b1d-9a53-0b7c41e6a2d0"
    static let recordCharacteristic = "6e736872-7265-4b1d-9a53-0b7c41e6a2d1"

    /// The Generic Attribute service, which BlueZ lists for every device whose services it has discovered.
    static let attributeService = "00001801-0000-1000-8000-00805f9b34fb"

    /// The longest write that BlueZ before 5.69 accepts, in bytes. The other side's version is unknown, so no write is longer.
    static let maximumWriteSize = 510

    /// The ATT header of a write or notification: opcode and handle, in bytes.
    static let headerSize = 3

    /// The longest frame that fits into one write or notification, in bytes.
    /// - Parameter mtu: the connection's ATT MTU.
    static func frameLimit(mtu: Int) -> Int { min(mtu - headerSize, maximumWriteSize) }
}
