internal import NearshareInterfaces

/// A request of ``ConnectionScheduler`` to its owner.
enum ConnectionReaction: Equatable {
    /// Call BlueZ without waiting; the reply goes to ``ConnectionScheduler/complete(_:attempt:of:at:in:)``.
    case call(DeviceCall, path: String, attempt: Int)
    /// Call `Device1.Disconnect`.
    case disconnect(path: String)
    /// Call `Adapter1.RemoveDevice`, so that BlueZ reports the device anew.
    case removeFromBlueZ(path: String)
    /// Read the properties of a device that is not in the table, and add it with them.
    case readProperties(path: String)
    case stopDiscovery
    /// Create the ``GATTClientLink`` of a device.
    case openLink(path: String, attempt: Int, FrameDescriptors)
    case closeLink(path: String)
    /// An advertisement of a device with a link was received.
    case signalChanged(path: String, SignalReading)
    /// Other parts drop what they have for this device, too.
    case removed(path: String)
    /// A device has connected to the adapter, or disconnected from it.
    case adapterConnectionsChanged
    case emit(DiscoveryEvent)
    case log(String)
    /// For the user: a condition that does not go away by itself.
    case warn(String)

    /// The sockets for one link's frames, and the ATT MTU of its connection.
    struct FrameDescriptors: Equatable {
        let writing: OwnedDescriptor
        let notifications: OwnedDescriptor
        let mtu: Int

        static func == (left: Self, right: Self) -> Bool {
            left.writing === right.writing && left.notifications === right.notifications && left.mtu == right.mtu
        }
    }
}

/// A method call about one remote device.
enum DeviceCall: Equatable {
    /// `Device1.Connect`
    case connect
    /// `ObjectManager.GetManagedObjects`: BlueZ announces `ServicesResolved` before all objects where it has cached them.
    case listServices
    /// `GattCharacteristic1.ReadValue`
    case readRecord(characteristic: String)
    /// `GattCharacteristic1.AcquireNotify`
    case acquireNotify(characteristic: String)
    /// `GattCharacteristic1.AcquireWrite`
    case acquireWrite(characteristic: String)
}

/// BlueZ's reply to a ``DeviceCall``.
enum DeviceReply {
    case connected
    /// The objects themselves have been added to the table before.
    case servicesListed
    case record([UInt8]?)
    case notifications(OwnedDescriptor?)
    case writing(OwnedDescriptor?, mtu: Int)
    /// - Parameter isAcquiredByOther: another program on this machine has acquired the characteristic.
    case failed(String, isAcquiredByOther: Bool)
}
